//! What an action asks of the commits of others.

use crate::expr::Predicate;
use crate::spec::SnapshotId;

/// What is checked of what was committed after the snapshot that a change was worked out from.
#[derive(Debug, Clone, Default)]
pub(super) struct ConflictChecks {
    /// That snapshot; `None`: all of the history is checked.
    pub(super) from: Option<SnapshotId>,
    /// The rows that the change has to do with; all if `None`.
    pub(super) filter: Option<Predicate>,
    /// Whether no data may have been added there.
    pub(super) no_data: bool,
    /// Whether no rows or files may have been deleted there.
    pub(super) no_deletes: bool,
}
