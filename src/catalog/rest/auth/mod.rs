//! How requests prove who sends them.

mod oauth2;
mod sigv4;

use std::fmt;

use reqwest::Request;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use url::Url;

use oauth2::OAuth2;
pub(super) use oauth2::TOKEN_TYPES;
use sigv4::SigV4;

use super::properties::Properties;
use crate::error::{Error, ErrorKind, Result};

/// Where the header of another scheme goes that is used beneath signatures.
const ORIGINAL: HeaderName = HeaderName::from_static("original-authorization");

/// What schemes go by, besides `rest.auth.…`.
const AUTH_PROPERTIES: &[&str] = &[
    "uri",
    "token",
    "token-expires-in-ms",
    "token-refresh-enabled",
    "token-exchange-enabled",
    "credential",
    "oauth2-server-uri",
    "rest.authorization-url",
    "scope",
    "audience",
    "resource",
    "rest.sigv4-enabled",
    "rest.signing-name",
    "rest.signing-region",
    "rest.access-key-id",
    "rest.secret-access-key",
    "rest.session-token",
    "client.region",
    "client.access-key-id",
    "client.secret-access-key",
    "client.session-token",
];

/// A scheme of authentication.
#[allow(clippy::large_enum_variant, reason = "there is one a catalog")]
pub(super) enum Auth {
    /// None, or a header that the user gives.
    None,
    /// User and password, as a whole header.
    Basic(HeaderValue),
    /// Bearer tokens.
    OAuth2(OAuth2),
    /// Signatures of AWS, over requests that another scheme may have marked.
    SigV4(SigV4, Box<Auth>),
}

/// Which token was sent: whether it is still the one to send is asked later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sent(pub(super) u64);

/// A token for the requests about one table, which takes the place of the catalog's.
#[derive(Clone)]
pub(super) struct TableToken(HeaderValue);

impl TableToken {
    fn new(token: &str) -> Result<Self> {
        bearer(token).map(Self)
    }
}

impl fmt::Debug for TableToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TableToken(***)")
    }
}

impl Auth {
    /// The scheme that the properties ask for. `http` is used to get tokens.
    ///
    /// # Errors
    /// For a scheme that there is not, and for properties that are missing or malformed.
    pub(super) fn new(properties: &Properties, http: &reqwest::Client) -> Result<Self> {
        let kind = match properties.flag("rest.sigv4-enabled")? {
            Some(true) => "sigv4",
            _ => match properties.get("rest.auth.type") {
                Some(kind) => kind,
                None if OAuth2::is_configured(properties) => "oauth2",
                None => "none",
            },
        };
        match kind.to_ascii_lowercase().as_str() {
            "sigv4" => {
                let below = match properties.get("rest.auth.sigv4.delegate-auth-type") {
                    Some(kind) => kind,
                    None if OAuth2::is_configured(properties) => "oauth2",
                    None => "none",
                };
                let below = Self::simple(below, properties, http)
                    .map_err(|e| e.context("property `rest.auth.sigv4.delegate-auth-type`"))?;
                Ok(Self::SigV4(SigV4::new(properties)?, Box::new(below)))
            }
            kind => Self::simple(kind, properties, http).map_err(|e| e.context("property `rest.auth.type`")),
        }
    }

    fn simple(kind: &str, properties: &Properties, http: &reqwest::Client) -> Result<Self> {
        match kind {
            "none" => Ok(Self::None),
            "basic" => {
                let user = properties.require("rest.auth.basic.username")?;
                let password = properties.require("rest.auth.basic.password")?;
                // The builder knows how to encode it.
                let request = http.get("http://localhost/").basic_auth(user, Some(password)).build();
                let header = request.ok().and_then(|request| request.headers().get(AUTHORIZATION).cloned());
                header.map(Self::Basic).ok_or_else(|| Error::invalid("a user or password that can't be sent"))
            }
            "oauth2" => OAuth2::new(properties, http.clone()).map(Self::OAuth2),
            "google" => Err(Error::unsupported(
                "`google`; use `oauth2` with a `token`, or give the header as `header.Authorization`",
            )),
            _ => Err(Error::unsupported("expected `none`, `basic`, `oauth2` or `sigv4`")),
        }
    }

