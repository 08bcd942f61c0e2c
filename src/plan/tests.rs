//! Planning, on tables that the tests write themselves: manifests only, no data files.

use std::path::Path;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::error::Result;
use crate::expr::{Predicate, Term, Test};
use crate::spec::{
    Codec, ContentFile, ContentType, FieldId, FileFormat, ManifestContent, ManifestEntry, ManifestFile,
    ManifestListWriter, ManifestListWriterOptions, ManifestStatus, ManifestWriter, ManifestWriterOptions,
    MetricMaps, NestedField, PartitionField, PartitionSpec, PrimitiveType, Schema, SchemaId, SequenceNumber,
    SnapshotId, SpecId, Transform, Value,
};
use crate::table::{OpenOptions, Table};

/// `p int` (partition by identity), `x long`.
fn schema() -> Schema {
    let fields = vec![
        NestedField::optional(1, "p", PrimitiveType::Int),
        NestedField::optional(2, "x", PrimitiveType::Long),
    ];
    Schema::new(SchemaId(0), fields, vec![]).unwrap()
}

fn spec() -> PartitionSpec {
    let p = PartitionField {
        source_ids: vec![FieldId(1)],
        field_id: FieldId(1000),
        name: "p".into(),
        transform: Transform::Identity,
        extra: Default::default(),
    };
    PartitionSpec { spec_id: SpecId(0), fields: vec![p] }
}

