//! Builds the store behind a [`StoreKey`] from properties and the environment.

use std::sync::Arc;

use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;

use super::location::{StoreKey, StoreKind};
use super::properties::StorageProperties;
#[cfg(feature = "s3")]
use super::properties::check_sent;
use super::vended::Vended;
use crate::error::{Error, Result};

/// Builds the store of `key`. The credentials among `properties` are renewed by `vended`, for its
/// prefix, if those of a prefix are.
///
/// # Errors
/// `Unsupported` if its Cargo feature is off, or a property asks for something that is not done;
/// `DataInvalid` for malformed properties. The message never holds a secret.
#[cfg_attr(
    not(any(feature = "s3", feature = "gcs", feature = "azure", feature = "http")),
    allow(unused_variables, reason = "only stores of the network have properties")
)]
pub(super) fn build(
    key: &StoreKey,
    properties: &StorageProperties,
    vended: Option<(&Arc<Vended>, &str)>,
) -> Result<Arc<dyn ObjectStore>> {
    #[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
    let renewed = vended
        .filter(|(vended, _)| vended.renews())
        .map(|(vended, prefix)| Renewed { vended: Arc::clone(vended), prefix: prefix.to_owned() });
    #[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
    if matches!(key.kind(), StoreKind::S3 | StoreKind::Gcs | StoreKind::Azure) {
        properties.check_sent()?;
    }
    match key.kind() {
        StoreKind::File => Ok(Arc::new(LocalFileSystem::new())),
        StoreKind::Memory => Ok(Arc::new(InMemory::new())),
        #[cfg(feature = "s3")]
        StoreKind::S3 => s3::build(key, properties, renewed, vended.and_then(|(vended, _)| vended.source())),
        #[cfg(feature = "gcs")]
        StoreKind::Gcs => gcs::build(key, properties, renewed),
        #[cfg(feature = "azure")]
        StoreKind::Azure => azure::build(key, properties, renewed),
        #[cfg(feature = "http")]
        StoreKind::Http => http::build(key, properties),
        #[allow(unreachable_patterns, reason = "reached if a feature is off")]
        kind => Err(Error::unsupported(format!(
            "this build of icefloe has no store for `{key}`; turn on its Cargo feature `{}`",
            feature(kind)
        ))),
    }
}

fn feature(kind: StoreKind) -> &'static str {
    match kind {
        StoreKind::File | StoreKind::Memory => "default",
        StoreKind::S3 => "s3",
        StoreKind::Gcs => "gcs",
        StoreKind::Azure => "azure",
        StoreKind::Http => "http",
    }
}

#[cfg(any(feature = "s3", feature = "gcs", feature = "azure", feature = "http"))]
fn configuration(key: &StoreKey, properties: &StorageProperties, e: &object_store::Error) -> Error {
    Error::invalid(properties.scrub(&e.to_string())).context(format!("store `{key}`"))
}

/// An endpoint from a property: with a scheme (TLS unless it says `http://`), without a slash at
/// its end, and without a password in it.
#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
fn endpoint(property: &str, value: &str) -> Result<String> {
    if value.contains('@') {
        return Err(
            Error::unsupported("credentials in an endpoint").context(format!("property `{property}`"))
        );
    }
    let value = value.trim_end_matches('/');
    let url = if value.contains("://") { value.to_owned() } else { format!("https://{value}") };
    match url::Url::parse(&url) {
        Ok(parsed) if matches!(parsed.scheme(), "http" | "https") && parsed.host_str().is_some() => Ok(url),
        _ => Err(Error::invalid("expected `https://host[:port]`").context(format!("property `{property}`"))),
    }
}

/// Credentials of a prefix that are asked for with each request.
#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
#[derive(Debug)]
struct Renewed {
    vended: Arc<Vended>,
    prefix: String,
}

#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
impl Renewed {
    async fn get<T>(
        &self,
        store: &'static str,
        read: impl FnOnce(&StorageProperties) -> Option<T>,
    ) -> object_store::Result<Arc<T>> {
        let error = |e: Error| object_store::Error::Generic { store, source: Box::new(e) };
        let properties = self.vended.current(&self.prefix).await.map_err(error)?;
        properties.check_sent().map_err(error)?;
        let missing =
            || error(Error::invalid(format!("the catalog gave no credentials for `{}`", self.prefix)));
        read(&properties).map(Arc::new).ok_or_else(missing)
    }
}

