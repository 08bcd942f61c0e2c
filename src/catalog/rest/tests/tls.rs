//! Servers that prove who they are, and clients that have to.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tokio_rustls::server::TlsStream;

use super::*;
use crate::catalog::MemoryCatalog;
use crate::table::OpenOptions;
use crate::{Error, ErrorKind};

const DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/tls/");

fn path(file: &str) -> String {
    format!("{DIR}{file}")
}

fn certificate(file: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(path(file)).unwrap()
}

/// Connections whose handshake went well.
struct Tls {
    tcp: TcpListener,
    acceptor: TlsAcceptor,
}

impl axum::serve::Listener for Tls {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        loop {
            let (stream, from) = self.tcp.accept().await.unwrap();
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, from);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.tcp.local_addr()
    }
}

/// A server at `https://localhost`, which may want to know its clients.
async fn start(knows_clients: bool) -> Arc<Server> {
    let provider = Arc::new(default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(certificate("ca.pem")).unwrap();
    let builder =
        ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let builder = match knows_clients {
        true => {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.unwrap().with_client_cert_verifier(verifier.build().unwrap())
        }
        false => builder.unwrap().with_no_client_auth(),
    };
    let key = PrivateKeyDer::from_pem_file(path("server.key")).unwrap();
    let config = builder.with_single_cert(vec![certificate("server.pem")], key).unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("https://localhost:{}/api", tcp.local_addr().unwrap().port());
    let catalog = MemoryCatalog::with_warehouse("behind", "memory:///w", OpenOptions::new()).unwrap();
    let listener = Tls { tcp, acceptor: TlsAcceptor::from(Arc::new(config)) };
    Server::listen(listener, uri, Settings::default(), catalog, None)
}

async fn connected(uri: &str, more: &[(&str, &str)]) -> crate::Result<RestCatalog> {
    let mut properties = map(&[("uri", uri), ("token", "hunter2"), ("rest.client.max-retries", "0")]);
    properties.extend(map(more));
    RestCatalog::connect("ice", properties).await
}

fn refused(connected: crate::Result<RestCatalog>) -> Error {
    let e = connected.err().unwrap();
    assert!(!e.to_string().contains("hunter2"), "{e}");
    e
}

#[tokio::test]
async fn a_server_has_to_be_known() {
    let server = start(false).await;
    let ca = path("ca.pem");
    for property in ["rest.tls.ca-file", "ssl.cabundle"] {
        let catalog = connected(&server.uri, &[(property, &ca)]).await.unwrap();
        catalog.create_namespace(&namespace(&property.replace('.', "_")), BTreeMap::new()).await.unwrap();
    }
    assert!(server.requests().iter().all(|r| r.headers["authorization"] == "Bearer hunter2"));
    // Nobody vouches for it unless told otherwise, and then for that name alone.
    let elsewhere = server.uri.replace("localhost", "127.0.0.1");
    for (uri, more, part) in [
        (server.uri.as_str(), &[][..], "UnknownIssuer"),
        (server.uri.as_str(), &[("ssl.cabundle", path("client.pem").as_str())], "UnknownIssuer"),
        (elsewhere.as_str(), &[("ssl.cabundle", ca.as_str())], "127.0.0.1"),
    ] {
        let e = refused(connected(uri, more).await);
        assert_eq!(e.kind(), ErrorKind::Io);
        assert!(e.to_string().contains(part), "{e}");
    }
    assert!(server.requests().is_empty(), "nothing was sent to whom nobody knows");
}

#[tokio::test]
async fn a_client_has_to_be_known() {
    let server = start(true).await;
    let (ca, certificate, key) = (path("ca.pem"), path("client.pem"), path("client.key"));
    let trusting = ("ssl.cabundle", ca.as_str());
    let own = [trusting, ("ssl.client.cert", &certificate), ("ssl.client.key", &key)];
    connected(&server.uri, &own).await.unwrap();
    // Both in one file.
    let directory = tempfile::tempdir().unwrap();
    let both = directory.path().join("both.pem");
    let text = [std::fs::read(&certificate).unwrap(), std::fs::read(&key).unwrap()].concat();
    std::fs::write(&both, text).unwrap();
    connected(&server.uri, &[trusting, ("ssl.client.cert", both.to_str().unwrap())]).await.unwrap();
    server.requests();
    assert_eq!(refused(connected(&server.uri, &[trusting]).await).kind(), ErrorKind::Io);
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn files_that_are_wrong_are_named() {
    let (ca, key) = (path("ca.pem"), path("client.key"));
    for (property, file, kind) in [
        ("rest.tls.ca-file", path("none.pem"), ErrorKind::Io),
        ("ssl.cabundle", path("README.md"), ErrorKind::DataInvalid),
        ("ssl.client.cert", path("none.pem"), ErrorKind::Io),
        ("ssl.client.cert", key.clone(), ErrorKind::DataInvalid),
        ("ssl.client.cert", ca.clone(), ErrorKind::DataInvalid),
    ] {
        let e = refused(connected("https://localhost:1", &[(property, &file)]).await);
        assert_eq!(e.kind(), kind, "{e}");
        assert!(e.to_string().contains(property), "{e}");
        let text = std::fs::read_to_string(&key).unwrap();
        assert!(text.lines().filter(|line| !line.starts_with('-')).all(|line| !e.to_string().contains(line)));
    }
}

#[tokio::test]
async fn a_proxy_is_asked() {
    // It hears of the server that is meant, and of nobody's secrets.
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = proxy.local_addr().unwrap().port().to_string();
    let heard = tokio::spawn(async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let (mut stream, _) = proxy.accept().await.unwrap();
        let mut text = Vec::new();
        while !text.ends_with(b"\r\n\r\n") {
            text.push(stream.read_u8().await.unwrap());
        }
        stream.write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        String::from_utf8(text).unwrap()
    });
    let more = [("rest.client.proxy.hostname", "127.0.0.1"), ("rest.client.proxy.port", port.as_str())];
    refused(connected("https://catalog.invalid", &more).await);
    let heard = heard.await.unwrap();
    assert!(heard.starts_with("CONNECT catalog.invalid:443 ") && !heard.contains("hunter2"), "{heard}");
}
