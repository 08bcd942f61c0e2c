//! Errors as people read them.

use std::fmt;

use datafusion::error::DataFusionError;
use icefloe::Error;

/// Something that the shell itself has to say.
#[derive(Debug)]
struct Message(String);

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Message {}

/// An error of the shell.
pub fn message(text: impl Into<String>) -> DataFusionError {
    DataFusionError::External(Box::new(Message(text.into())))
}

/// One line: our own errors without DataFusion's wrapping, the others without back traces.
pub fn describe(error: &DataFusionError) -> String {
    let text = match (Error::find_in(error), error.find_root()) {
        (Some(ours), _) => ours.to_string(),
        (None, DataFusionError::SQL(syntax, _)) => syntax.to_string(),
        (None, DataFusionError::External(inner)) if inner.is::<Message>() => inner.to_string(),
        (None, _) => error.strip_backtrace(),
    };
    let lines: Vec<_> = text.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    lines.join(" ").replace(" caused by ", ": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_errors_lose_the_wrapping_and_keep_the_kind() {
        let ours = Error::not_found("no snapshot 5").context("table t");
        let error = DataFusionError::from(ours).context("type_coercion").context("planning");
        assert_eq!(describe(&error), "table t: not found: no snapshot 5");
    }

    #[test]
    fn other_errors_are_one_line() {
        let error = DataFusionError::Plan("no\n table".into()).context("here");
        assert_eq!(describe(&error), "here: Error during planning: no table");
        assert_eq!(describe(&message("a\nb")), "a b");
        let error = datafusion::sql::parser::DFParser::parse_sql("SELEC 1").unwrap_err();
        assert!(describe(&error).starts_with("sql parser error: Expected"), "{}", describe(&error));
    }
}
