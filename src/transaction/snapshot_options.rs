//! What all actions that make a snapshot can be told.

/// The options of an action that has a `producer`.
macro_rules! snapshot_options {
    () => {
        /// Commits to this branch in place of `main`. One that does not exist begins at the head
        /// of `main`.
        pub fn branch(mut self, name: impl Into<String>) -> Self {
            self.producer.branch = name.into();
            self
        }

        /// Adds a property to the snapshot's summary. Those that are counted can't be set.
        pub fn property(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
            self.producer.properties.insert(name.into(), value.into());
            self
        }

        /// Adds the snapshot to the table, but to no branch: it can be looked at and
        /// cherry-picked later.
        pub fn stage_only(mut self) -> Self {
            self.producer.stage_only = true;
            self
        }

        /// Stages the snapshot for an audit under this id ("write, audit, publish"). The table's
        /// property `write.wap.enabled` must be set.
        pub fn wap_id(mut self, id: impl Into<String>) -> Self {
            self.producer.properties.insert("wap.id".to_owned(), id.into());
            self.stage_only()
        }
    };
}

/// What validation goes by, for an action that has `checks`.
macro_rules! conflict_options {
    () => {
        /// The snapshot that the change was worked out from: what was committed after it is
        /// checked. Without one it is all of the branch's history.
        pub fn validate_from_snapshot(mut self, id: crate::spec::SnapshotId) -> Self {
            self.checks.from = Some(id);
            self
        }

        /// Fails if others added data that the change would have had to see.
        pub fn validate_no_conflicting_data(mut self) -> Self {
            self.checks.no_data = true;
            self
        }

        /// Fails if others deleted rows or files that the change builds on.
        pub fn validate_no_conflicting_deletes(mut self) -> Self {
            self.checks.no_deletes = true;
            self
        }

        /// The rows that the change has to do with: what others commit elsewhere is no conflict.
        #[allow(dead_code, reason = "not every action has rows of its own")]
        pub(crate) fn conflict_detection_filter(mut self, filter: crate::expr::Predicate) -> Self {
            self.checks.filter = Some(filter);
            self
        }
    };
}

pub(super) use {conflict_options, snapshot_options};
