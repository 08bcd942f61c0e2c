//! Connections to a server: time-outs, TLS, proxies, redirects, and the thread that they live on.

use std::time::Duration;

use reqwest::redirect::Policy;
use url::Url;

use super::auth::is_loopback;
use super::properties::Properties;
use crate::catalog::background;
use crate::error::{Error, ErrorKind, Result};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long nothing may come from the server: commits take their time.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
const MAX_REDIRECTS: usize = 5;

/// Sends a request on the thread that connections live on: whoever asks next may do so from another
/// runtime, while the one that asked first stands still.
///
/// # Errors
/// If there is no such thread, so that nothing was sent.
pub(super) async fn execute(
    http: &reqwest::Client,
    request: reqwest::Request,
) -> Result<reqwest::Result<reqwest::Response>> {
    let http = http.clone();
    background::run_while_wanted(async move { http.execute(request).await }).await
}

/// What went wrong on the way, without the URL, whose query may hold anything.
pub(super) fn describe(e: &reqwest::Error) -> String {
    let what = if e.is_timeout() {
        "the server did not answer in time"
    } else if e.is_connect() {
        "the server can't be reached"
    } else if e.is_redirect() {
        "the server redirects elsewhere"
    } else {
        "the connection failed"
    };
    let (mut text, mut source) = (what.to_owned(), std::error::Error::source(e));
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

/// A client as the properties describe it.
pub(super) fn connect(properties: &Properties, uri: &Url) -> Result<reqwest::Client> {
    let mut builder = reqwest::Client::builder()
        .user_agent(
            properties
                .get("rest.client.user-agent")
                .unwrap_or(concat!("icefloe/", env!("CARGO_PKG_VERSION"))),
        )
        .connect_timeout(properties.millis("rest.client.connection-timeout-ms", CONNECT_TIMEOUT)?)
        .read_timeout(properties.millis("rest.client.socket-timeout-ms", READ_TIMEOUT)?)
        .redirect(same_origin());
    let file = |name: &str, path: &str| {
        let read = std::fs::read(path);
        read.map_err(|e| {
            Error::new(ErrorKind::Io, format!("cannot read `{path}`: {e}"))
                .context(format!("property `{name}`"))
        })
    };
    for name in ["rest.tls.ca-file", "ssl.cabundle"] {
        if let Some(path) = properties.get(name) {
            let certificates = reqwest::Certificate::from_pem_bundle(&file(name, path)?).ok();
            let certificates = certificates.filter(|c| !c.is_empty()).ok_or_else(|| {
                Error::invalid(format!("`{path}` holds no certificates (PEM)"))
                    .context(format!("property `{name}`"))
            })?;
            builder = certificates.into_iter().fold(builder, |b, c| b.add_root_certificate(c));
        }
    }
    if let Some(path) = properties.get("ssl.client.cert") {
        let mut pem = file("ssl.client.cert", path)?;
        if let Some(path) = properties.get("ssl.client.key") {
            pem.push(b'\n');
            pem.extend(file("ssl.client.key", path)?);
        }
        let identity = reqwest::Identity::from_pem(&pem).map_err(|_| {
            Error::invalid("expected a certificate and its private key (PEM)")
                .context("properties `ssl.client.cert` and `ssl.client.key`")
        })?;
        builder = builder.identity(identity);
    }
    if let Some(host) = properties.get("rest.client.proxy.hostname") {
        let port = properties.number("rest.client.proxy.port")?.unwrap_or(80);
        let invalid = |_| Error::invalid("expected a host").context("property `rest.client.proxy.hostname`");
        let mut proxy = reqwest::Proxy::all(format!("http://{host}:{port}")).map_err(invalid)?;
        if let Some(user) = properties.get("rest.client.proxy.username") {
            proxy = proxy.basic_auth(user, properties.get("rest.client.proxy.password").unwrap_or_default());
        }
        builder = builder.proxy(proxy);
    } else if is_loopback(uri) {
        // A proxy of the environment leads elsewhere.
        builder = builder.no_proxy();
    }
    builder.build().map_err(|e| Error::invalid(format!("the HTTP client can't be set up: {}", describe(&e))))
}

/// Follows redirects within one server only: headers may hold secrets.
fn same_origin() -> Policy {
    Policy::custom(|attempt| {
        let stays = attempt.previous().first().is_some_and(|first| first.origin() == attempt.url().origin());
        match stays && attempt.previous().len() <= MAX_REDIRECTS {
            true => attempt.follow(),
            false => attempt.stop(),
        }
    })
}
