//! The one error type of the crate.
//!
//! Callers decide by [`Error::kind`], people read the message: it names the table, the file and
//! the field. The kind survives a trip through [`DataFusionError`]; see [`Error::find_in`].

use std::error::Error as StdError;
use std::fmt;

use datafusion::error::DataFusionError;

/// What went wrong, for callers that have to decide what to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file, a piece of metadata or an argument breaks the specification.
    DataInvalid,
    /// Valid, but icefloe can't do it; the message says what can be done instead.
    Unsupported,
    /// A table, namespace, snapshot, reference or file that does not exist.
    NotFound,
    /// Something of that name exists already.
    AlreadyExists,
    /// Somebody else committed first; the commit may be tried again.
    CommitConflict,
    /// The commit may or may not have happened: nothing may be cleaned up.
    CommitStateUnknown,
    /// The commit contradicts what others committed; trying again can't help.
    ValidationFailed,
    /// Storage or network failed.
    Io,
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ErrorKind::DataInvalid => "invalid data",
            ErrorKind::Unsupported => "unsupported",
            ErrorKind::NotFound => "not found",
            ErrorKind::AlreadyExists => "already exists",
            ErrorKind::CommitConflict => "commit conflict",
            ErrorKind::CommitStateUnknown => "commit state unknown",
            ErrorKind::ValidationFailed => "validation failed",
            ErrorKind::Io => "i/o error",
        })
    }
}

/// An error of icefloe: a kind, a message, the places it passed on its way up, and its cause.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    /// Innermost first: "field `x`", "manifest s3://…", "table db.t".
    context: Vec<String>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// The result of nearly everything here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of `kind` that says `message`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), context: Vec::new(), source: None }
    }

    /// Shorthand for [`ErrorKind::DataInvalid`].
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::DataInvalid, message)
    }

    /// Shorthand for [`ErrorKind::Unsupported`].
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }

    /// Shorthand for [`ErrorKind::NotFound`].
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// Adds where it happened; called by each layer that knows more (field, file, table).
    pub fn context(mut self, place: impl Into<String>) -> Self {
        self.context.push(place.into());
        self
    }

    /// Keeps the cause.
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The message, without kind and places.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The same error once more, with the cause as text: for those who share a failure.
    pub(crate) fn duplicate(&self) -> Self {
        Self {
            kind: self.kind,
            message: self.message.clone(),
            context: self.context.clone(),
            source: self.source.as_ref().map(|source| source.to_string().into()),
        }
    }

    /// Finds the icefloe error inside a DataFusion error, however often it was wrapped.
    pub fn find_in(error: &DataFusionError) -> Option<&Error> {
        let mut next: Option<&(dyn StdError + 'static)> = Some(error);
        while let Some(e) = next {
            if let Some(found) = e.downcast_ref::<Error>() {
                return Some(found);
            }
            next = match e.downcast_ref::<DataFusionError>() {
                Some(DataFusionError::External(inner)) => Some(inner.as_ref()),
                Some(DataFusionError::Shared(inner)) => Some(inner.as_ref()),
                Some(DataFusionError::Context(_, inner)) => Some(inner.as_ref()),
                Some(DataFusionError::Diagnostic(_, inner)) => Some(inner.as_ref()),
                Some(DataFusionError::ArrowError(inner, _)) => Some(inner.as_ref()),
                _ => e.source(),
            };
        }
        None
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for place in self.context.iter().rev() {
            write!(f, "{place}: ")?;
        }
        write!(f, "{}: {}", self.kind, self.message)?;
        if let Some(source) = &self.source {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|s| s as &(dyn StdError + 'static))
    }
}

impl From<Error> for DataFusionError {
    fn from(error: Error) -> Self {
        DataFusionError::External(Box::new(error))
    }
}

/// Adds a place to the error of a result.
pub trait ResultExt<T> {
    /// Adds where it happened, if it failed; `place` is only called then.
    fn context(self, place: impl FnOnce() -> String) -> Result<T>;
}

impl<T> ResultExt<T> for Result<T> {
    fn context(self, place: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|e| e.context(place()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn the_kind_survives_every_wrapping() {
        let wrap: [fn(DataFusionError) -> DataFusionError; 4] = [
            |e| e,
            |e| e.context("while planning"),
            |e| DataFusionError::Shared(Arc::new(e)),
            |e| DataFusionError::External(Box::new(e)),
        ];
        for outer in wrap {
            for inner in wrap {
                let error = outer(inner(Error::not_found("no such snapshot").into()));
                let found = Error::find_in(&error).map(Error::kind);
                assert_eq!(found, Some(ErrorKind::NotFound), "{error:?}");
            }
        }
    }

    #[test]
    fn the_message_reads_from_the_outside_in() {
        let e = Error::invalid("expected a number").context("field `schema-id`").context("file v1.json");
        assert_eq!(e.to_string(), "file v1.json: field `schema-id`: invalid data: expected a number");
    }
}