#[cfg(feature = "s3")]
mod s3 {
    use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, AwsCredential};
    use object_store::client::ClientConfigKey;
    use object_store::{CredentialProvider, StaticCredentialProvider};

    use super::super::signing::SigningConnector;
    use super::super::vended::CredentialSource;
    use super::*;

    pub(super) fn build(
        key: &StoreKey,
        properties: &StorageProperties,
        renewed: Option<Renewed>,
        source: Option<Arc<dyn CredentialSource>>,
    ) -> Result<Arc<dyn ObjectStore>> {
        let remote = properties.flag("s3.remote-signing-enabled")? == Some(true);
        let signer = source.filter(|_| remote);
        let mut builder = builder(key, properties, signer.is_some())?;
        for (of_env, setting) in [
            ("AWS_REGION", AmazonS3ConfigKey::Region),
            ("AWS_ACCESS_KEY_ID", AmazonS3ConfigKey::AccessKeyId),
            ("AWS_SESSION_TOKEN", AmazonS3ConfigKey::Token),
        ] {
            if let Some(value) = builder.get_config_value(&setting) {
                check_sent(&format!("environment variable `{of_env}`"), &value)?;
            }
        }
        if let Some(signer) = signer {
            let region = builder.get_config_value(&AmazonS3ConfigKey::Region);
            let region = region.unwrap_or_else(|| "us-east-1".to_owned());
            builder =
                builder.with_skip_signature(true).with_http_connector(SigningConnector { signer, region });
        } else if let Some(renewed) = renewed.filter(|_| properties.get("s3.access-key-id").is_some()) {
            builder = builder.with_credentials(Arc::new(Keys(renewed)));
        }
        let store = builder.build().map_err(|e| configuration(key, properties, &e))?;
        Ok(Arc::new(store))
    }

    #[derive(Debug)]
    struct Keys(Renewed);

    #[async_trait::async_trait]
    impl CredentialProvider for Keys {
        type Credential = AwsCredential;

        async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
            let read = |properties: &StorageProperties| {
                Some(AwsCredential {
                    key_id: properties.get("s3.access-key-id")?.to_owned(),
                    secret_key: properties.get("s3.secret-access-key")?.to_owned(),
                    token: properties.get("s3.session-token").map(str::to_owned),
                })
            };
            self.0.get("S3", read).await
        }
    }

    pub(super) fn builder(
        key: &StoreKey,
        properties: &StorageProperties,
        signed_elsewhere: bool,
    ) -> Result<AmazonS3Builder> {
        if properties.flag("s3.remote-signing-enabled")? == Some(true) && !signed_elsewhere {
            let message = "signing by a remote service (`s3.remote-signing-enabled`) without a REST catalog \
                           that says where it is";
            return Err(Error::unsupported(message));
        }
        let bucket = key.authority();
        let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket);
        if let Some(region) = properties.first(&["s3.region", "client.region"]) {
            builder = builder.with_region(region);
        }

        let given = properties.get("s3.endpoint").map(|e| endpoint("s3.endpoint", e)).transpose()?;
        let of_env = [AmazonS3ConfigKey::S3Endpoint, AmazonS3ConfigKey::Endpoint];
        let endpoint = given.or_else(|| of_env.iter().find_map(|k| builder.get_config_value(k)));
        let virtual_hosts = match properties.flag("s3.path-style-access")? {
            Some(path_style) => Some(!path_style),
            None => properties.flag("s3.force-virtual-addressing")?,
        };
        if let Some(virtual_hosts) = virtual_hosts {
            builder = builder.with_virtual_hosted_style_request(virtual_hosts);
        }
        if let Some(mut endpoint) = endpoint {
            // Plain HTTP is for those who say so.
            builder = builder.with_config(
                AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp),
                endpoint.starts_with("http://").to_string(),
            );
            // The builder leaves it to its caller to put the bucket into the host.
            if virtual_hosts == Some(true)
                && let Some((scheme, host)) = endpoint.split_once("://")
                && !host.starts_with(&format!("{bucket}."))
            {
                endpoint = format!("{scheme}://{bucket}.{host}");
            }
            // An endpoint of the environment has two names, of which one wins over the other.
            builder = builder
                .with_config(AmazonS3ConfigKey::S3Endpoint, endpoint.clone())
                .with_config(AmazonS3ConfigKey::Endpoint, endpoint);
        }

        let anonymous_provider = properties
            .get("client.credentials-provider")
            .is_some_and(|p| p.contains("AnonymousCredentialsProvider"));
        if properties.flag("s3.anonymous")? == Some(true) || anonymous_provider {
            return Ok(builder.with_skip_signature(true));
        }
        match (properties.get("s3.access-key-id"), properties.get("s3.secret-access-key")) {
            // As one whole, so that a session token of the environment is not mixed in.
            (Some(key_id), Some(secret_key)) => {
                let credential = AwsCredential {
                    key_id: key_id.to_owned(),
                    secret_key: secret_key.to_owned(),
                    token: properties.get("s3.session-token").map(str::to_owned),
                };
                builder = builder.with_credentials(Arc::new(StaticCredentialProvider::new(credential)));
            }
            (None, None) => {}
            _ => {
                let message = "`s3.access-key-id` and `s3.secret-access-key` must be given together";
                return Err(Error::invalid(message));
            }
        }
        Ok(builder)
    }
}

