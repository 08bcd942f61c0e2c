//! What the server's errors mean (REST spec, `IcebergErrorResponse`).

use serde_json::Value as Json;

use crate::error::{Error, ErrorKind};

/// Longer messages are cut: nobody reads a stack trace in one line.
const MAX_MESSAGE_LEN: usize = 2000;

/// What a request is about, as far as it decides what a status means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    /// The configuration, or a token.
    Server,
    /// A namespace that is read, created or changed.
    Namespace,
    /// A namespace that is dropped.
    DropNamespace,
    /// A table or view.
    Entity,
    /// A commit to tables, or to a view.
    Commit,
}

/// An error as the server tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) status: u16,
    /// The exception's name, such as `NoSuchTableException`.
    pub(super) name: String,
    pub(super) message: String,
}

impl Failure {
    /// Reads the error model, or that of OAuth2, or takes the text as it is.
    pub(super) fn parse(status: u16, body: &[u8]) -> Self {
        let json: Option<Json> = serde_json::from_slice(body).ok();
        let text = |json: Option<&Json>| json.and_then(Json::as_str).unwrap_or_default().to_owned();
        let (name, message) = match json.as_ref().and_then(|json| json.get("error")) {
            Some(Json::String(name)) => {
                (name.clone(), text(json.as_ref().and_then(|json| json.get("error_description"))))
            }
            Some(error @ Json::Object(_)) => (text(error.get("type")), text(error.get("message"))),
            // Gateways answer with web pages.
            _ if body.first() == Some(&b'<') => Default::default(),
            _ => {
                let message = json.as_ref().and_then(|json| json.get("message"));
                let raw = String::from_utf8_lossy(body);
                (String::new(), message.and_then(Json::as_str).map_or(raw.into_owned(), str::to_owned))
            }
        };
        Self { status, name: cut(&name), message: cut(&message) }
    }

    /// The error that it means.
    pub(super) fn error(&self, subject: Subject) -> Error {
        Error::new(self.kind(subject), self.to_string())
    }

    fn kind(&self, subject: Subject) -> ErrorKind {
        match (self.status, subject) {
            (400 | 409, _) if self.name == "NamespaceNotEmptyException" => ErrorKind::ValidationFailed,
            (400, _) if self.name == "ValidationException" => ErrorKind::ValidationFailed,
            (400 | 422, _) => ErrorKind::DataInvalid,
            (404, _) => ErrorKind::NotFound,
            (405 | 406 | 501, _) => ErrorKind::Unsupported,
            (409, Subject::Commit) => ErrorKind::CommitConflict,
            (409, Subject::DropNamespace) => ErrorKind::ValidationFailed,
            (409, _) => ErrorKind::AlreadyExists,
            _ => ErrorKind::Io,
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let meaning = match self.status {
            300..=399 => "the server redirects elsewhere, which is not followed; correct the property `uri`",
            401 => "not authenticated",
            403 => "not allowed",
            419 => "the authentication has expired",
            429 => "too many requests",
            503 => "the server is not available",
            _ => "the server refused",
        };
        write!(f, "{meaning} (status {}", self.status)?;
        if !self.name.is_empty() {
            write!(f, ", {}", self.name)?;
        }
        match self.message.is_empty() {
            true => f.write_str(")"),
            false => write!(f, "): {}", self.message),
        }
    }
}

fn cut(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(MAX_MESSAGE_LEN) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn iceberg(status: u16, name: &str) -> Failure {
        let body = format!(r#"{{"error": {{"message": "m", "type": "{name}", "code": {status}}}}}"#);
        Failure::parse(status, body.as_bytes())
    }

    #[test]
    fn statuses_are_our_kinds() {
        use ErrorKind::*;
        for (status, name, subject, kind) in [
            (404, "NoSuchTableException", Subject::Entity, NotFound),
            (404, "NoSuchNamespaceException", Subject::Commit, NotFound),
            (404, "NoSuchWarehouseException", Subject::Server, NotFound),
            (409, "AlreadyExistsException", Subject::Entity, AlreadyExists),
            (409, "AlreadyExistsException", Subject::Namespace, AlreadyExists),
            (409, "NamespaceNotEmptyException", Subject::DropNamespace, ValidationFailed),
            (400, "NamespaceNotEmptyException", Subject::DropNamespace, ValidationFailed),
            (409, "", Subject::DropNamespace, ValidationFailed),
            (409, "CommitFailedException", Subject::Commit, CommitConflict),
            (400, "BadRequestException", Subject::Commit, DataInvalid),
            (400, "ValidationException", Subject::Commit, ValidationFailed),
            (422, "UnprocessableEntityException", Subject::Namespace, DataInvalid),
            (401, "NotAuthorizedException", Subject::Commit, Io),
            (403, "ForbiddenException", Subject::Commit, Io),
            (419, "AuthenticationTimeoutException", Subject::Commit, Io),
            (406, "UnsupportedOperationException", Subject::Namespace, Unsupported),
            (500, "InternalServerError", Subject::Entity, Io),
            (503, "SlowDownException", Subject::Entity, Io),
        ] {
            let e = iceberg(status, name).error(subject);
            assert_eq!(e.kind(), kind, "{status} {name} {subject:?}");
            assert!(e.to_string().contains(name) && e.to_string().contains(&status.to_string()), "{e}");
        }
    }

    #[test]
    fn any_body_is_taken() {
        let oauth = Failure::parse(400, br#"{"error": "invalid_client", "error_description": "who?"}"#);
        assert_eq!((oauth.name.as_str(), oauth.message.as_str()), ("invalid_client", "who?"));
        assert_eq!(Failure::parse(500, b"plain text ").message, "plain text");
        assert_eq!(Failure::parse(502, b"<html>Bad Gateway</html>").message, "");
        assert_eq!(Failure::parse(500, br#"{"message": "m"}"#).message, "m");
        assert_eq!(Failure::parse(500, b"").to_string(), "the server refused (status 500)");
        for odd in [&b"[]"[..], b"{\"error\": 1}", b"{\"error\": {\"type\": 3}}", b"\xff\xfe", b"null"] {
            Failure::parse(500, odd).error(Subject::Commit);
        }
        assert!(Failure::parse(500, &vec![b'x'; 1 << 20]).message.len() < 3000);
    }
}
