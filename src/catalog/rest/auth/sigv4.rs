//! Signatures of AWS (SigV4), as Glue and S3 Tables want them.

use super::super::properties::Properties;
use crate::error::{Error, Result};

#[cfg(feature = "s3")]
pub(in super::super) use signed::SigV4;

#[cfg(feature = "s3")]
mod signed {
    use std::fmt;
    use std::sync::Arc;

    use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, AwsAuthorizer, AwsCredential};
    use object_store::client::{HttpRequest, HttpRequestBody};
    use object_store::{CredentialProvider, StaticCredentialProvider};

    use super::*;
    use crate::error::ErrorKind;

    /// What Java signs for unless told otherwise.
    const DEFAULT_SERVICE: &str = "execute-api";

    /// Signs requests.
    pub(in super::super::super) struct SigV4 {
        service: String,
        region: String,
        credentials: Arc<dyn CredentialProvider<Credential = AwsCredential>>,
    }

    impl SigV4 {
        /// Signs with the keys of the properties, or those of the environment: variables, web
        /// identity, container, instance.
        pub(in super::super) fn new(properties: &Properties) -> Result<Self> {
            let from_env = AmazonS3Builder::from_env().with_bucket_name("unused");
            let region = properties
                .get("rest.signing-region")
                .or_else(|| properties.get("client.region"))
                .map(str::to_owned)
                .or_else(|| from_env.get_config_value(&AmazonS3ConfigKey::Region))
                .ok_or_else(|| Error::invalid("the property `rest.signing-region` is missing"))?;
            let keys = |prefix: &str| {
                let get = |name: &str| properties.get(&format!("{prefix}{name}"));
                match (get("access-key-id"), get("secret-access-key")) {
                    (Some(id), Some(secret)) => Ok(Some(AwsCredential {
                        key_id: id.to_owned(),
                        secret_key: secret.to_owned(),
                        token: get("session-token").map(str::to_owned),
                    })),
                    (None, None) => Ok(None),
                    _ => Err(Error::invalid(format!(
                        "`{prefix}access-key-id` and `{prefix}secret-access-key` must be given together"
                    ))),
                }
            };
            let given = match keys("rest.")? {
                Some(keys) => Some(keys),
                None => keys("client.")?,
            };
            let credentials: Arc<dyn CredentialProvider<Credential = AwsCredential>> = match given {
                Some(keys) => Arc::new(StaticCredentialProvider::new(keys)),
                None => {
                    // A store that nobody uses: it knows all the places where keys are found.
                    let store = from_env.with_region(&region).build();
                    let store = store.map_err(|_| Error::invalid("the AWS settings of the environment"))?;
                    Arc::clone(store.credentials())
                }
            };
            let service = properties.get("rest.signing-name").unwrap_or(DEFAULT_SERVICE).to_owned();
            for (name, value) in [("rest.signing-region", &region), ("rest.signing-name", &service)] {
                if !can_be_sent(value) {
                    return Err(Error::invalid("a malformed name").context(format!("property `{name}`")));
                }
            }
            Ok(Self { service, region, credentials })
        }

        /// Signs a request whose headers are complete.
        pub(in super::super) async fn sign(&self, request: &mut reqwest::Request) -> Result<()> {
            // The cause may hold anything, so it is left out.
            let keys = self.credentials.get_credential().await.map_err(|_| {
                let message = "no keys to sign requests with; set `rest.access-key-id` and \
                               `rest.secret-access-key`, or those of the environment (`AWS_…`)";
                Error::new(ErrorKind::Io, message)
            })?;
            // The signer takes for granted that all can be sent.
            let token = keys.token.as_deref().unwrap_or_default();
            let headers =
                request.headers().values().all(|value| std::str::from_utf8(value.as_bytes()).is_ok());
            if !can_be_sent(&keys.key_id) || !can_be_sent(token) || !headers {
                return Err(Error::invalid("keys or headers with characters that can't be sent"));
            }
            let body = request.body().and_then(|body| body.as_bytes()).unwrap_or_default().to_vec();
            let mut signed = HttpRequest::new(HttpRequestBody::from(body));
            *signed.method_mut() = request.method().clone();
            *signed.uri_mut() = request
                .url()
                .as_str()
                .parse()
                .map_err(|_| Error::invalid(format!("`{}` can't be signed", request.url().path())))?;
            *signed.headers_mut() = request.headers().clone();
            AwsAuthorizer::new(&keys, &self.service, &self.region).authorize(&mut signed, None);
            *request.headers_mut() = std::mem::take(signed.headers_mut());
            Ok(())
        }
    }

    /// Whether a text fits into a header.
    fn can_be_sent(text: &str) -> bool {
        text.bytes().all(|b| b.is_ascii_graphic())
    }

    impl fmt::Debug for SigV4 {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let mut shown = f.debug_struct("SigV4");
            shown.field("service", &self.service).field("region", &self.region).finish_non_exhaustive()
        }
    }
}

/// Stands for signatures in a build that can't make them.
#[cfg(not(feature = "s3"))]
#[derive(Debug)]
pub(in super::super) struct SigV4 {}

#[cfg(not(feature = "s3"))]
impl SigV4 {
    pub(super) fn new(_: &Properties) -> Result<Self> {
        Err(Error::unsupported("this build of icefloe can't sign requests; turn on its Cargo feature `s3`"))
    }

    pub(super) async fn sign(&self, _: &mut reqwest::Request) -> Result<()> {
        Ok(())
    }
}