#[cfg(feature = "gcs")]
mod gcs {
    use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder, GoogleConfigKey};
    use object_store::{CredentialProvider, StaticCredentialProvider};

    use super::*;

    pub(super) fn build(
        key: &StoreKey,
        properties: &StorageProperties,
        renewed: Option<Renewed>,
    ) -> Result<Arc<dyn ObjectStore>> {
        let mut builder = builder(key, properties)?;
        if let Some(renewed) = renewed.filter(|_| properties.get("gcs.oauth2.token").is_some()) {
            builder = builder.with_credentials(Arc::new(Tokens(renewed)));
        }
        let store = builder.build().map_err(|e| configuration(key, properties, &e))?;
        Ok(Arc::new(store))
    }

    #[derive(Debug)]
    struct Tokens(Renewed);

    #[async_trait::async_trait]
    impl CredentialProvider for Tokens {
        type Credential = GcpCredential;

        async fn get_credential(&self) -> object_store::Result<Arc<GcpCredential>> {
            let read = |properties: &StorageProperties| {
                Some(GcpCredential { bearer: properties.get("gcs.oauth2.token")?.to_owned() })
            };
            self.0.get("GCS", read).await
        }
    }

    pub(super) fn builder(
        key: &StoreKey,
        properties: &StorageProperties,
    ) -> Result<GoogleCloudStorageBuilder> {
        let account = properties.get("gcs.service-account");
        let json = properties.get("gcs.credentials-json");
        let token = properties.get("gcs.oauth2.token");
        // Given credentials replace those of the environment, of whatever kind they are.
        let from_env = GoogleCloudStorageBuilder::from_env();
        let mut builder = if account.or(json).or(token).is_some() {
            let base = from_env.get_config_value(&GoogleConfigKey::BaseUrl);
            base.iter().fold(GoogleCloudStorageBuilder::new(), |b, base| b.with_base_url(base))
        } else {
            from_env
        }
        .with_bucket_name(key.authority());
        if let Some(host) = properties.get("gcs.service.host") {
            builder = builder.with_base_url(&endpoint("gcs.service.host", host)?);
        }
        if properties.flag("gcs.no-auth")? == Some(true) {
            let nobody = GcpCredential { bearer: String::new() };
            return Ok(builder
                .with_skip_signature(true)
                .with_credentials(Arc::new(StaticCredentialProvider::new(nobody))));
        }
        Ok(match (token, json, account) {
            (Some(token), _, _) => {
                builder.with_credentials(Arc::new(StaticCredentialProvider::new(GcpCredential {
                    bearer: token.to_owned(),
                })))
            }
            (None, Some(json), _) => builder.with_service_account_key(json),
            // Either the file or what is in it.
            (None, None, Some(json)) if json.trim_start().starts_with('{') => {
                builder.with_service_account_key(json)
            }
            (None, None, Some(path)) => builder.with_service_account_path(path),
            (None, None, None) => builder,
        })
    }
}

