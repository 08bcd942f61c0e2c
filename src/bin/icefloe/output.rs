//! Standard output that may be closed early (`… | head`).

use std::io::{ErrorKind, Result, Stdout, Write};

/// Standard output; the process ends quietly once nobody reads it any more.
pub struct Output(Stdout);

/// Where results go.
pub fn output() -> Output {
    Output(std::io::stdout())
}

fn checked<T>(result: Result<T>) -> Result<T> {
    if let Err(error) = &result
        && error.kind() == ErrorKind::BrokenPipe
    {
        std::process::exit(0);
    }
    result
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        checked(self.0.write(bytes))
    }

    fn flush(&mut self) -> Result<()> {
        checked(self.0.flush())
    }
}
