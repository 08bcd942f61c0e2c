//! Bearer tokens by OAuth2: client credentials (RFC 6749, 4.4) and token exchange (RFC 8693).

use std::fmt;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use reqwest::header::AUTHORIZATION;
use serde_json::Value as Json;
use tokio::sync::Mutex;
use tokio::time::Instant;
use url::Url;

use super::super::connection::{describe, execute};
use super::super::failure::{Failure, Subject};
use super::super::paths::Paths;
use super::super::properties::{Properties, scrub};
use super::super::retry;
use super::{Sent, bearer, check_transport};
use crate::error::{Error, ErrorKind, Result};

const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";

/// Kinds of tokens that are exchanged for an access token, by the names of their properties; the
/// first that is there is taken.
pub(in super::super) const TOKEN_TYPES: &[&str] = &[
    "urn:ietf:params:oauth:token-type:id_token",
    ACCESS_TOKEN,
    "urn:ietf:params:oauth:token-type:jwt",
    "urn:ietf:params:oauth:token-type:saml2",
    "urn:ietf:params:oauth:token-type:saml1",
];

/// How much ahead of its end a token is renewed, at most.
const AHEAD: Duration = Duration::from_secs(300);
const ATTEMPTS: u32 = 4;
/// No token is longer.
const MAX_REPLY_LEN: usize = 1 << 20;

/// Gets tokens, and renews them before they expire.
pub(in super::super) struct OAuth2 {
    http: reqwest::Client,
    /// Where tokens are to be had.
    server: Url,
    /// The client's id and secret.
    credential: Option<(Option<String>, String)>,
    /// A token to exchange for the one to use, and what it is.
    subject: Option<(String, String)>,
    /// `scope`, `audience`, `resource`.
    parameters: Vec<(&'static str, String)>,
    refresh: bool,
    exchange: bool,
    token: Mutex<Option<Token>>,
    /// All tokens that were ever sent, so that none gets into a message.
    seen: RwLock<Vec<String>>,
}

#[derive(Clone)]
struct Token {
    value: String,
    kind: String,
    /// When to get the next one, and when this one is useless.
    renew_at: Option<Instant>,
    expires_at: Option<Instant>,
    number: u64,
}

impl Token {
    fn new(value: String, kind: String, lifetime: Option<Duration>, number: u64) -> Self {
        let now = Instant::now();
        let after = |lifetime: Duration| now.checked_add(lifetime);
        let renew_at = lifetime.and_then(|l| after(l.saturating_sub(AHEAD.min(l / 10))));
        Self { value, kind, renew_at, expires_at: lifetime.and_then(after), number }
    }
}

fn is_past(instant: Option<Instant>) -> bool {
    instant.is_some_and(|instant| instant <= Instant::now())
}

impl OAuth2 {
    /// Whether the properties hold something to begin with.
    pub(super) fn is_configured(properties: &Properties) -> bool {
        let mut names = ["credential", "token"].iter().chain(TOKEN_TYPES);
        names.any(|name| properties.get(name).is_some())
    }

