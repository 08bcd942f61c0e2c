//! Summaries of snapshots (spec, "Snapshots", Appendix F, "Optional Snapshot Summary Fields").

use std::collections::BTreeMap;

use super::content_file::{ContentFile, ContentType};
use super::manifest_list::{ManifestContent, ManifestFile};
use super::partition::PartitionSpec;
use super::snapshot::Snapshot;

/// What a snapshot changes, counted up file by file.
#[derive(Debug, Clone, PartialEq)]
pub struct SnapshotSummary {
    properties: BTreeMap<String, String>,
    counts: Counts,
    /// By partition directory.
    partitions: BTreeMap<String, Counts>,
    /// Of how many changed partitions, at most, the counts are told one by one.
    partition_limit: usize,
    /// Whether all changes were counted file by file.
    knows_partitions: bool,
    duplicate_deletes: i64,
}

/// Each total, and what adds to it and takes from it.
const TOTALS: [[&str; 3]; 6] = [
    ["total-records", "added-records", "deleted-records"],
    ["total-files-size", "added-files-size", "removed-files-size"],
    ["total-data-files", "added-data-files", "deleted-data-files"],
    ["total-delete-files", "added-delete-files", "removed-delete-files"],
    ["total-position-deletes", "added-position-deletes", "removed-position-deletes"],
    ["total-equality-deletes", "added-equality-deletes", "removed-equality-deletes"],
];

impl Default for SnapshotSummary {
    fn default() -> Self {
        Self::new(0)
    }
}

impl SnapshotSummary {
    /// A summary of nothing, which will tell of each partition unless more than `partition_limit`
    /// change (`write.summary.partition-limit`).
    pub fn new(partition_limit: usize) -> Self {
        Self {
            properties: BTreeMap::new(),
            counts: Counts::default(),
            partitions: BTreeMap::new(),
            partition_limit,
            knows_partitions: true,
            duplicate_deletes: 0,
        }
    }

    /// Counts a data or delete file that the snapshot adds; `spec` is that of its partition.
    pub fn add_file(&mut self, spec: &PartitionSpec, file: &ContentFile) {
        self.counts.added.count(file);
        if let Some(counts) = self.partition(spec, file) {
            counts.added.count(file);
        }
    }

    /// Counts a data or delete file that the snapshot removes; `spec` is that of its partition.
    pub fn remove_file(&mut self, spec: &PartitionSpec, file: &ContentFile) {
        self.counts.removed.count(file);
        if let Some(counts) = self.partition(spec, file) {
            counts.removed.count(file);
        }
    }

    /// Counts a manifest that the snapshot adds as a whole. Partitions and sizes are not known then.
    pub fn add_manifest(&mut self, manifest: &ManifestFile) {
        self.knows_partitions = false;
        self.partitions.clear();
        let files = |count: Option<i32>| count.map_or(0, i64::from);
        let (added, removed) = (&mut self.counts.added, &mut self.counts.removed);
        match manifest.content {
            ManifestContent::Data => {
                add(&mut added.data_files, files(manifest.added_files_count));
                add(&mut added.records, manifest.added_rows_count.unwrap_or(0));
                add(&mut removed.data_files, files(manifest.deleted_files_count));
                add(&mut removed.records, manifest.deleted_rows_count.unwrap_or(0));
            }
            ManifestContent::Deletes => {
                add(&mut added.delete_files, files(manifest.added_files_count));
                add(&mut removed.delete_files, files(manifest.deleted_files_count));
                self.counts.sizes_unknown = true;
            }
        }
    }

    /// Counts a removal of a file that was removed already.
    pub fn count_duplicate_delete(&mut self) {
        add(&mut self.duplicate_deletes, 1);
    }