/// A file of partition `p` whose `x` lies within the bounds.
fn file(name: &str, p: Option<i32>, bounds: (i64, i64)) -> ContentFile {
    let bytes = |v: i64| [(FieldId(2), Bytes::copy_from_slice(&v.to_le_bytes()))].into();
    let metrics = MetricMaps {
        value_counts: [(FieldId(2), 5)].into(),
        null_value_counts: [(FieldId(2), 0)].into(),
        lower_bounds: bytes(bounds.0),
        upper_bounds: bytes(bounds.1),
        ..MetricMaps::default()
    };
    ContentFile {
        content: ContentType::Data,
        file_path: format!("/data/{name}"),
        file_format: FileFormat::Parquet,
        spec_id: SpecId(0),
        partition: vec![p.map(Value::Int)],
        record_count: 5,
        file_size_in_bytes: 100,
        metrics: metrics.into(),
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

struct Builder<'a> {
    directory: &'a Path,
    version: u8,
    manifests: Vec<ManifestFile>,
}

impl<'a> Builder<'a> {
    fn new(directory: &'a Path, version: u8) -> Self {
        std::fs::create_dir_all(directory.join("metadata")).unwrap();
        Self { directory, version, manifests: Vec::new() }
    }

    fn path(&self, name: &str) -> String {
        self.directory.join("metadata").join(name).to_str().unwrap().to_owned()
    }

    fn manifest(
        &mut self,
        content: ManifestContent,
        write: impl FnOnce(&mut ManifestWriter),
    ) -> &mut ManifestFile {
        let (schema, spec) = (schema(), spec());
        let mut writer = ManifestWriter::new(ManifestWriterOptions {
            format_version: self.version,
            schema: &schema,
            spec: &spec,
            partition_type: &spec.partition_type(&schema),
            content,
            snapshot_id: Some(SnapshotId(1)),
            codec: Codec::Deflate,
        })
        .unwrap();
        write(&mut writer);
        let (bytes, file) = writer.finish(self.path(&format!("m{}.avro", self.manifests.len()))).unwrap();
        std::fs::write(&file.manifest_path, bytes).unwrap();
        self.manifests.push(file);
        self.manifests.last_mut().unwrap()
    }

    async fn table(self) -> Table {
        let mut list = ManifestListWriter::new(ManifestListWriterOptions {
            format_version: self.version,
            snapshot_id: SnapshotId(1),
            parent_snapshot_id: None,
            sequence_number: SequenceNumber(4),
            first_row_id: None,
            codec: Codec::Deflate,
        })
        .unwrap();
        for m in &self.manifests {
            list.add(m).unwrap();
        }
        std::fs::write(self.path("snap.avro"), list.finish().unwrap()).unwrap();
        let json = serde_json::json!({
            "format-version": self.version,
            "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
            "location": self.directory,
            "last-sequence-number": 4,
            "last-updated-ms": 1,
            "last-column-id": 2,
            "schema": schema().to_json().unwrap(),
            "schemas": [schema().to_json().unwrap()],
            "current-schema-id": 0,
            "partition-spec": spec().fields_to_json(),
            "partition-specs": [spec().to_json()],
            "default-spec-id": 0,
            "last-partition-id": 1000,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "default-sort-order-id": 0,
            "current-snapshot-id": 1,
            "snapshots": [{
                "snapshot-id": 1,
                "sequence-number": 4,
                "timestamp-ms": 1,
                "manifest-list": self.path("snap.avro"),
                "summary": {"operation": "append"},
            }],
        });
        std::fs::write(self.path("v1.metadata.json"), json.to_string()).unwrap();
        Table::open(self.directory.to_str().unwrap(), &OpenOptions::new()).await.unwrap()
    }
}

fn leaf(id: i32, test: Test) -> Predicate {
    Predicate::new(Term::field(&schema(), FieldId(id)).unwrap(), test).unwrap()
}

async fn plan(table: &Table, filter: Predicate) -> Result<ScanPlan> {
    let snapshot = table.metadata().current_snapshot().unwrap().clone();
    let request = ScanRequest { schema: table.metadata().current_schema().clone(), filter };
    plan_files(table, &snapshot, &request).await
}

fn names(plan: &ScanPlan) -> Vec<&str> {
    plan.tasks.iter().map(|t| t.data_file.file_path.trim_start_matches("/data/")).collect()
}

/// Three manifests: partition 1, partition 2, and both.
async fn three_manifests(directory: &Path) -> Table {
    let mut builder = Builder::new(directory, 2);
    builder.manifest(ManifestContent::Data, |w| {
        w.add(&file("a", Some(1), (0, 9)), None).unwrap();
        w.add(&file("b", Some(1), (10, 19)), None).unwrap();
    });
    builder.manifest(ManifestContent::Data, |w| w.add(&file("c", Some(2), (0, 9)), None).unwrap());
    builder.manifest(ManifestContent::Data, |w| {
        w.add(&file("d", Some(2), (10, 19)), None).unwrap();
        w.add(&file("e", Some(1), (5, 15)), None).unwrap();
        w.add(&file("f", None, (5, 15)), None).unwrap();
    });
    builder.table().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_stage_leaves_out_what_can_not_match() {
    let directory = tempfile::tempdir().unwrap();
    let table = three_manifests(directory.path()).await;
    let all = plan(&table, Predicate::True).await.unwrap();
    assert_eq!(names(&all), ["a", "b", "c", "d", "e", "f"]);

    let p1 = leaf(1, Test::Eq(Value::Int(1)));
    let one = plan(&table, p1.clone()).await.unwrap();
    assert_eq!(names(&one), ["a", "b", "e"]);
    let expected = PlanCounters {
        manifests: 3,
        manifests_skipped: 1,
        files: 5,
        files_skipped_by_partition: 2,
        files_kept: 3,
        ..Default::default()
    };
    assert_eq!(one.counters, expected);

    let both = Predicate::and([p1, leaf(2, Test::Gt(Value::Long(15)))]);
    let one = plan(&table, both).await.unwrap();
    assert_eq!(names(&one), ["b"]);
    assert_eq!(one.counters, PlanCounters { files_skipped_by_metrics: 2, files_kept: 1, ..expected });

    let none = plan(&table, leaf(1, Test::Eq(Value::Int(7)))).await.unwrap();
    assert_eq!(names(&none), [""; 0]);
    assert_eq!(none.counters.manifests_skipped, 3);
}

#[tokio::test]
async fn deleted_entries_are_left_out_and_existing_ones_read() {
    let directory = tempfile::tempdir().unwrap();
    let mut builder = Builder::new(directory.path(), 2);
    let entry = |name: &str, number| ManifestEntry {
        status: ManifestStatus::Added,
        snapshot_id: Some(SnapshotId(0)),
        sequence_number: Some(SequenceNumber(number)),
        file_sequence_number: Some(SequenceNumber(number)),
        data_file: file(name, Some(1), (0, 1)).into(),
    };
    builder.manifest(ManifestContent::Data, |w| {
        w.delete(&entry("gone", 1)).unwrap();
        w.existing(&entry("old", 2)).unwrap();
        w.add(&file("new", Some(1), (0, 1)), None).unwrap();
    });
    // Holds nothing live, so it need not even exist.
    let dead = builder.manifest(ManifestContent::Data, |w| w.delete(&entry("gone too", 1)).unwrap());
    std::fs::remove_file(&dead.manifest_path).unwrap();
    let table = builder.table().await;
    let plan = plan(&table, Predicate::True).await.unwrap();
    assert_eq!(names(&plan), ["old", "new"]);
    let numbers: Vec<_> = plan.tasks.iter().map(|t| t.sequence_number.0).collect();
    assert_eq!(numbers, [2, 4]);
    assert_eq!(plan.counters.manifests_skipped, 1);
}

/// Version 1 may leave counts out: unknown, not zero.
#[tokio::test]
async fn manifests_without_counts_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let mut builder = Builder::new(directory.path(), 1);
    let manifest =
        builder.manifest(ManifestContent::Data, |w| w.add(&file("a", None, (0, 1)), None).unwrap());
    manifest.added_files_count = None;
    manifest.existing_files_count = None;
    manifest.partitions = None;
    let table = builder.table().await;
    let plan = plan(&table, leaf(1, Test::IsNull)).await.unwrap();
    assert_eq!(names(&plan), ["a"]);
    assert_eq!(plan.tasks[0].sequence_number, SequenceNumber(0));
}

#[tokio::test]
async fn deletes_are_found_for_their_partition() {
    let directory = tempfile::tempdir().unwrap();
    let mut builder = Builder::new(directory.path(), 2);
    builder.manifest(ManifestContent::Data, |w| {
        w.add(&file("old", Some(1), (0, 9)), Some(SequenceNumber(1))).unwrap();
        w.add(&file("new", Some(1), (0, 9)), None).unwrap();
        w.add(&file("other", Some(2), (0, 9)), Some(SequenceNumber(1))).unwrap();
    });
    builder.manifest(ManifestContent::Deletes, |w| {
        let deletes = ContentFile {
            content: ContentType::PositionDeletes,
            metrics: Default::default(),
            ..file("deletes", Some(1), (0, 0))
        };
        w.add(&deletes, Some(SequenceNumber(2))).unwrap();
    });
    let table = builder.table().await;
    let plan = plan(&table, Predicate::True).await.unwrap();
    let deletes: Vec<_> = plan.tasks.iter().map(|t| t.deletes.len()).collect();
    assert_eq!((names(&plan), deletes), (vec!["old", "new", "other"], vec![1, 0, 0]));
    assert_eq!(plan.counters.delete_files, 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// A file that holds a matching row is in the plan, and the order is that of the manifests.
    #[test]
    fn no_matching_file_is_lost(
        files in prop::collection::vec((prop::option::of(-2i32..3), -5i64..5, 0i64..4), 1..30),
        manifests in 1usize..5,
        p in -2i32..3,
        x in -6i64..8,
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let mut builder = Builder::new(directory.path(), 2);
        let chunk = files.len().div_ceil(manifests);
        for (m, part) in files.chunks(chunk).enumerate() {
            builder.manifest(ManifestContent::Data, |w| {
                for (i, (p, low, width)) in part.iter().enumerate() {
                    w.add(&file(&(m * chunk + i).to_string(), *p, (*low, low + width)), None).unwrap();
                }
            });
        }
        let table = runtime.block_on(builder.table());
        let filter = Predicate::and([
            Predicate::or([leaf(1, Test::Lt(Value::Int(p))), leaf(1, Test::IsNull)]),
            leaf(2, Test::GtEq(Value::Long(x))),
        ]);
        // Exact here: partitions are by identity, and bounds are of rows that exist.
        let expected: Vec<String> = files
            .iter()
            .enumerate()
            .filter(|(_, (fp, low, width))| fp.is_none_or(|fp| fp < p) && low + width >= x)
            .map(|(i, _)| i.to_string())
            .collect();
        let planned = runtime.block_on(plan(&table, filter)).unwrap();
        prop_assert_eq!(names(&planned), expected);
    }
}

/// A guess at the sequence number of an entry would apply too many deletes, or too few.
#[test]
fn entries_without_sequence_numbers_are_refused_where_there_are_deletes() {
    // No writer of ours makes such an entry.
    let entry = ManifestEntry {
        status: ManifestStatus::Existing,
        snapshot_id: None,
        sequence_number: None,
        file_sequence_number: None,
        data_file: file("odd", None, (0, 0)).into(),
    };
    let e = super::planner::sequence_number(&entry).unwrap_err().to_string();
    assert!(e.contains("/data/odd"), "{e}");
}
