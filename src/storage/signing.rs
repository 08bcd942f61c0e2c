//! Requests to S3 that somebody else signs: a catalog's server, which keeps the keys to itself.

use std::collections::HashMap;
use std::sync::Arc;

use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
    ReqwestConnector,
};

use super::vended::{CredentialSource, SignedRequest, UnsignedRequest};
use crate::error::Error;

/// What S3 wants in place of the hash of a body that is not signed.
const UNSIGNED_PAYLOAD: &str = "UNSIGNED-PAYLOAD";

/// Makes clients whose requests are signed by `signer`.
#[derive(Debug, Clone)]
pub(super) struct SigningConnector {
    pub(super) signer: Arc<dyn CredentialSource>,
    pub(super) region: String,
}

impl HttpConnector for SigningConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(Signing { connector: self.clone(), client }))
    }
}

#[derive(Debug)]
struct Signing {
    connector: SigningConnector,
    client: HttpClient,
}

#[async_trait::async_trait]
impl HttpService for Signing {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let failed = |e: Error| HttpError::new(HttpErrorKind::Unknown, e);
        let unsigned = describe(&request, &self.connector.region).map_err(failed)?;
        let asked = unsigned.headers.clone();
        let signed = self.connector.signer.sign(unsigned).await.map_err(failed)?;
        apply(&mut request, signed, asked).map_err(failed)?;
        self.client.execute(request).await
    }
}

fn describe(request: &HttpRequest, region: &str) -> Result<UnsignedRequest, Error> {
    let mut headers: HashMap<String, String> = HashMap::new();
    for (name, value) in request.headers() {
        let value = value.to_str().map_err(|_| Error::invalid(format!("header `{name}` can't be signed")))?;
        let joined = headers.entry(name.as_str().to_owned()).or_default();
        if !joined.is_empty() {
            joined.push_str(", ");
        }
        joined.push_str(value);
    }
    headers.entry("x-amz-content-sha256".to_owned()).or_insert_with(|| UNSIGNED_PAYLOAD.to_owned());
    if let Some(authority) = request.uri().authority() {
        headers.entry("host".to_owned()).or_insert_with(|| authority.to_string());
    }
    // Which files are to be removed is in the body, and the signer wants to know.
    let names_files = request.method().as_str() == "POST"
        && request.uri().query().is_some_and(|q| q.split('&').any(|p| p.split('=').next() == Some("delete")));
    let body = request.body().as_bytes().filter(|_| names_files);
    let body = body.map(|body| String::from_utf8_lossy(body).into_owned());
    Ok(UnsignedRequest {
        method: request.method().to_string(),
        uri: request.uri().to_string(),
        region: region.to_owned(),
        headers: headers.into_iter().collect(),
        body,
    })
}

/// Takes over what the signer gave: it may name a place to send the request to, but no other host.
fn apply(
    request: &mut HttpRequest,
    signed: SignedRequest,
    asked: std::collections::BTreeMap<String, String>,
) -> Result<(), Error> {
    let uri = signed.uri.parse().map_err(|_| Error::invalid("the signer gave a malformed URI"))?;
    let before = std::mem::replace(request.uri_mut(), uri);
    let same = request.uri().scheme() == before.scheme() && request.uri().authority() == before.authority();
    if !same {
        return Err(Error::invalid("the signer sends the request elsewhere"));
    }
    let mut headers: HashMap<String, String> = asked.into_iter().collect();
    for (name, value) in signed.headers {
        headers.insert(name.to_ascii_lowercase(), value);
    }
    // It is about the signer's reply, not about the file.
    headers.remove("cache-control");
    *request.headers_mut() =
        (&headers).try_into().map_err(|_| Error::invalid("the signer gave headers that can't be sent"))?;
    Ok(())
}