    /// Sets a property of the summary, such as `engine-name` or one of the user's own.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.properties.insert(name.into(), value.into());
    }

    /// Adds all that another summary counted and set.
    pub fn merge(&mut self, other: &SnapshotSummary) {
        self.properties.extend(other.properties.clone());
        self.counts.merge(&other.counts);
        add(&mut self.duplicate_deletes, other.duplicate_deletes);
        self.knows_partitions &= other.knows_partitions;
        if self.knows_partitions {
            for (path, counts) in &other.partitions {
                self.partitions.entry(path.clone()).or_default().merge(counts);
            }
        } else {
            self.partitions.clear();
        }
    }

    /// Rows of the data files that were added and removed so far.
    pub fn record_changes(&self) -> (i64, i64) {
        (self.counts.added.records, self.counts.removed.records)
    }

    /// The summary as metadata has it, with totals that go on from those of `previous`: the
    /// snapshot that the branch was at, if it was at any. Totals that it does not have are left
    /// out, as what they would count from is not known.
    pub fn build(&self, operation: &str, previous: Option<&Snapshot>) -> BTreeMap<String, String> {
        let mut summary = self.properties.clone();
        summary.insert("operation".to_owned(), operation.to_owned());
        let counts = self.counts.named();
        for (name, count) in &counts {
            summary.insert((*name).to_owned(), count.to_string());
        }
        if self.duplicate_deletes > 0 {
            summary.insert("deleted-duplicate-files".to_owned(), self.duplicate_deletes.to_string());
        }
        self.add_partitions(&mut summary);
        for [total, added, removed] in TOTALS {
            let before = match previous {
                None => Some(0),
                Some(snapshot) => snapshot.summary.get(total).and_then(|text| text.parse::<i64>().ok()),
            };
            let count = |name| counts.iter().find(|(n, _)| *n == name).map_or(0, |(_, count)| *count);
            let now = before.and_then(|n| n.checked_add(count(added))?.checked_sub(count(removed)));
            match now {
                Some(now) if now >= 0 => summary.insert(total.to_owned(), now.to_string()),
                _ => summary.remove(total),
            };
        }
        summary
    }

    fn add_partitions(&self, summary: &mut BTreeMap<String, String>) {
        if !self.knows_partitions {
            return;
        }
        summary.insert("changed-partition-count".to_owned(), self.partitions.len().to_string());
        if self.partitions.is_empty() || self.partitions.len() > self.partition_limit {
            return;
        }
        summary.insert("partition-summaries-included".to_owned(), "true".to_owned());
        // The one partition of an unpartitioned table has no name.
        for (path, counts) in self.partitions.iter().filter(|(path, _)| !path.is_empty()) {
            let counts = counts.named().into_iter().map(|(name, count)| format!("{name}={count}"));
            summary.insert(format!("partitions.{path}"), counts.collect::<Vec<_>>().join(","));
        }
    }

    fn partition(&mut self, spec: &PartitionSpec, file: &ContentFile) -> Option<&mut Counts> {
        let path = self.knows_partitions.then(|| spec.partition_path(&file.partition))?;
        Some(self.partitions.entry(path).or_default())
    }
}

/// Files that were added and removed.
#[derive(Debug, Clone, PartialEq, Default)]
struct Counts {
    added: Side,
    removed: Side,
    sizes_unknown: bool,
}

/// Files that were added, or removed.
#[derive(Debug, Clone, PartialEq, Default)]
struct Side {
    size: i64,
    data_files: i64,
    delete_files: i64,
    equality_delete_files: i64,
    position_delete_files: i64,
    deletion_vectors: i64,
    records: i64,
    position_deletes: i64,
    equality_deletes: i64,
}

impl Counts {
    fn merge(&mut self, other: &Counts) {
        self.added.merge(&other.added);
        self.removed.merge(&other.removed);
        self.sizes_unknown |= other.sizes_unknown;
    }

    /// The counts that are not zero, in the order that Java has.
    fn named(&self) -> Vec<(&'static str, i64)> {
        let (added, removed) = (&self.added, &self.removed);
        let files = [
            ("added-data-files", added.data_files),
            ("deleted-data-files", removed.data_files),
            ("added-equality-delete-files", added.equality_delete_files),
            ("removed-equality-delete-files", removed.equality_delete_files),
            ("added-position-delete-files", added.position_delete_files),
            ("removed-position-delete-files", removed.position_delete_files),
            ("added-delete-files", added.delete_files),
            ("removed-delete-files", removed.delete_files),
            ("added-dvs", added.deletion_vectors),
            ("removed-dvs", removed.deletion_vectors),
            ("added-records", added.records),
            ("deleted-records", removed.records),
        ];
        let sizes = [
            ("added-files-size", added.size),
            ("removed-files-size", removed.size),
            ("added-position-deletes", added.position_deletes),
            ("removed-position-deletes", removed.position_deletes),
            ("added-equality-deletes", added.equality_deletes),
            ("removed-equality-deletes", removed.equality_deletes),
        ];
        let sizes = sizes.into_iter().filter(|_| !self.sizes_unknown);
        files.into_iter().chain(sizes).filter(|(_, count)| *count > 0).collect()
    }
}