    pub(super) fn new(properties: &Properties, http: reqwest::Client) -> Result<Self> {
        let uri = properties.require("uri")?;
        let server = properties.get("oauth2-server-uri").or_else(|| properties.get("rest.authorization-url"));
        let server = Paths::resolve(uri, server.unwrap_or("v1/oauth/tokens"))?;
        let has_user = !server.username().is_empty() || server.password().is_some();
        if has_user || server.query().is_some() || server.fragment().is_some() {
            let message = "credentials, a query or a fragment in a URL; set `credential` instead";
            return Err(Error::unsupported(message).context("property `oauth2-server-uri`"));
        }
        check_transport(&server, properties)?;
        let credential = properties.get("credential").map(|text| match text.split_once(':') {
            Some((id, secret)) => (Some(id.trim().to_owned()), secret.trim().to_owned()),
            None => (None, text.trim().to_owned()),
        });
        let scope = properties.get("scope").unwrap_or("catalog").to_owned();
        let mut parameters = vec![("scope", scope)];
        for name in ["audience", "resource"] {
            parameters.extend(properties.get(name).map(|value| (name, value.to_owned())));
        }
        let subject = TOKEN_TYPES.iter().find_map(|kind| Some((properties.get(kind)?, *kind)));
        // Client credentials are sure to give a token again; not every server exchanges.
        let exchange = properties.flag("token-exchange-enabled")?.unwrap_or(credential.is_none());
        let token = match (&credential, &subject, properties.get("token")) {
            (None, None, Some(token)) => {
                let given = properties.number("token-expires-in-ms")?.map(Duration::from_millis);
                let lifetime = jwt_lifetime(token).or(given);
                Some(Token::new(token.to_owned(), ACCESS_TOKEN.to_owned(), lifetime, 1))
            }
            _ => None,
        };
        Ok(Self {
            http,
            server,
            credential,
            subject: subject.map(|(token, kind)| (token.to_owned(), kind.to_owned())),
            parameters,
            refresh: properties.flag("token-refresh-enabled")?.unwrap_or(true),
            exchange,
            token: Mutex::new(token),
            seen: RwLock::default(),
        })
    }

    /// The token to send now, and which one it is.
    pub(super) async fn current(&self) -> Result<Option<(String, Sent)>> {
        // Whoever comes first gets the token, the others wait for it.
        let mut held = self.token.lock().await;
        let next = match &*held {
            None => self.first().await?,
            Some(old) if self.refresh && is_past(old.renew_at) => match self.next(old).await {
                Ok(next) => next,
                Err(e) if !is_past(old.expires_at) => {
                    tracing::warn!("the token could not be renewed and is used until it expires: {e}");
                    None
                }
                Err(e) => return Err(e),
            },
            Some(_) => None,
        };
        if next.is_some() {
            *held = next;
        }
        Ok(held.as_ref().map(|token| (token.value.clone(), Sent(token.number))))
    }

    /// After the server refused a token: whether there is another one.
    pub(super) async fn renew(&self, sent: Sent) -> Result<bool> {
        let mut held = self.token.lock().await;
        let number = held.as_ref().map_or(0, |token| token.number);
        if Sent(number) != sent {
            return Ok(number != 0);
        }
        if self.credential.is_none() && self.subject.is_none() {
            return Ok(false);
        }
        let Some(mut next) = self.first().await? else { return Ok(false) };
        next.number = number.saturating_add(1);
        *held = Some(next);
        Ok(true)
    }

    /// A token without the help of an earlier one.
    async fn first(&self) -> Result<Option<Token>> {
        let own = match &self.credential {
            Some((id, secret)) => {
                let mut form = vec![("grant_type", "client_credentials".to_owned())];
                form.extend(id.clone().map(|id| ("client_id", id)));
                form.push(("client_secret", secret.clone()));
                Some(self.request(form, None, 1).await?)
            }
            None => None,
        };
        match &self.subject {
            Some((subject, kind)) => self.exchange(subject, kind, own.as_ref(), 1).await.map(Some),
            None => Ok(own),
        }
    }

    /// The token after `old`, of which the time is over or nearly so.
    async fn next(&self, old: &Token) -> Result<Option<Token>> {
        let number = old.number.saturating_add(1);
        if self.exchange && self.subject.is_none() && !is_past(old.expires_at) {
            match self.exchange(&old.value, &old.kind, None, number).await {
                Ok(next) => return Ok(Some(next)),
                Err(e) if self.credential.is_none() => return Err(e),
                Err(e) => tracing::debug!("a token is asked for with the credential: {e}"),
            }
        }
        let first = self.first().await?;
        Ok(first.map(|token| Token { number, ..token }))
    }

    /// A token for one table in exchange for what the server gave for it.
    pub(super) async fn exchange_for_table(&self, subject: &str, kind: &str) -> Result<String> {
        self.current().await?;
        let actor = self.token.lock().await.clone();
        Ok(self.exchange(subject, kind, actor.as_ref(), 1).await?.value)
    }

