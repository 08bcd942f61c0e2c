//! A thread for connections that outlive the runtime of whoever asked for them first.
//!
//! A connection works only while the runtime that opened it runs. Callers come from several: the
//! application's, and short ones that DataFusion's synchronous calls are answered in.

use std::future::Future;
use std::sync::OnceLock;

use tokio::runtime::{Builder, Handle};

use crate::error::{Error, ErrorKind, Result};

/// Runs `work` on the thread that all connections live on. It goes on if the caller gives up.
#[cfg(feature = "catalog-sql")]
pub(crate) async fn run<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Result<T> {
    let done = handle()?.spawn(work).await;
    done.map_err(|e| {
        Error::new(ErrorKind::CommitStateUnknown, "work in the background was cut off").with_source(e)
    })
}

/// As [`run`], but `work` ends if the caller gives up.
///
/// # Errors
/// If there is no such thread, so that `work` did not begin.
#[cfg(feature = "catalog-rest")]
pub(crate) async fn run_while_wanted<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T> {
    struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

    impl<T> Drop for AbortOnDrop<T> {
        fn drop(&mut self) {
            self.0.abort();
        }
    }

    let mut task = AbortOnDrop(handle()?.spawn(work));
    let done = (&mut task.0).await;
    done.map_err(|e| {
        Error::new(ErrorKind::CommitStateUnknown, "work in the background was cut off").with_source(e)
    })
}

/// Waits for `work` in code that is not async, such as what DataFusion asks of catalogs. Whatever
/// thread that is called on, the work goes on on another one.
pub(crate) fn wait_for<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let (send, receive) = std::sync::mpsc::sync_channel(1);
    handle()?.spawn(async move {
        // Nobody waits any more if it can't be sent.
        let _ = send.send(work.await);
    });
    receive.recv().unwrap_or_else(|_| Err(Error::new(ErrorKind::Io, "work in the background was cut off")))
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