impl Side {
    fn count(&mut self, file: &ContentFile) {
        let vector = file.is_deletion_vector();
        // A Puffin file may hold the vectors of many data files.
        let size = if vector { file.content_size_in_bytes } else { None };
        add(&mut self.size, size.unwrap_or(file.file_size_in_bytes));
        match file.content {
            ContentType::Data => {
                add(&mut self.data_files, 1);
                add(&mut self.records, file.record_count);
            }
            ContentType::PositionDeletes => {
                add(if vector { &mut self.deletion_vectors } else { &mut self.position_delete_files }, 1);
                add(&mut self.delete_files, 1);
                add(&mut self.position_deletes, file.record_count);
            }
            ContentType::EqualityDeletes => {
                add(&mut self.equality_delete_files, 1);
                add(&mut self.delete_files, 1);
                add(&mut self.equality_deletes, file.record_count);
            }
        }
    }

    fn merge(&mut self, other: &Side) {
        add(&mut self.size, other.size);
        add(&mut self.data_files, other.data_files);
        add(&mut self.delete_files, other.delete_files);
        add(&mut self.equality_delete_files, other.equality_delete_files);
        add(&mut self.position_delete_files, other.position_delete_files);
        add(&mut self.deletion_vectors, other.deletion_vectors);
        add(&mut self.records, other.records);
        add(&mut self.position_deletes, other.position_deletes);
        add(&mut self.equality_deletes, other.equality_deletes);
    }
}

/// Counts come from files that others wrote: none of them may overflow.
fn add(count: &mut i64, more: i64) {
    *count = count.saturating_add(more);
}

#[cfg(test)]
mod tests {
    use super::super::content_file::FileFormat;
    use super::super::ids::{FieldId, SequenceNumber, SnapshotId, SpecId};
    use super::super::metrics::Metrics;
    use super::super::partition::PartitionField;
    use super::super::snapshot::SnapshotManifests;
    use super::super::transform::Transform;
    use super::super::value::Value;
    use super::*;

    fn spec() -> PartitionSpec {
        let field = PartitionField {
            source_ids: vec![FieldId(1)],
            field_id: FieldId(1000),
            name: "p".to_owned(),
            transform: Transform::Identity,
            extra: serde_json::Map::new(),
        };
        PartitionSpec { spec_id: SpecId(0), fields: vec![field] }
    }

    fn file(content: ContentType, partition: i32, records: i64) -> ContentFile {
        ContentFile {
            content,
            file_path: "f".into(),
            file_format: FileFormat::Parquet,
            spec_id: SpecId(0),
            partition: vec![Some(Value::Int(partition))],
            record_count: records,
            file_size_in_bytes: 100,
            metrics: Metrics::default(),
            key_metadata: None,
            split_offsets: None,
            equality_ids: None,
            sort_order_id: None,
            first_row_id: None,
            referenced_data_file: None,
            content_offset: None,
            content_size_in_bytes: None,
        }
    }

    fn vector() -> ContentFile {
        ContentFile {
            file_format: FileFormat::Puffin,
            content_size_in_bytes: Some(7),
            ..file(ContentType::PositionDeletes, 1, 3)
        }
    }