    async fn exchange(&self, subject: &str, kind: &str, actor: Option<&Token>, number: u64) -> Result<Token> {
        let mut form = vec![
            ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange".to_owned()),
            ("subject_token", subject.to_owned()),
            ("subject_token_type", kind.to_owned()),
        ];
        if let Some(actor) = actor {
            form.push(("actor_token", actor.value.clone()));
            form.push(("actor_token_type", actor.kind.clone()));
        }
        // With an actor, the request is the actor's; else the old token vouches for itself.
        let authorization = actor.map_or(subject, |actor| actor.value.as_str());
        self.request(form, Some(authorization), number).await
    }

    async fn request(
        &self,
        mut form: Vec<(&'static str, String)>,
        authorization: Option<&str>,
        number: u64,
    ) -> Result<Token> {
        form.extend(self.parameters.iter().cloned());
        let place = |e: Error| e.context(format!("token of `{}`", self.server));
        let mut attempt = 0;
        let body = loop {
            match self.post(&form, authorization).await.map_err(place)? {
                Ok(body) => break body,
                // A token may be asked for more than once.
                Err((_, wait)) if attempt + 1 < ATTEMPTS && wait.is_some() => {
                    let retry_after = wait.flatten();
                    match retry::wait(attempt, retry_after.as_deref(), chrono::Utc::now()) {
                        Some(wait) => tokio::time::sleep(wait).await,
                        None => {
                            return Err(place(Error::new(ErrorKind::Io, "the server wants too long a wait")));
                        }
                    }
                    attempt += 1;
                }
                Err((e, _)) => return Err(place(e)),
            }
        };
        self.read(&body, number).map_err(place)
    }

    /// Sends a form once. The inner error says whether it may be sent again, and what the server
    /// said about when.
    #[allow(clippy::type_complexity, reason = "read in one place only")]
    async fn post(
        &self,
        form: &[(&'static str, String)],
        authorization: Option<&str>,
    ) -> Result<Result<Vec<u8>, (Error, Option<Option<String>>)>> {
        let text = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        let mut request = self
            .http
            .post(self.server.clone())
            .header(reqwest::header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(reqwest::header::ACCEPT, "application/json")
            .body(text);
        if let Some(token) = authorization {
            request = request.header(AUTHORIZATION, bearer(token)?);
        }
        let failed = |e: reqwest::Error| {
            let message = self.scrub(describe(&e));
            Ok(Err((Error::new(ErrorKind::Io, message), Some(None))))
        };
        let sent = match request.build() {
            Ok(request) => execute(&self.http, request).await?,
            Err(e) => Err(e),
        };
        let mut response = match sent {
            Ok(response) => response,
            Err(e) => return failed(e),
        };
        let (mut body, status) = (Vec::new(), response.status());
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) if body.len() + chunk.len() <= MAX_REPLY_LEN => {
                    body.extend_from_slice(&chunk)
                }
                Ok(Some(_)) => return Err(Error::invalid("the reply is too long to be a token")),
                Ok(None) => break,
                Err(e) => return failed(e),
            }
        }
        if status.is_success() {
            return Ok(Ok(body));
        }
        let mut failure = Failure::parse(status.as_u16(), &body);
        let secrets = form.iter().filter(|(name, _)| name.ends_with("_secret") || name.ends_with("_token"));
        failure.message = secrets.fold(self.scrub(failure.message), |text, (_, secret)| scrub(text, secret));
        let retry_after = response.headers().get(reqwest::header::RETRY_AFTER);
        let retry_after = retry_after.and_then(|v| v.to_str().ok()).map(str::to_owned);
        let again = matches!(status.as_u16(), 408 | 429 | 500 | 502 | 503 | 504).then_some(retry_after);
        Ok(Err((failure.error(Subject::Server), again)))
    }

    fn read(&self, body: &[u8], number: u64) -> Result<Token> {
        let json: Json = serde_json::from_slice(body)
            .map_err(|_| Error::invalid("expected a JSON object with an `access_token`"))?;
        let text = |name: &str| json.get(name).and_then(Json::as_str).filter(|t| !t.is_empty());
        let value =
            text("access_token").ok_or_else(|| Error::invalid("the reply has no `access_token`"))?.to_owned();
        if let Some(kind) = text("token_type")
            && !kind.eq_ignore_ascii_case("bearer")
            && !kind.eq_ignore_ascii_case("n_a")
        {
            return Err(Error::unsupported("a token that is not a bearer token"));
        }
        // Checks that it can be sent.
        bearer(&value)?;
        let told = match json.get("expires_in") {
            // Some servers write it as a string.
            Some(Json::String(text)) => text.parse().ok(),
            Some(number) => number.as_f64(),
            None => None,
        };
        let told = told.filter(|s: &f64| *s >= 0.0).and_then(|s| Duration::try_from_secs_f64(s).ok());
        let lifetime = jwt_lifetime(&value).or(told);
        let kind = text("issued_token_type").unwrap_or(ACCESS_TOKEN).to_owned();
        let mut seen = self.seen.write().unwrap_or_else(PoisonError::into_inner);
        // The last few are enough: older ones have expired.
        if seen.len() >= 8 {
            seen.remove(0);
        }
        seen.push(value.clone());
        Ok(Token::new(value, kind, lifetime, number))
    }

    /// Replaces the tokens that were got.
    pub(super) fn scrub(&self, text: String) -> String {
        let seen = self.seen.read().unwrap_or_else(PoisonError::into_inner);
        seen.iter().fold(text, |text, token| scrub(text, token))
    }
}

impl fmt::Debug for OAuth2 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuth2").field("server", &self.server.as_str()).finish_non_exhaustive()
    }
}

