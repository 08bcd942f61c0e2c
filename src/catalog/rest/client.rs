//! Sends requests: authentication, retries, and what may have happened when a reply is lost.

use bytes::Bytes;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Method, StatusCode};
use serde_json::Value as Json;
use url::Url;

use super::auth::{Auth, Sent, TableToken, check_transport};
use super::connection::{connect, describe, execute};
use super::failure::{Failure, Subject};
use super::properties::Properties;
use super::retry;
use crate::error::{Error, ErrorKind, Result};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const RETRIES: u64 = 5;
/// Metadata of tables has been seen at some hundred megabytes.
const MAX_BODY_LEN: usize = 1 << 30;
const MAX_ERROR_LEN: usize = 1 << 20;

/// A request of the protocol.
#[derive(Debug)]
pub(super) struct Request<'a> {
    method: Method,
    url: Url,
    subject: Subject,
    /// What it is for, to follow "cannot": `create the table `a.b``.
    what: String,
    body: Option<Bytes>,
    headers: HeaderMap,
    token: Option<&'a TableToken>,
    reads: bool,
}

impl<'a> Request<'a> {
    pub(super) fn new(method: Method, url: Url, subject: Subject, what: impl Into<String>) -> Self {
        Self {
            method,
            url,
            subject,
            what: what.into(),
            body: None,
            headers: HeaderMap::new(),
            token: None,
            reads: false,
        }
    }

    pub(super) fn get(url: Url, subject: Subject, what: impl Into<String>) -> Self {
        Self::new(Method::GET, url, subject, what)
    }

    pub(super) fn post(url: Url, subject: Subject, what: impl Into<String>, body: &Json) -> Self {
        let body = Some(Bytes::from(body.to_string()));
        Self { body, ..Self::new(Method::POST, url, subject, what) }
    }

    pub(super) fn delete(url: Url, subject: Subject, what: impl Into<String>) -> Self {
        Self::new(Method::DELETE, url, subject, what)
    }

    pub(super) fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    pub(super) fn token(mut self, token: Option<&'a TableToken>) -> Self {
        self.token = token;
        self
    }

    /// It changes nothing, although its method is one that might.
    pub(super) fn reading(mut self) -> Self {
        self.reads = true;
        self
    }

    fn changes_something(&self) -> bool {
        !self.reads && self.method != Method::GET && self.method != Method::HEAD
    }

    fn error(&self, kind: ErrorKind, message: impl Into<String>) -> Error {
        Error::new(kind, format!("cannot {}", self.what)).with_source(message.into())
    }

    /// The error of a request of which it is not known whether it was carried out.
    pub(super) fn unknown(&self, cause: impl Into<String>) -> Error {
        let message = format!("whether the server did {} is not known", self.what);
        Error::new(ErrorKind::CommitStateUnknown, message).with_source(cause.into())
    }
}

/// What the server answered: a success, or "not modified".
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Reply {
    /// The reply's body as JSON.
    pub(super) fn json(&self) -> Result<Json> {
        serde_json::from_slice(&self.body)
            .map_err(|e| Error::invalid(format!("the server's reply is not the JSON that was expected: {e}")))
    }
}

/// How one attempt ended.
enum Outcome {
    Reply(Reply),
    Failure(Failure, Option<String>),
    /// The request certainly did not reach the server.
    NotSent(String),
    /// The request may have reached the server.
    Lost(String),
}

/// Sends requests to one server.
pub(super) struct Client {
    http: reqwest::Client,
    headers: HeaderMap,
    auth: Auth,
    properties: Properties,
    retries: u32,
    /// Whether the server recognises a request that it has seen before.
    idempotent: bool,
}

impl Client {
    /// A client as the properties describe it.
    pub(super) fn new(properties: &Properties, idempotent: bool) -> Result<Self> {
        let uri = super::paths::Paths::resolve(properties.require("uri")?, "")?;
        let http = connect(properties, &uri)?;
        let headers = custom_headers(properties)?;
        let auth = Auth::new(properties, &http)?;
        let secret_header = headers.keys().any(|name| {
            let name = name.as_str();
            ["authorization", "cookie", "key", "token", "secret"].iter().any(|word| name.contains(word))
        });
        if auth.is_secret() || secret_header {
            check_transport(&uri, properties)?;
        }
        let retries = properties.number("rest.client.max-retries")?.unwrap_or(RETRIES).min(50) as u32;
        Ok(Self { http, headers, auth, properties: properties.clone(), retries, idempotent })
    }

    /// The client for the requests after the first, with what the server configured. A token that
    /// was got is used further, unless it is now to be had in another way.
    pub(super) fn configured(self, merged: &Properties, idempotent: bool) -> Result<Self> {
        let mut next = Self::new(merged, idempotent)?;
        if Auth::is_same(&self.properties, merged) {
            next.auth = self.auth;
        }
        Ok(next)
    }

    /// Refuses to send secrets to a place that the server named, if others could read them.
    pub(super) fn check_destination(&self, url: &Url) -> Result<()> {
        check_transport(url, &self.properties)
    }

    /// The token for one table, of the configuration that the server gives for it.
    pub(super) async fn table_token(&self, config: &Properties) -> Result<Option<TableToken>> {
        self.auth.table_token(config).await
    }