    fn strings(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    fn after(summary: BTreeMap<String, String>) -> Snapshot {
        Snapshot {
            snapshot_id: SnapshotId(1),
            parent_snapshot_id: None,
            sequence_number: SequenceNumber(1),
            timestamp_ms: 0,
            manifests: SnapshotManifests::List(String::new()),
            summary,
            schema_id: None,
            first_row_id: None,
            added_rows: None,
            key_id: None,
            extra: serde_json::Map::new(),
        }
    }

    #[test]
    fn every_kind_of_file_is_counted() {
        let mut summary = SnapshotSummary::default();
        summary.add_file(&spec(), &file(ContentType::Data, 1, 10));
        summary.add_file(&spec(), &file(ContentType::Data, 2, 20));
        summary.add_file(&spec(), &file(ContentType::PositionDeletes, 1, 4));
        summary.add_file(&spec(), &file(ContentType::EqualityDeletes, 1, 5));
        summary.add_file(&spec(), &vector());
        summary.set("k", "v");
        let first = summary.build("overwrite", None);
        let expected = strings(&[
            ("added-data-files", "2"),
            ("added-delete-files", "3"),
            ("added-dvs", "1"),
            ("added-equality-delete-files", "1"),
            ("added-equality-deletes", "5"),
            ("added-files-size", "407"),
            ("added-position-delete-files", "1"),
            ("added-position-deletes", "7"),
            ("added-records", "30"),
            ("changed-partition-count", "2"),
            ("k", "v"),
            ("operation", "overwrite"),
            ("total-data-files", "2"),
            ("total-delete-files", "3"),
            ("total-equality-deletes", "5"),
            ("total-files-size", "407"),
            ("total-position-deletes", "7"),
            ("total-records", "30"),
        ]);
        assert_eq!(first, expected);

        let mut summary = SnapshotSummary::default();
        summary.remove_file(&spec(), &file(ContentType::Data, 1, 10));
        summary.remove_file(&spec(), &file(ContentType::PositionDeletes, 1, 4));
        summary.remove_file(&spec(), &file(ContentType::EqualityDeletes, 1, 5));
        summary.remove_file(&spec(), &vector());
        summary.count_duplicate_delete();
        let second = summary.build("delete", Some(&after(first)));
        let expected = strings(&[
            ("changed-partition-count", "1"),
            ("deleted-data-files", "1"),
            ("deleted-duplicate-files", "1"),
            ("deleted-records", "10"),
            ("operation", "delete"),
            ("removed-delete-files", "3"),
            ("removed-dvs", "1"),
            ("removed-equality-delete-files", "1"),
            ("removed-equality-deletes", "5"),
            ("removed-files-size", "307"),
            ("removed-position-delete-files", "1"),
            ("removed-position-deletes", "7"),
            ("total-data-files", "1"),
            ("total-delete-files", "0"),
            ("total-equality-deletes", "0"),
            ("total-files-size", "100"),
            ("total-position-deletes", "0"),
            ("total-records", "20"),
        ]);
        assert_eq!(second, expected);
    }

    #[test]
    fn totals_that_are_not_known_stay_unknown() {
        let mut summary = SnapshotSummary::default();
        summary.add_file(&spec(), &file(ContentType::Data, 1, 10));
        summary.set("total-records", "5");
        let before =
            strings(&[("total-data-files", "x"), ("total-files-size", "-1"), ("total-records", "9")]);
        let built = summary.build("append", Some(&after(before)));
        let totals: Vec<_> = built.iter().filter(|(name, _)| name.starts_with("total-")).collect();
        assert_eq!(
            totals,
            [
                (&"total-files-size".to_owned(), &"99".to_owned()),
                (&"total-records".to_owned(), &"19".to_owned())
            ]
        );
        let full = strings(&[("total-records", &i64::MAX.to_string())]);
        assert!(!summary.build("append", Some(&after(full))).contains_key("total-records"));
    }

    #[test]
    fn partitions_are_told_up_to_the_limit() {
        let mut summary = SnapshotSummary::new(1);
        summary.add_file(&spec(), &file(ContentType::Data, 1, 10));
        let built = summary.build("append", None);
        assert_eq!(built["partition-summaries-included"], "true");
        assert_eq!(built["partitions.p=1"], "added-data-files=1,added-records=10,added-files-size=100");
        let mut other = SnapshotSummary::default();
        other.add_file(&spec(), &file(ContentType::Data, 1, 1));
        summary.merge(&other);
        assert_eq!(summary.record_changes(), (11, 0));
        assert_eq!(
            summary.build("append", None)["partitions.p=1"],
            "added-data-files=2,added-records=11,added-files-size=200"
        );
        other.add_file(&spec(), &file(ContentType::Data, 2, 1));
        summary.merge(&other);
        let built = summary.build("append", None);
        assert_eq!(built["changed-partition-count"], "2");
        assert!(!built.keys().any(|name| name.starts_with("partition")));
    }

    #[test]
    fn manifests_are_counted_as_a_whole() {
        let manifest = |content| ManifestFile {
            manifest_path: String::new(),
            manifest_length: 0,
            partition_spec_id: SpecId(0),
            content,
            sequence_number: SequenceNumber(0),
            min_sequence_number: SequenceNumber(0),
            added_snapshot_id: None,
            added_files_count: Some(2),
            existing_files_count: Some(0),
            deleted_files_count: Some(1),
            added_rows_count: Some(20),
            existing_rows_count: Some(0),
            deleted_rows_count: Some(10),
            partitions: None,
            key_metadata: None,
            first_row_id: None,
        };
        let mut summary = SnapshotSummary::new(9);
        summary.add_file(&spec(), &file(ContentType::Data, 1, 1));
        summary.add_manifest(&manifest(ManifestContent::Data));
        let built = summary.build("append", None);
        assert_eq!((built["added-data-files"].as_str(), built["added-records"].as_str()), ("3", "21"));
        assert_eq!((built["deleted-data-files"].as_str(), built["deleted-records"].as_str()), ("1", "10"));
        assert!(!built.keys().any(|name| name.contains("partition")));
        assert_eq!(built["added-files-size"], "100");
        summary.add_manifest(&manifest(ManifestContent::Deletes));
        let built = summary.build("append", None);
        assert_eq!(
            (built["added-delete-files"].as_str(), built["removed-delete-files"].as_str()),
            ("2", "1")
        );
        assert!(!built.contains_key("added-files-size"));
    }
}
