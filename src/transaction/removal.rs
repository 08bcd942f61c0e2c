//! What a snapshot removes.

use std::collections::{HashMap, HashSet};

use crate::expr::Predicate;
use crate::spec::{ContentFile, PartitionValues, SpecId};

/// What tells a file from others: several deletion vectors may lie in one Puffin file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct FileKey {
    path: String,
    offset: Option<i64>,
}

impl FileKey {
    pub(super) fn of(file: &ContentFile) -> Self {
        Self { path: file.file_path.clone(), offset: file.content_offset }
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }
}

/// A spec and a tuple of it.
pub(super) type Partition = (SpecId, PartitionValues);

/// Which files to remove from manifests of one content.
#[derive(Debug, Clone, Default)]
pub(super) struct Removal {
    /// These, with their partition if it is known.
    files: HashMap<FileKey, Option<Partition>>,
    /// All of these partitions.
    pub(super) partitions: HashSet<Partition>,
    /// Those with rows that match: all of a file, or none.
    pub(super) filter: Option<Predicate>,
    /// Whether each of `files` must be there.
    pub(super) all_must_exist: bool,
    /// Whether there must be no file to remove.
    pub(super) none_may_exist: bool,
}

impl Removal {
    /// Removes a file.
    pub(super) fn remove(&mut self, file: &ContentFile) {
        self.files.insert(FileKey::of(file), Some((file.spec_id, file.partition.clone())));
    }

    /// Removes a file that only its path is known of.
    pub(super) fn remove_path(&mut self, path: String) {
        self.files.entry(FileKey { path, offset: None }).or_insert(None);
    }

    /// Removes files with rows that match one of the filters so far.
    pub(super) fn remove_matching(&mut self, filter: Predicate) {
        self.filter = Some(Predicate::or(self.filter.take().into_iter().chain([filter])));
    }

    /// Whether nothing is to be removed.
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty() && self.partitions.is_empty() && self.filter.is_none()
    }

    /// Whether that file is named.
    pub(super) fn names(&self, file: &ContentFile) -> bool {
        !self.files.is_empty() && self.files.contains_key(&FileKey::of(file))
    }

    /// Whether a file is named or lies in one of the partitions.
    pub(super) fn covers(&self, file: &ContentFile) -> bool {
        self.names(file)
            || !self.partitions.is_empty()
                && self.partitions.contains(&(file.spec_id, file.partition.clone()))
    }

    /// The files that are named.
    pub(super) fn files(&self) -> impl Iterator<Item = &FileKey> {
        self.files.keys()
    }

    /// The partitions that files are removed from; `None` if they are not all known.
    pub(super) fn partitions_of_files(&self) -> Option<HashSet<&Partition>> {
        self.files.values().map(Option::as_ref).chain(self.partitions.iter().map(Some)).collect()
    }
}
