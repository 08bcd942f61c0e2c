//! Errors as people read them.

use datafusion::error::DataFusionError;
use icefloe::Error;

/// One line: our own errors without DataFusion's wrapping, the others without back traces.
pub fn describe(error: &DataFusionError) -> String {
    let text = match Error::find_in(error) {
        Some(ours) => ours.to_string(),
        None => error.strip_backtrace(),
    };
    let lines: Vec<_> = text.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    lines.join(" ").replace(" caused by ", ": ")
}

/// Whether the reader of our output went away (`… | head`).
pub fn is_broken_pipe(error: &DataFusionError) -> bool {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(e) = next {
        if let Some(io) = e.downcast_ref::<std::io::Error>() {
            return io.kind() == std::io::ErrorKind::BrokenPipe;
        }
        next = e.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

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
    }

    #[test]
    fn a_broken_pipe_is_found_inside() {
        let pipe = || io::Error::new(io::ErrorKind::BrokenPipe, "gone");
        assert!(is_broken_pipe(&DataFusionError::IoError(pipe())));
        assert!(is_broken_pipe(&DataFusionError::IoError(pipe()).context("x")));
        assert!(!is_broken_pipe(&DataFusionError::IoError(io::Error::other("x"))));
        assert!(!is_broken_pipe(&DataFusionError::Plan("x".into())));
    }
}