#[cfg(feature = "azure")]
mod azure {
    use object_store::CredentialProvider;
    use object_store::azure::{AzureConfigKey, AzureCredential, MicrosoftAzureBuilder};

    use super::*;

    pub(super) fn build(
        key: &StoreKey,
        properties: &StorageProperties,
        renewed: Option<Renewed>,
    ) -> Result<Arc<dyn ObjectStore>> {
        let mut builder = builder(key, properties)?;
        let account = builder.get_config_value(&AzureConfigKey::AccountName).unwrap_or_default();
        if let Some(renewed) = renewed.filter(|_| token(properties, &account).is_some()) {
            builder = builder.with_credentials(Arc::new(Tokens { renewed, account }));
        }
        let store = builder.build().map_err(|e| configuration(key, properties, &e))?;
        Ok(Arc::new(store))
    }

    #[derive(Debug)]
    struct Tokens {
        renewed: Renewed,
        account: String,
    }

    #[async_trait::async_trait]
    impl CredentialProvider for Tokens {
        type Credential = AzureCredential;

        async fn get_credential(&self) -> object_store::Result<Arc<AzureCredential>> {
            self.renewed.get("Azure", |properties| token(properties, &self.account)).await
        }
    }

    fn sas_token<'a>(properties: &'a StorageProperties, account: &str) -> Option<&'a str> {
        properties
            .of_account("adls.sas-token.", account)
            .or_else(|| properties.get("adls.sas-token"))
            .or_else(|| properties.of_account("fs.azure.sas.fixed.token.", account))
            .map(|sas| sas.trim_start_matches('?'))
    }

    /// The kinds of credentials that catalogs hand out.
    fn token(properties: &StorageProperties, account: &str) -> Option<AzureCredential> {
        match (sas_token(properties, account), properties.get("adls.token")) {
            (Some(sas), _) => {
                let decoded = percent_encoding::percent_decode_str(sas).decode_utf8().ok()?;
                let pairs = decoded.split('&').filter_map(|pair| pair.trim().split_once('='));
                Some(AzureCredential::SASToken(pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).collect()))
            }
            (None, Some(token)) => Some(AzureCredential::BearerToken(token.to_owned())),
            (None, None) => None,
        }
    }

    /// The parts of a connection string that matter here.
    #[derive(Default)]
    struct Connection<'a> {
        account: Option<&'a str>,
        account_key: Option<&'a str>,
        sas: Option<&'a str>,
        endpoint: Option<String>,
    }

    fn connection(text: &str) -> Connection<'_> {
        // Java takes an endpoint in its place.
        if text.starts_with("http://") || text.starts_with("https://") {
            return Connection { endpoint: Some(blob(text)), ..Connection::default() };
        }
        let (mut found, mut protocol, mut suffix) = (Connection::default(), "https", None);
        for (name, value) in text.split(';').filter_map(|part| part.split_once('=')) {
            match name.trim() {
                "AccountName" => found.account = Some(value),
                "AccountKey" => found.account_key = Some(value),
                "SharedAccessSignature" => found.sas = Some(value),
                "BlobEndpoint" => found.endpoint = Some(value.to_owned()),
                "DefaultEndpointsProtocol" => protocol = value,
                "EndpointSuffix" => suffix = Some(value),
                _ => {}
            }
        }
        if let (None, Some(account), Some(suffix)) = (&found.endpoint, found.account, suffix) {
            found.endpoint = Some(format!("{protocol}://{account}.blob.{suffix}"));
        }
        found
    }

    /// The blob service beside a Data Lake endpoint: the client speaks to the former.
    fn blob(endpoint: &str) -> String {
        endpoint.replacen(".dfs.", ".blob.", 1)
    }

    pub(super) fn builder(key: &StoreKey, properties: &StorageProperties) -> Result<MicrosoftAzureBuilder> {
        let (container, host) = match key.authority().split_once('@') {
            Some((container, host)) => (container, Some(host)),
            None => (key.authority(), None),
        };
        let from_env = MicrosoftAzureBuilder::from_env();
        let of_host = host.map(|h| h.split_once('.').map_or(h, |(account, _)| account).to_owned());
        let shared = properties.get("adls.connection-string").map(connection);
        let account = of_host
            .or_else(|| {
                let names = ["adls.account-name", "adls.auth.shared-key.account.name"];
                properties.first(&names).map(str::to_owned)
            })
            .or_else(|| shared.as_ref().and_then(|c| c.account).map(str::to_owned))
            .or_else(|| from_env.get_config_value(&AzureConfigKey::AccountName));
        let Some(account) = account else {
            let message = "the storage account is unknown; set `adls.account-name`, or write \
                           `abfss://container@account.dfs.core.windows.net/…`";
            return Err(Error::invalid(message).context(format!("store `{key}`")));
        };
        let connection =
            properties.of_account("adls.connection-string.", &account).map(connection).or(shared);
        let connection = connection.unwrap_or_default();

        let account_key = properties
            .first(&["adls.account-key", "adls.auth.shared-key.account.key"])
            .or_else(|| properties.of_account("fs.azure.account.key.", &account))
            .or(connection.account_key);
        let sas =
            sas_token(properties, &account).or_else(|| connection.sas.map(|sas| sas.trim_start_matches('?')));
        let token = properties.get("adls.token");
        let client = properties.get("adls.client-secret");

        // Given credentials replace those of the environment, of whatever kind they are.
        let given = account_key.or(sas).or(token).or(client).is_some();
        let mut builder = if given { MicrosoftAzureBuilder::new() } else { from_env }
            .with_container_name(container)
            .with_account(&account);
        builder = if let Some(sas) = sas {
            builder.with_config(AzureConfigKey::SasKey, sas)
        } else if let Some(token) = token {
            builder.with_bearer_token_authorization(token)
        } else if let Some(account_key) = account_key {
            builder.with_access_key(account_key)
        } else {
            let settings = [
                ("adls.client-id", AzureConfigKey::ClientId),
                ("adls.client-secret", AzureConfigKey::ClientSecret),
                ("adls.tenant-id", AzureConfigKey::AuthorityId),
            ];
            settings.into_iter().fold(builder, |builder, (name, config)| match properties.get(name) {
                Some(value) => builder.with_config(config, value),
                None => builder,
            })
        };

        let given = match properties.get("adls.account-host") {
            Some(host) => Some(blob(&endpoint("adls.account-host", host)?)),
            None => connection.endpoint.map(|e| endpoint("adls.connection-string", &e)).transpose()?,
        };
        let of_host = || {
            let (_, service) = host?.split_once('.')?;
            (service != "dfs.core.windows.net")
                .then(|| format!("https://{account}.{}", blob_service(service)))
        };
        if let Some(endpoint) = given.or_else(of_host) {
            builder = builder.with_allow_http(endpoint.starts_with("http://")).with_endpoint(endpoint);
        }
        Ok(builder)
    }

    fn blob_service(service: &str) -> String {
        match service.strip_prefix("dfs.") {
            Some(rest) => format!("blob.{rest}"),
            None => service.to_owned(),
        }
    }
}