/// How long a JSON web token still holds; `None` for other tokens.
fn jwt_lifetime(token: &str) -> Option<Duration> {
    let mut parts = token.split('.');
    let (_, payload, _, None) = (parts.next()?, parts.next()?, parts.next()?, parts.next()) else {
        return None;
    };
    let json: Json = serde_json::from_slice(&base64_url(payload)?).ok()?;
    let expires_at = json.get("exp")?.as_i64()?;
    let left = expires_at.saturating_sub(chrono::Utc::now().timestamp());
    Some(Duration::from_secs(u64::try_from(left).unwrap_or(0)))
}

/// Decodes base64 in its alphabet for URLs, without padding (RFC 7515).
fn base64_url(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 3);
    let (mut bits, mut count) = (0u32, 0u32);
    for c in text.trim_end_matches('=').bytes() {
        let digit = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'-' | b'+' => 62,
            b'_' | b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6 | u32::from(digit)) & 0xffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn web_tokens_say_when_they_expire() {
        // {"exp": 4102444800}, the year 2100.
        let far = "eyJhbGciOiJub25lIn0.eyJleHAiOiA0MTAyNDQ0ODAwfQ.sig";
        assert!(jwt_lifetime(far).unwrap() > Duration::from_secs(1 << 30));
        // {"exp": 1}, long ago.
        assert_eq!(jwt_lifetime("e30.eyJleHAiOiAxfQ.x"), Some(Duration::ZERO));
        for other in ["", "opaque", "a.b", "a.b.c", "a.e30.c", "a.!.c", "e30.eyJleHAiOiAxfQ.x.y"] {
            assert_eq!(jwt_lifetime(other), None, "{other}");
        }
    }

    #[test]
    fn base64_without_padding() {
        for (text, bytes) in
            [("", &b""[..]), ("Zg", b"f"), ("Zm8", b"fo"), ("Zm9v", b"foo"), ("_-8", b"\xff\xef")]
        {
            assert_eq!(base64_url(text).as_deref(), Some(bytes), "{text}");
        }
        assert_eq!(base64_url("a b"), None);
    }
}
