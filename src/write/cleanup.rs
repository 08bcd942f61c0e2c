//! Removing files in the background.

use std::sync::LazyLock;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::fanout::remove_files;
use crate::spec::ContentFile;
use crate::table::Table;

/// How many removals are under way.
static REMOVALS: LazyLock<watch::Sender<usize>> = LazyLock::new(|| watch::Sender::new(0));

/// Counts one removal for as long as it lives.
struct Counted;

impl Counted {
    fn new() -> Self {
        REMOVALS.send_modify(|count| *count += 1);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        REMOVALS.send_modify(|count| *count = count.saturating_sub(1));
    }
}

/// Removes something as a task of its own; `None` where there is no runtime for it.
pub(super) fn spawn(removal: impl Future<Output = ()> + Send + 'static) -> Option<JoinHandle<()>> {
    let runtime = Handle::try_current().ok()?;
    let counted = Counted::new();
    Some(runtime.spawn(async move {
        removal.await;
        drop(counted);
    }))
}

/// Files that are removed if they are not taken.
pub(super) struct Unclaimed {
    table: Table,
    pub(super) files: Vec<ContentFile>,
}

impl Unclaimed {
    pub(super) fn new(table: &Table) -> Self {
        Self { table: table.clone(), files: Vec::new() }
    }

    pub(super) fn take(mut self) -> Vec<ContentFile> {
        std::mem::take(&mut self.files)
    }

    /// Removes them now.
    pub(super) async fn remove(self) {
        let table = self.table.clone();
        remove_files(&table, &self.take()).await;
    }
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        if self.files.is_empty() {
            return;
        }
        let (table, files) = (self.table.clone(), std::mem::take(&mut self.files));
        spawn(async move { remove_files(&table, &files).await });
    }
}

/// Waits until the files are removed of all statements and writers of this process that failed or were
/// given up. To be called before a process ends, whose runtimes would not go on with that; it does not return
/// while one that has files to remove stands still.
pub async fn cleaned_up() {
    // The sender is never dropped.
    let _ = REMOVALS.subscribe().wait_for(|count| *count == 0).await;
}