#[cfg(feature = "http")]
mod http {
    use object_store::ClientOptions;
    use object_store::http::HttpBuilder;

    use super::*;

    pub(super) fn build(key: &StoreKey, properties: &StorageProperties) -> Result<Arc<dyn ObjectStore>> {
        let plain = key.as_str().starts_with("http://");
        let store = HttpBuilder::new()
            .with_url(key.as_str())
            .with_client_options(ClientOptions::new().with_allow_http(plain))
            .build()
            .map_err(|e| configuration(key, properties, &e))?;
        Ok(Arc::new(store))
    }
}

#[cfg(all(test, feature = "s3", feature = "gcs", feature = "azure", feature = "http"))]
mod tests {
    use super::*;
    use crate::storage::Location;
    use object_store::aws::AmazonS3ConfigKey as S3;
    use object_store::azure::AzureConfigKey as Az;
    use object_store::client::ClientConfigKey;

    fn key(location: &str) -> StoreKey {
        Location::parse(location).unwrap().store().clone()
    }

    fn properties(list: &[(&str, &str)]) -> StorageProperties {
        list.iter().copied().collect()
    }

    const KEYS: [(&str, &str); 2] = [("s3.access-key-id", "id"), ("s3.secret-access-key", "hunter2")];

    #[test]
    fn s3_endpoints_and_addressing() {
        let get = |list: &[(&str, &str)], wanted: S3| {
            let all: Vec<_> = list.iter().chain(&KEYS).copied().collect();
            s3::builder(&key("s3a://bucket/x"), &properties(&all), false).unwrap().get_config_value(&wanted)
        };
        let http = || S3::Client(ClientConfigKey::AllowHttp);
        let endpoint = |list: &[(&str, &str)]| get(list, S3::Endpoint);
        assert_eq!(endpoint(&[("s3.endpoint", "http://h:9000/")]).as_deref(), Some("http://h:9000"));
        assert_eq!(get(&[("s3.endpoint", "http://h:9000")], http()).as_deref(), Some("true"));
        assert_eq!(get(&[("s3.endpoint", "https://h:9000")], http()).as_deref(), Some("false"));
        assert_eq!(get(&[], http()).as_deref(), Some("false"));
        assert_eq!(endpoint(&[("fs.s3a.endpoint", "h:9000")]).as_deref(), Some("https://h:9000"));
        let virtual_hosts = Some("https://bucket.h");
        let host = ("s3.endpoint", "https://h");
        assert_eq!(endpoint(&[host, ("s3.path-style-access", "false")]).as_deref(), virtual_hosts);
        assert_eq!(endpoint(&[host, ("s3.force-virtual-addressing", "true")]).as_deref(), virtual_hosts);
        assert_eq!(endpoint(&[host, ("s3.path-style-access", "true")]).as_deref(), Some("https://h"));
        assert_eq!(get(&[("client.region", "r")], S3::Region).as_deref(), Some("r"));
        assert_eq!(get(&[("s3.anonymous", "true")], S3::SkipSignature).as_deref(), Some("true"));
    }