    /// Whether both properties ask for the same scheme with the same secrets.
    pub(super) fn is_same(a: &Properties, b: &Properties) -> bool {
        let names = AUTH_PROPERTIES.iter().chain(TOKEN_TYPES).copied();
        let given = |p: &Properties, prefix: &'static str| {
            p.below(prefix).map(|(n, v)| (n.to_owned(), v.to_owned())).collect::<Vec<_>>()
        };
        let prefixes = ["rest.auth.", "rest.tls.", "ssl.", "rest.client."];
        names.into_iter().all(|name| a.get(name) == b.get(name))
            && prefixes.into_iter().all(|prefix| given(a, prefix) == given(b, prefix))
    }

    /// Whether it sends something that others must not see.
    pub(super) fn is_secret(&self) -> bool {
        !matches!(self, Auth::None)
    }

    /// Marks or signs a request, the last thing before it is sent.
    pub(super) async fn authorize(&self, request: &mut Request, table: Option<&TableToken>) -> Result<Sent> {
        match self {
            Auth::SigV4(signer, below) => {
                let sent = below.mark(request, table).await?;
                if let Some(header) = request.headers_mut().remove(AUTHORIZATION) {
                    request.headers_mut().insert(ORIGINAL, header);
                }
                signer.sign(request).await?;
                Ok(sent)
            }
            other => other.mark(request, table).await,
        }
    }

    async fn mark(&self, request: &mut Request, table: Option<&TableToken>) -> Result<Sent> {
        let (header, sent) = match self {
            Auth::None | Auth::SigV4(..) => return Ok(Sent(0)),
            Auth::Basic(header) => (header.clone(), Sent(0)),
            Auth::OAuth2(_) if let Some(TableToken(header)) = table => (header.clone(), Sent(0)),
            Auth::OAuth2(tokens) => match tokens.current().await? {
                Some((token, sent)) => (bearer(&token)?, sent),
                None => return Ok(Sent(0)),
            },
        };
        // A header that the user gave stays.
        request.headers_mut().entry(AUTHORIZATION).or_insert(header);
        Ok(sent)
    }

    fn tokens(&self) -> Option<&OAuth2> {
        match self {
            Auth::OAuth2(tokens) => Some(tokens),
            Auth::SigV4(_, below) => below.tokens(),
            Auth::None | Auth::Basic(_) => None,
        }
    }

    /// After the server refused what was sent: whether there is something else to send now.
    pub(super) async fn renew(&self, sent: Sent) -> Result<bool> {
        match self.tokens() {
            Some(tokens) => tokens.renew(sent).await,
            None => Ok(false),
        }
    }

    /// The token for one table, of the configuration that the server gives for it.
    pub(super) async fn table_token(&self, config: &Properties) -> Result<Option<TableToken>> {
        let Some(tokens) = self.tokens() else { return Ok(None) };
        if let Some(token) = config.get("token") {
            return TableToken::new(token).map(Some);
        }
        match TOKEN_TYPES.iter().find_map(|kind| Some((config.get(kind)?, *kind))) {
            Some((subject, kind)) => {
                let token = tokens.exchange_for_table(subject, kind).await?;
                TableToken::new(&token).map(Some)
            }
            None => Ok(None),
        }
    }

    /// Replaces the secrets that are not among the properties.
    pub(super) fn scrub(&self, text: String) -> String {
        match self.tokens() {
            Some(tokens) => tokens.scrub(text),
            None => text,
        }
    }
}

/// A header with a token, which is never shown.
fn bearer(token: &str) -> Result<HeaderValue> {
    let mut header = HeaderValue::from_str(&format!("Bearer {token}"))
        .map_err(|_| Error::invalid("a token with characters that can't be sent"))?;
    header.set_sensitive(true);
    Ok(header)
}

/// Refuses to send secrets where everybody on the way can read them.
///
/// # Errors
/// `Unsupported` for a URL without TLS to another machine, unless a property allows it.
pub(super) fn check_transport(url: &Url, properties: &Properties) -> Result<()> {
    if url.scheme() == "https" || is_loopback(url) || properties.flag("rest.allow-http")? == Some(true) {
        return Ok(());
    }
    let host = url.host_str().unwrap_or_default();
    Err(Error::new(
        ErrorKind::Unsupported,
        format!(
            "credentials over plain HTTP to `{host}`, where anybody on the way can read them; use `https`, or \
             set the property `rest.allow-http` to `true`"
        ),
    ))
}

/// Whether a URL leads to this machine.
pub(super) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn properties(list: &[(&str, &str)]) -> Properties {
        Properties::of_user(list.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect())
    }

    #[test]
    fn secrets_need_tls() {
        let check =
            |url: &str, list: &[(&str, &str)]| check_transport(&Url::parse(url).unwrap(), &properties(list));
        for good in [
            "https://h/x",
            "http://localhost:1",
            "http://127.0.0.1/x",
            "http://127.9.9.9",
            "http://[::1]:8181",
        ] {
            assert!(check(good, &[]).is_ok(), "{good}");
        }
        for bad in
            ["http://h/x", "http://127.0.0.1.example.com", "http://10.0.0.1", "http://localhost.example"]
        {
            let e = check(bad, &[]).unwrap_err();
            assert!(e.to_string().contains("rest.allow-http"), "{e}");
            assert!(check(bad, &[("rest.allow-http", "true")]).is_ok(), "{bad}");
        }
    }

    #[test]
    fn schemes_by_property() {
        let http = reqwest::Client::new();
        let auth = |list: &[(&str, &str)]| {
            let all: Vec<_> = [("uri", "https://h")].iter().chain(list).copied().collect();
            Auth::new(&properties(&all), &http)
        };
        assert!(matches!(auth(&[]).unwrap(), Auth::None));
        assert!(matches!(auth(&[("token", "t")]).unwrap(), Auth::OAuth2(_)));
        assert!(matches!(auth(&[("credential", "c:s")]).unwrap(), Auth::OAuth2(_)));
        assert!(matches!(auth(&[("rest.auth.type", "none"), ("token", "t")]).unwrap(), Auth::None));
        let basic = [
            ("rest.auth.type", "basic"),
            ("rest.auth.basic.username", "u"),
            ("rest.auth.basic.password", "p"),
        ];
        match auth(&basic).unwrap() {
            Auth::Basic(header) => assert_eq!(header, "Basic dTpw"),
            _ => panic!("expected basic authentication"),
        }
        for (bad, named) in [
            (vec![("rest.auth.type", "basic")], "rest.auth.basic.username"),
            (vec![("rest.auth.type", "google")], "header.Authorization"),
            (vec![("rest.auth.type", "kerberos")], "rest.auth.type"),
            (vec![("rest.sigv4-enabled", "maybe")], "rest.sigv4-enabled"),
        ] {
            match auth(&bad) {
                Err(e) => assert!(e.to_string().contains(named), "{e}"),
                Ok(_) => panic!("{bad:?}"),
            }
        }
    }
}
