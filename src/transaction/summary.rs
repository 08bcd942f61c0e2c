//! The numbers in a snapshot's summary (spec, "Optional Snapshot Summary Fields").

use std::collections::{BTreeMap, HashSet};

use crate::spec::{ContentFile, ContentType, PartitionValues, Snapshot, SpecId};

/// Counts what a snapshot changes.
#[derive(Debug, Clone, Default)]
pub(super) struct Summary {
    added: Counts,
    removed: Counts,
    partitions: HashSet<(SpecId, PartitionValues)>,
    /// Removed entries of files that were listed twice.
    pub(super) duplicates: u64,
    /// Manifests that the snapshot added, kept, and put others in the place of.
    pub(super) manifests: Option<[usize; 3]>,
    /// Entries that were written anew.
    pub(super) entries_processed: Option<usize>,
}

#[derive(Debug, Clone, Default)]
struct Counts {
    bytes: i64,
    data_files: i64,
    records: i64,
    equality_files: i64,
    equality_deletes: i64,
    position_files: i64,
    vectors: i64,
    position_deletes: i64,
}

impl Counts {
    fn add(&mut self, file: &ContentFile) {
        // Of a Puffin file only the part that is the vector.
        let bytes = match file.content_size_in_bytes {
            Some(bytes) if file.is_deletion_vector() => bytes,
            _ => file.file_size_in_bytes,
        };
        let add = |to: &mut i64, n: i64| *to = to.saturating_add(n);
        add(&mut self.bytes, bytes);
        match file.content {
            ContentType::Data => {
                add(&mut self.data_files, 1);
                add(&mut self.records, file.record_count);
            }
            ContentType::PositionDeletes => {
                add(if file.is_deletion_vector() { &mut self.vectors } else { &mut self.position_files }, 1);
                add(&mut self.position_deletes, file.record_count);
            }
            ContentType::EqualityDeletes => {
                add(&mut self.equality_files, 1);
                add(&mut self.equality_deletes, file.record_count);
            }
        }
    }

    fn delete_files(&self) -> i64 {
        self.equality_files.saturating_add(self.position_files).saturating_add(self.vectors)
    }
}

impl Summary {
    /// Counts a file that the snapshot adds.
    pub(super) fn add(&mut self, file: &ContentFile) {
        self.added.add(file);
        self.partitions.insert((file.spec_id, file.partition.clone()));
    }

    /// Counts a file that the snapshot removes.
    pub(super) fn remove(&mut self, file: &ContentFile) {
        self.removed.add(file);
        self.partitions.insert((file.spec_id, file.partition.clone()));
    }

    /// How many rows the added and the removed data files have.
    pub(super) fn records(&self) -> (i64, i64) {
        (self.added.records, self.removed.records)
    }

    /// The numbers, with the totals that follow from those of the snapshot before. A total that is
    /// not known before is not known after.
    pub(super) fn build(&self, parent: Option<&Snapshot>) -> BTreeMap<String, String> {
        let (added, removed) = (&self.added, &self.removed);
        let mut summary = BTreeMap::new();
        let changes = [
            ("added-data-files", added.data_files),
            ("deleted-data-files", removed.data_files),
            ("added-equality-delete-files", added.equality_files),
            ("removed-equality-delete-files", removed.equality_files),
            ("added-position-delete-files", added.position_files),
            ("removed-position-delete-files", removed.position_files),
            ("added-delete-files", added.delete_files()),
            ("removed-delete-files", removed.delete_files()),
            ("added-dvs", added.vectors),
            ("removed-dvs", removed.vectors),
            ("added-records", added.records),
            ("deleted-records", removed.records),
            ("added-files-size", added.bytes),
            ("removed-files-size", removed.bytes),
            ("added-position-deletes", added.position_deletes),
            ("removed-position-deletes", removed.position_deletes),
            ("added-equality-deletes", added.equality_deletes),
            ("removed-equality-deletes", removed.equality_deletes),
            ("deleted-duplicate-files", i64::try_from(self.duplicates).unwrap_or(i64::MAX)),
        ];
        let counted = changes.into_iter().filter(|(_, n)| *n > 0);
        summary.extend(counted.map(|(name, n)| (name.to_owned(), n.to_string())));
        summary.insert("changed-partition-count".to_owned(), self.partitions.len().to_string());
        if let Some([created, kept, replaced]) = self.manifests {
            for (name, n) in [("created", created), ("kept", kept), ("replaced", replaced)] {
                summary.insert(format!("manifests-{name}"), n.to_string());
            }
        }
        if let Some(n) = self.entries_processed {
            summary.insert("entries-processed".to_owned(), n.to_string());
        }
        let totals = [
            ("total-records", added.records, removed.records),
            ("total-files-size", added.bytes, removed.bytes),
            ("total-data-files", added.data_files, removed.data_files),
            ("total-delete-files", added.delete_files(), removed.delete_files()),
            ("total-position-deletes", added.position_deletes, removed.position_deletes),
            ("total-equality-deletes", added.equality_deletes, removed.equality_deletes),
        ];
        for (name, added, removed) in totals {
            let before = match parent {
                None => Some(0),
                Some(parent) => parent.summary.get(name).and_then(|text| text.parse::<i64>().ok()),
            };
            let total = before.and_then(|n| n.checked_add(added)?.checked_sub(removed));
            if let Some(total) = total.filter(|n| *n >= 0) {
                summary.insert(name.to_owned(), total.to_string());
            }
        }
        summary
    }
}