    #[test]
    fn bad_properties_are_errors_without_secrets() {
        for (location, list) in [
            ("s3://b/x", vec![("s3.secret-access-key", "hunter2")]),
            ("s3://b/x", vec![("s3.endpoint", "https://me:hunter2@h")]),
            ("s3://b/x", vec![("s3.path-style-access", "hunter2")]),
            ("s3://b/x", vec![("s3.remote-signing-enabled", "true")]),
            ("gs://b/x", vec![("gcs.credentials-json", "{hunter2")]),
            ("gs://b/x", vec![("gcs.service-account", "{\"private_key\": \"hunter2\"}")]),
            ("abfss://c@a.dfs.core.windows.net/x", vec![("adls.account-key", "hunter2!")]),
            ("az://c/x", vec![("adls.account-name", "a"), ("adls.sas-token", "hunter2")]),
        ] {
            let e = build(&key(location), &properties(&list), None).unwrap_err();
            assert!(!format!("{e} {e:?}").contains("hunter2"), "{e:?}");
        }
    }

    #[test]
    fn built_stores_do_not_show_secrets_in_their_name() {
        for (location, list) in [
            ("s3://b/x", KEYS.to_vec()),
            ("gs://b/x", vec![("gcs.oauth2.token", "hunter2")]),
            ("gs://b/x", vec![("gcs.no-auth", "true"), ("gcs.service.host", "http://localhost:1")]),
            ("abfss://c@a.dfs.core.windows.net/x", vec![("adls.account-key", "aHVudGVyMg==")]),
            (
                "abfss://c@a.dfs.core.windows.net/x",
                vec![("adls.sas-token.a.dfs.core.windows.net", "sig=hunter2")],
            ),
            ("http://h:1/x", vec![]),
        ] {
            let store = build(&key(location), &properties(&list), None).unwrap();
            let text = store.to_string();
            assert!(!text.contains("hunter2") && !text.contains("aHVudGVyMg"), "{text}");
        }
    }

