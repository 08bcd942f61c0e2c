//! A thread for connections that outlive the runtime of whoever asked for them first.
//!
//! A connection works only while the runtime that opened it runs. Callers come from several: the
//! application's, and short ones that DataFusion's synchronous calls are answered in.

use std::future::Future;
use std::sync::OnceLock;

use tokio::runtime::{Builder, Handle};

use crate::error::{Error, ErrorKind, Result};

/// Runs `work` on the thread that all connections live on. It goes on if the caller gives up.
pub(crate) async fn run<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Result<T> {
    let done = handle()?.spawn(work).await;
    done.map_err(|e| {
        Error::new(ErrorKind::CommitStateUnknown, "work in the background was cut off").with_source(e)
    })
}

fn handle() -> Result<&'static Handle> {
    static HANDLE: OnceLock<Result<Handle, String>> = OnceLock::new();
    let handle = HANDLE.get_or_init(|| {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
        let handle = runtime.handle().clone();
        let forever = move || runtime.block_on(std::future::pending::<()>());
        let thread = std::thread::Builder::new().name("icefloe-catalog".to_owned());
        thread.spawn(forever).map_err(|e| e.to_string())?;
        Ok(handle)
    });
    handle.as_ref().map_err(|e| Error::new(ErrorKind::Io, format!("no thread for connections: {e}")))
}
