//! One execution of a plan that writes files: what there is to remove if it fails.

use std::sync::{Arc, Mutex, PoisonError};

use datafusion::execution::TaskContext;
use uuid::Uuid;

use super::fanout::remove_files;
use crate::spec::ContentFile;
use crate::table::Table;

/// Shared by the nodes of a plan while it is executed, through the context of its tasks; a plan can be
/// executed several times, and each has files of its own.
pub(super) struct Execution {
    table: Table,
    /// A part of the names of all files.
    pub(super) operation: Uuid,
    written: Mutex<Written>,
}

enum Written {
    /// These are finished, and not committed yet.
    Files(Vec<ContentFile>),
    /// Nobody waits for more.
    Failed,
    /// A commit has begun, which owns the files now.
    Handed,
}

impl Execution {
    pub(super) fn new(table: &Table) -> Arc<Self> {
        let written = Mutex::new(Written::Files(Vec::new()));
        Arc::new(Self { table: table.clone(), operation: Uuid::new_v4(), written })
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

    /// Removes the files; those that are finished later are removed by who writes them.
    pub(super) async fn fail(&self) {
        let files = self.end(Written::Failed);
        remove_files(&self.table, &files).await;
    }

    fn end(&self, next: Written) -> Vec<ContentFile> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *written, next) {
            Written::Files(files) => files,
            Written::Failed | Written::Handed => Vec::new(),
        }
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
pub(super) fn remove_later(table: &Table, files: Vec<ContentFile>) {
    if files.is_empty() {
        return;
    }
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        let table = table.clone();
        runtime.spawn(async move { remove_files(&table, &files).await });
    }
}