    #[test]
    fn azure_accounts_and_endpoints() {
        let get = |location: &str, list: &[(&str, &str)], wanted: Az| {
            azure::builder(&key(location), &properties(list)).unwrap().get_config_value(&wanted)
        };
        let lake = "abfss://c@acc.dfs.core.windows.net/x";
        assert_eq!(get(lake, &[("adls.account-name", "other")], Az::AccountName).as_deref(), Some("acc"));
        assert_eq!(get("az://c/x", &[("adls.account-name", "acc")], Az::AccountName).as_deref(), Some("acc"));
        let sas = |name| get(lake, &[(name, "?sig=x")], Az::SasKey);
        for name in ["adls.sas-token.acc.dfs.core.windows.net", "adls.sas-token.acc", "adls.sas-token"] {
            assert_eq!(sas(name).as_deref(), Some("sig=x"), "{name}");
        }
        assert_eq!(sas("adls.sas-token.acc2"), None);
        let china = get("abfss://c@acc.dfs.core.chinacloudapi.cn/x", &[("adls.token", "t")], Az::Endpoint);
        assert_eq!(china.as_deref(), Some("https://acc.blob.core.chinacloudapi.cn"));
        let azurite = "AccountName=dev;AccountKey=a2V5;BlobEndpoint=http://127.0.0.1:10000/dev;";
        let list = [("adls.connection-string", azurite)];
        assert_eq!(get("az://c/x", &list, Az::AccountName).as_deref(), Some("dev"));
        assert_eq!(get("az://c/x", &list, Az::AccessKey).as_deref(), Some("a2V5"));
        assert_eq!(get("az://c/x", &list, Az::Endpoint).as_deref(), Some("http://127.0.0.1:10000/dev"));
    }

    /// The paths that a store asks a server for, percent-decoded once, as a server does.
    async fn requested(location: &str, list: &[(&str, &str)], names: &[&str]) -> Vec<String> {
        use object_store::ObjectStoreExt;
        use std::io::{Read, Write};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        let count = names.len();
        let server = std::thread::spawn(move || {
            let paths = (0..count).map(|_| {
                let (mut socket, _) = listener.accept().unwrap();
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    socket.read_exact(&mut byte).unwrap();
                    request.extend(byte);
                }
                socket
                    .write_all(b"HTTP/1.1 404 x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
                    .unwrap();
                let request = String::from_utf8(request).unwrap();
                let path = request.split(' ').nth(1).unwrap().split('?').next().unwrap().to_owned();
                percent_encoding::percent_decode_str(&path).decode_utf8().unwrap().into_owned()
            });
            paths.collect()
        });
        let at = |text: &str| text.replace("PORT", &port);
        let properties = list.iter().map(|(name, value)| (*name, at(value))).collect();
        for name in names {
            let location = Location::parse(&format!("{}/{name}", at(location))).unwrap();
            let store = build(location.store(), &properties, None).unwrap();
            let e = store.get(&location.object_path().unwrap()).await.unwrap_err();
            assert!(matches!(e, object_store::Error::NotFound { .. }), "{e}");
        }
        server.join().unwrap()
    }

    #[tokio::test]
    async fn real_names_reach_the_server() {
        let names = [
            "p=a%2Fb/f",
            "a b",
            "100%25",
            "%",
            "a#b",
            "a?b",
            "a:b",
            "a&b",
            "ü😀",
            "a+b",
            "star*",
            "~{}[]|",
            "t//f",
            "..a",
            "back\\slash",
            "%2e%2e/f",
            "a;b,c@d!$'()",
        ];
        let s3 = [("s3.endpoint", "http://127.0.0.1:PORT"), KEYS[0], KEYS[1]];
        let gcs = [("gcs.service.host", "http://127.0.0.1:PORT"), ("gcs.no-auth", "true")];
        let azure = [(
            "adls.connection-string",
            "AccountName=dev;AccountKey=a2V5;BlobEndpoint=http://127.0.0.1:PORT",
        )];
        for (location, list, bucket) in [
            ("s3a://bkt/t", &s3[..], "/bkt"),
            ("gs://bkt/t", &gcs[..], "/bkt"),
            ("az://bkt/t", &azure[..], "/bkt"),
            ("http://127.0.0.1:PORT/t", &[][..], ""),
        ] {
            let expected: Vec<_> = names.iter().map(|name| format!("{bucket}/t/{name}")).collect();
            assert_eq!(requested(location, list, &names).await, expected, "{location}");
        }
    }
}