    /// Sends a request, again if that is safe and may help.
    ///
    /// # Errors
    /// As [`Failure::error`] says; `CommitStateUnknown` if the request changes something and may
    /// have been carried out although no success was seen.
    pub(super) async fn send(&self, request: &Request<'_>) -> Result<Reply> {
        let changes = request.changes_something();
        let key = (changes && self.idempotent).then(|| uuid::Uuid::now_v7().to_string());
        // What is removed once stays removed.
        let repeatable = !changes || request.method == Method::DELETE || key.is_some();
        let (mut attempt, mut renewed, mut unclear) = (0, false, false);
        loop {
            let (outcome, sent) = match self.attempt(request, key.as_deref()).await {
                Ok(attempted) => attempted,
                Err(e) if unclear => return Err(request.unknown(e.to_string())),
                Err(e) => return Err(e.context(format!("cannot {}", request.what))),
            };
            let (again, retry_after, message) = match &outcome {
                Outcome::Reply(_) => (false, None, String::new()),
                Outcome::Failure(failure, retry_after) => {
                    let message = failure.to_string();
                    match failure.status {
                        401 | 419 if !renewed && request.token.is_none() => {
                            renewed = true;
                            match self.auth.renew(sent).await {
                                Ok(true) => continue,
                                Ok(false) => (false, None, message),
                                Err(e) => (false, None, format!("{message}; {e}")),
                            }
                        }
                        // It has not been looked at.
                        429 => (true, retry_after.as_deref(), message),
                        // So a server says that it has not begun; some have nevertheless.
                        503 if retry_after.is_some() => {
                            unclear |= changes;
                            (true, retry_after.as_deref(), message)
                        }
                        408 | 500 | 502..=599 => {
                            unclear |= changes;
                            (repeatable, retry_after.as_deref(), message)
                        }
                        _ => (false, None, message),
                    }
                }
                Outcome::NotSent(message) => (true, None, message.clone()),
                Outcome::Lost(message) => {
                    unclear |= changes;
                    (repeatable, None, message.clone())
                }
            };
            if again
                && attempt < self.retries
                && let Some(wait) = retry::wait(attempt, retry_after, chrono::Utc::now())
            {
                tracing::debug!("cannot {}: {message}; it is tried again in {wait:?}", request.what);
                tokio::time::sleep(wait).await;
                attempt += 1;
                continue;
            }
            return match outcome {
                Outcome::Reply(reply) => Ok(reply),
                // An earlier attempt removed it, and its reply was lost.
                Outcome::Failure(failure, _)
                    if unclear && request.method == Method::DELETE && failure.status == 404 =>
                {
                    Ok(Reply {
                        status: StatusCode::NO_CONTENT,
                        headers: HeaderMap::new(),
                        body: Bytes::new(),
                    })
                }
                // A conflict may well be with what an earlier attempt did.
                _ if unclear => Err(request.unknown(message)),
                Outcome::Failure(failure, _) => {
                    let kind = failure.error(request.subject).kind();
                    Err(request.error(kind, message))
                }
                Outcome::NotSent(_) | Outcome::Lost(_) => Err(request.error(ErrorKind::Io, message)),
            };
        }
    }

    async fn attempt(&self, request: &Request<'_>, key: Option<&str>) -> Result<(Outcome, Sent)> {
        let mut sending = reqwest::Request::new(request.method.clone(), request.url.clone());
        let headers = sending.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(body) = &request.body {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            *sending.body_mut() = Some(body.clone().into());
        }
        let headers = sending.headers_mut();
        headers.extend(request.headers.clone());
        headers.extend(self.headers.clone());
        if let Some(key) = key.and_then(|key| HeaderValue::from_str(key).ok()) {
            headers.insert(IDEMPOTENCY_KEY, key);
        }
        let sent = self.auth.authorize(&mut sending, request.token).await?;
        let outcome = match execute(&self.http, sending).await? {
            Ok(response) => self.receive(request, response).await,
            Err(e) if e.is_connect() || e.is_builder() => Outcome::NotSent(self.scrub(&describe(&e))),
            Err(e) => Outcome::Lost(self.scrub(&describe(&e))),
        };
        Ok((outcome, sent))
    }

    async fn receive(&self, request: &Request<'_>, mut response: reqwest::Response) -> Outcome {
        let status = response.status();
        let good = status.is_success() || status == StatusCode::NOT_MODIFIED;
        let limit = if good { MAX_BODY_LEN } else { MAX_ERROR_LEN };
        let headers = std::mem::take(response.headers_mut());
        let mut body = Vec::new();
        if request.method != Method::HEAD && status != StatusCode::NOT_MODIFIED {
            loop {
                match response.chunk().await {
                    Ok(Some(chunk)) if body.len() + chunk.len() <= limit => body.extend_from_slice(&chunk),
                    Ok(None) => break,
                    Ok(Some(_)) if good => {
                        return Outcome::Lost(format!("the reply is longer than {MAX_BODY_LEN} bytes"));
                    }
                    // Of an error, the beginning is enough.
                    Ok(Some(_)) => break,
                    Err(e) if good => return Outcome::Lost(self.scrub(&describe(&e))),
                    Err(_) => break,
                }
            }
        }
        if good {
            return Outcome::Reply(Reply { status, headers, body: body.into() });
        }
        let mut failure = Failure::parse(status.as_u16(), &body);
        failure.name = self.scrub(&failure.name);
        failure.message = self.scrub(&failure.message);
        let retry_after = headers.get(RETRY_AFTER).and_then(|v| v.to_str().ok()).map(str::to_owned);
        Outcome::Failure(failure, retry_after)
    }

    pub(super) fn scrub(&self, text: &str) -> String {
        self.auth.scrub(self.properties.scrub(text))
    }
}

/// The headers of properties `header.NAME`.
fn custom_headers(properties: &Properties) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for (name, value) in properties.below("header.") {
        let place = |e: Error| e.context(format!("property `header.{name}`"));
        let header = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| place(Error::invalid("no such header can be sent")))?;
        let mut value = HeaderValue::from_str(value)
            .map_err(|_| place(Error::invalid("a value with characters that can't be sent")))?;
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    Ok(headers)
}
