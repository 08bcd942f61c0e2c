//! One execution of a plan that writes files: what there is to remove if it fails.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryPool;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::changes::Changes;
use super::cleanup;
use super::data_files::DataFileWriter;
use super::fanout::remove_files;
use crate::spec::ContentFile;
use crate::table::Table;

/// How long is waited for writers that were told to stop.
const PATIENCE: Duration = Duration::from_secs(30);

/// Shared by the nodes of a plan while it is executed, through the context of its tasks; a plan can be
/// executed several times, and each has files of its own.
pub(super) struct Execution {
    table: Table,
    /// A part of the names of all files.
    pub(super) operation: Uuid,
    /// What it found out about the rows that it changes.
    pub(super) changes: Arc<Changes>,
    pub(super) memory: Arc<dyn MemoryPool>,
    written: Mutex<Written>,
    /// How many writers there are.
    live: watch::Sender<usize>,
    /// The clean-ups of writers that were stopped.
    stopped: Mutex<Vec<JoinHandle<()>>>,
}

/// That a writer is at work.
pub(super) struct Live(Arc<Execution>);

enum Written {
    /// These are finished, and not committed yet.
    Files(Vec<ContentFile>),
    /// Nobody waits for more.
    Failed,
    /// A commit has begun, which owns the files now.
    Handed,
}

impl Execution {
    pub(super) fn new(table: &Table, context: &TaskContext) -> Arc<Self> {
        let written = Mutex::new(Written::Files(Vec::new()));
        let (live, stopped) = (watch::Sender::new(0), Mutex::default());
        let (operation, changes) = (Uuid::new_v4(), Arc::default());
        let memory = Arc::clone(context.memory_pool());
        Arc::new(Self { table: table.clone(), operation, changes, memory, written, live, stopped })
    }

    /// That of a task; `None` if whoever commits is somewhere else.
    pub(super) fn of(context: &TaskContext) -> Option<Arc<Self>> {
        context.session_config().get_extension::<Self>()
    }

    /// The context for the nodes below.
    pub(super) fn within(self: &Arc<Self>, context: &TaskContext) -> Arc<TaskContext> {
        let config = context.session_config().clone().with_extension(Arc::clone(self));
        Arc::new(TaskContext::new(
            context.task_id(),
            context.session_id(),
            config,
            context.scalar_functions().clone(),
            context.higher_order_functions().clone(),
            context.aggregate_functions().clone(),
            context.window_functions().clone(),
            context.runtime_env(),
        ))
    }

    /// Counts a writer.
    pub(super) fn enter(self: &Arc<Self>) -> Live {
        self.live.send_modify(|live| *live += 1);
        Live(Arc::clone(self))
    }

    /// Remembers finished files; whether anybody still waits for them.
    pub(super) fn wrote(&self, files: &[ContentFile]) -> bool {
        match &mut *self.written.lock().unwrap_or_else(PoisonError::into_inner) {
            Written::Files(written) => {
                written.extend_from_slice(files);
                true
            }
            Written::Failed | Written::Handed => false,
        }
    }

    /// Leaves the files to a commit.
    pub(super) fn hand_over(&self) {
        self.end(Written::Handed);
    }

    /// Removes the files, once the writers have stopped: whoever runs them was told to.
    pub(super) async fn fail(&self) {
        let files = self.end(Written::Failed);
        remove_files(&self.table, &files).await;
        let mut live = self.live.subscribe();
        let is_late = tokio::time::timeout(PATIENCE, live.wait_for(|live| *live == 0)).await.is_err();
        if is_late {
            tracing::warn!("a writer of a statement that failed does not stop; its files may stay behind");
        }
        let stopped = std::mem::take(&mut *self.stopped.lock().unwrap_or_else(PoisonError::into_inner));
        for done in stopped {
            if let Err(error) = done.await {
                tracing::warn!(%error, "files of a statement that failed may stay behind");
            }
        }
    }

    fn wait_for(&self, removal: Option<JoinHandle<()>>) {
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner).extend(removal);
    }

    fn end(&self, next: Written) -> Vec<ContentFile> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *written, next) {
            Written::Files(files) => files,
            Written::Failed | Written::Handed => Vec::new(),
        }
    }
}

impl Live {
    /// Removes the files of a writer that was stopped.
    pub(super) fn stop(&self, writer: DataFileWriter) {
        self.0.wait_for(cleanup::spawn(writer.abort()));
    }

    /// Removes the files of a writer that has ended too late.
    pub(super) fn too_late(&self, files: Vec<ContentFile>) {
        let table = self.0.table.clone();
        self.0.wait_for(cleanup::spawn(async move { remove_files(&table, &files).await }));
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.0.live.send_modify(|live| *live = live.saturating_sub(1));
    }
}

/// One that was given up before the commit.
impl Drop for Execution {
    fn drop(&mut self) {
        let files = self.end(Written::Failed);
        remove_later(&self.table, files);
    }
}

/// Removes files where nothing can be awaited, as far as there is a runtime.
fn remove_later(table: &Table, files: Vec<ContentFile>) {
    if files.is_empty() {
        return;
    }
    let table = table.clone();
    cleanup::spawn(async move { remove_files(&table, &files).await });
}
