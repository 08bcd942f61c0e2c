//! Small Iceberg tables for tests, written file by file.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{Field, Schema as ArrowSchema};
use arrow::util::display::array_value_to_string;
use datafusion::prelude::{SessionConfig, SessionContext};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use crate::arrow::FIELD_ID_KEY;
use crate::spec::{
    Codec, ContentFile, ContentType, DeletionVector, FieldId, FileFormat, ManifestContent,
    ManifestListWriter, ManifestListWriterOptions, ManifestWriter, ManifestWriterOptions, MetricMaps,
    Metrics, NestedField, PartitionSpec, PartitionValues, PrimitiveType, Schema, SchemaId, SequenceNumber,
    SnapshotId, SortOrderId, SpecId, Value,
};
use crate::{EqualityDeleteMemory, IcebergTable};

/// A column of a data file: its name there, its id (none: the file has no ids), its values.
pub(crate) type FileColumn = (&'static str, Option<i32>, ArrayRef);

pub(crate) fn longs(values: impl IntoIterator<Item = impl Into<Option<i64>>>) -> ArrayRef {
    Arc::new(Int64Array::from_iter(values.into_iter().map(Into::into)))
}

pub(crate) fn strings(values: &[Option<&str>]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

pub(crate) struct TestTable {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) format_version: u8,
    /// The last one is current.
    pub(crate) schemas: Vec<Schema>,
    /// By position.
    pub(crate) specs: Vec<PartitionSpec>,
    pub(crate) properties: Vec<(&'static str, String)>,
    /// The schema that the snapshot was made with; the current one unless given.
    pub(crate) snapshot_schema: Option<i32>,
    /// The column that every data file is sorted by, nulls last.
    pub(crate) sorted_by: Option<i32>,
    files: Vec<(ContentFile, i64)>,
    row_group_size: usize,
}

impl TestTable {
    pub(crate) fn new(fields: Vec<NestedField>) -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            format_version: 2,
            schemas: vec![Schema::new(SchemaId(0), fields, Vec::new()).unwrap()],
            specs: vec![PartitionSpec::default()],
            properties: Vec::new(),
            snapshot_schema: None,
            sorted_by: None,
            files: Vec::new(),
            row_group_size: 1_000_000,
        }
    }

    pub(crate) fn row_group_size(mut self, rows: usize) -> Self {
        self.row_group_size = rows;
        self
    }

    /// Makes this the current schema.
    pub(crate) fn evolve(&mut self, fields: Vec<NestedField>) {
        let id = SchemaId(self.schemas.len() as i32);
        self.schemas.push(Schema::new(id, fields, Vec::new()).unwrap());
    }

    fn parquet(&self, name: &str, columns: &[FileColumn]) -> (PathBuf, usize) {
        let fields: Vec<Field> = columns
            .iter()
            .map(|(name, id, array)| {
                let field = Field::new(*name, array.data_type().clone(), true);
                match id {
                    Some(id) => field.with_metadata([(FIELD_ID_KEY.to_owned(), id.to_string())].into()),
                    None => field,
                }
            })
            .collect();
        let arrow = Arc::new(ArrowSchema::new(fields));
        let arrays = columns.iter().map(|(_, _, a)| Arc::clone(a)).collect();
        let batch = RecordBatch::try_new(Arc::clone(&arrow), arrays).unwrap();
        let path = self.dir.path().join(name);
        let properties =
            WriterProperties::builder().set_max_row_group_row_count(Some(self.row_group_size)).build();
        let out = std::fs::File::create(&path).unwrap();
        let mut writer = ArrowWriter::try_new(out, arrow, Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        (path, batch.num_rows())
    }

    fn described(
        &self,
        path: &std::path::Path,
        content: ContentType,
        format: FileFormat,
        rows: usize,
    ) -> ContentFile {
        ContentFile {
            content,
            file_path: path.to_str().unwrap().to_owned(),
            file_format: format,
            spec_id: SpecId(0),
            partition: Vec::new(),
            record_count: rows as i64,
            file_size_in_bytes: std::fs::metadata(path).unwrap().len() as i64,
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

    fn next_name(&self, kind: &str, extension: &str) -> String {
        format!("{kind}-{}.{extension}", self.files.len())
    }

    /// Adds a data file; returns its number for deletes.
    pub(crate) fn data(&mut self, number: i64, columns: &[FileColumn]) -> usize {
        self.data_in(number, 0, Vec::new(), columns)
    }

    /// Adds a data file of a partition.
    pub(crate) fn data_in(
        &mut self,
        number: i64,
        spec: i32,
        partition: PartitionValues,
        columns: &[FileColumn],
    ) -> usize {
        let (path, rows) = self.parquet(&self.next_name("data", "parquet"), columns);
        let file = self.described(&path, ContentType::Data, FileFormat::Parquet, rows);
        let sort_order_id = self.sorted_by.map(|_| SortOrderId(1));
        let file = ContentFile { sort_order_id, ..file };
        self.files.push((ContentFile { spec_id: SpecId(spec), partition, ..file }, number));
        self.files.len() - 1
    }

    /// Adds a file that somebody wrote.
    pub(crate) fn push(&mut self, number: i64, file: ContentFile) {
        self.files.push((file, number));
    }

    /// Sets exact metrics of a long column of a data file.
    pub(crate) fn metrics(&mut self, file: usize, id: i32, nulls: i64, lower: i64, upper: i64) {
        let file = &mut self.files[file].0;
        let mut maps: MetricMaps = file.metrics.to_maps();
        let id = FieldId(id);
        maps.value_counts.insert(id, file.record_count);
        maps.null_value_counts.insert(id, nulls);
        maps.lower_bounds.insert(id, Value::Long(lower).to_bytes().unwrap().into());
        maps.upper_bounds.insert(id, Value::Long(upper).to_bytes().unwrap().into());
        file.metrics = maps.into();
    }

    /// Adds a position delete file over data files.
    pub(crate) fn positions(&mut self, number: i64, deleted: &[(usize, i64)]) {
        let path_of = |file: &usize| self.files[*file].0.file_path.clone();
        let paths = StringArray::from_iter_values(deleted.iter().map(|(file, _)| path_of(file)));
        let columns: [FileColumn; 2] = [
            ("file_path", Some(i32::MAX - 101), Arc::new(paths)),
            ("pos", Some(i32::MAX - 102), longs(deleted.iter().map(|(_, p)| *p))),
        ];
        let (path, rows) = self.parquet(&self.next_name("positions", "parquet"), &columns);
        let of = &self.files[deleted[0].0].0;
        let (spec_id, partition) = (of.spec_id, of.partition.clone());
        let file = self.described(&path, ContentType::PositionDeletes, FileFormat::Parquet, rows);
        self.files.push((ContentFile { spec_id, partition, ..file }, number));
    }

    /// Adds a data file that is there already, below `testdata/files`.
    pub(crate) fn copied(&mut self, number: i64, file: &str, format: FileFormat, rows: usize) -> usize {
        let path = self.dir.path().join(self.next_name("copied", "file"));
        std::fs::copy(format!("{}/testdata/files/{file}", env!("CARGO_MANIFEST_DIR")), &path).unwrap();
        let file = self.described(&path, ContentType::Data, format, rows);
        self.files.push((file, number));
        self.files.len() - 1
    }

    /// Adds a position delete file whose positions are what they are.
    pub(crate) fn raw_positions(&mut self, number: i64, of: usize, positions: ArrayRef) {
        let path = self.files[of].0.file_path.clone();
        let paths = StringArray::from_iter_values((0..positions.len()).map(|_| &path));
        let columns: [FileColumn; 2] =
            [("file_path", Some(i32::MAX - 101), Arc::new(paths)), ("pos", Some(i32::MAX - 102), positions)];
        let (path, rows) = self.parquet(&self.next_name("positions", "parquet"), &columns);
        let file = self.described(&path, ContentType::PositionDeletes, FileFormat::Parquet, rows);
        self.files.push((file, number));
    }

    /// Adds a deletion vector of a data file.
    pub(crate) fn vector(&mut self, number: i64, of: usize, deleted: &[u64]) {
        let mut vector = DeletionVector::new();
        deleted.iter().for_each(|p| {
            vector.insert(*p).unwrap();
        });
        let blob = vector.to_bytes().unwrap();
        let path = self.dir.path().join(self.next_name("vector", "puffin"));
        std::fs::write(&path, [b"PFA1".as_slice(), &blob].concat()).unwrap();
        let file = self.described(&path, ContentType::PositionDeletes, FileFormat::Puffin, deleted.len());
        let data = &self.files[of].0;
        let file = ContentFile {
            referenced_data_file: Some(data.file_path.clone()),
            content_offset: Some(4),
            content_size_in_bytes: Some(blob.len() as i64),
            spec_id: data.spec_id,
            partition: data.partition.clone(),
            ..file
        };
        self.files.push((file, number));
    }

    /// Adds an equality delete file.
    pub(crate) fn equality(&mut self, number: i64, ids: &[i32], columns: &[FileColumn]) {
        self.equality_in(number, 0, Vec::new(), ids, columns);
    }

    /// Adds an equality delete file of a partition.
    pub(crate) fn equality_in(
        &mut self,
        number: i64,
        spec: i32,
        partition: PartitionValues,
        ids: &[i32],
        columns: &[FileColumn],
    ) {
        let (path, rows) = self.parquet(&self.next_name("equality", "parquet"), columns);
        let file = self.described(&path, ContentType::EqualityDeletes, FileFormat::Parquet, rows);
        let equality_ids = Some(ids.iter().copied().map(FieldId).collect());
        self.files.push((ContentFile { spec_id: SpecId(spec), partition, equality_ids, ..file }, number));
    }

    /// Writes the metadata; returns the metadata file.
    pub(crate) fn commit(&self) -> PathBuf {
        let current = self.schemas.last().unwrap();
        let last = self.files.iter().map(|(_, n)| *n).max().unwrap_or(0);
        let mut list = ManifestListWriter::new(ManifestListWriterOptions {
            format_version: self.format_version,
            snapshot_id: SnapshotId(1),
            parent_snapshot_id: None,
            sequence_number: SequenceNumber(last),
            first_row_id: (self.format_version >= 3).then_some(0),
            codec: Codec::Deflate,
        })
        .unwrap();
        let mut first_row_id = 0;
        for (i, (file, number)) in self.files.iter().enumerate() {
            let content = match file.content {
                ContentType::Data => ManifestContent::Data,
                _ => ManifestContent::Deletes,
            };
            let spec = &self.specs[file.spec_id.0 as usize];
            let mut writer = ManifestWriter::new(ManifestWriterOptions {
                format_version: self.format_version,
                schema: current,
                spec,
                partition_type: &spec.partition_type(&self.schemas[0]),
                content,
                snapshot_id: Some(SnapshotId(1)),
                codec: Codec::Deflate,
            })
            .unwrap();
            writer.add(file, None).unwrap();
            let path = self.dir.path().join(format!("manifest-{i}.avro"));
            let (bytes, mut described) = writer.finish(path.to_str().unwrap()).unwrap();
            std::fs::write(&path, bytes).unwrap();
            described.sequence_number = SequenceNumber(*number);
            described.min_sequence_number = SequenceNumber(*number);
            if self.format_version >= 3 && content == ManifestContent::Data {
                described.first_row_id = Some(first_row_id);
                first_row_id += file.record_count;
            }
            list.add(&described).unwrap();
        }
        let list_path = self.dir.path().join("snap-1.avro");
        std::fs::write(&list_path, list.finish().unwrap()).unwrap();
        let mut snapshot = serde_json::json!({
            "snapshot-id": 1, "sequence-number": last, "timestamp-ms": 1_700_000_000_000_i64,
            "manifest-list": list_path.to_str().unwrap(), "summary": {"operation": "append"},
            "schema-id": self.snapshot_schema.unwrap_or(current.schema_id.0),
        });
        let mut metadata = serde_json::json!({
            "format-version": self.format_version, "table-uuid": "11111111-2222-3333-4444-555555555555",
            "location": self.dir.path().to_str().unwrap(), "last-sequence-number": last,
            "last-updated-ms": 1_700_000_000_000_i64, "last-column-id": 100,
            "current-schema-id": current.schema_id.0,
            "schemas": self.schemas.iter().map(|s| s.to_json().unwrap()).collect::<Vec<_>>(),
            "default-spec-id": self.specs.len() - 1,
            "partition-specs": self.specs.iter().map(PartitionSpec::to_json).collect::<Vec<_>>(),
            "last-partition-id": 1999, "default-sort-order-id": 0,
            "sort-orders": self.sort_orders(),
            "properties": self.properties.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
            "current-snapshot-id": 1, "refs": {"main": {"snapshot-id": 1, "type": "branch"}},
        });
        if self.format_version >= 3 {
            metadata["next-row-id"] = first_row_id.into();
            snapshot["first-row-id"] = 0.into();
            snapshot["added-rows"] = first_row_id.into();
        }
        metadata["snapshots"] = serde_json::json!([snapshot]);
        let path = self.dir.path().join("v1.metadata.json");
        std::fs::write(&path, metadata.to_string()).unwrap();
        path
    }

    fn sort_orders(&self) -> serde_json::Value {
        let mut orders = vec![serde_json::json!({"order-id": 0, "fields": []})];
        orders.extend(self.sorted_by.map(|id| {
            serde_json::json!({"order-id": 1, "fields": [{
                "transform": "identity", "source-id": id, "direction": "asc", "null-order": "nulls-last",
            }]})
        }));
        orders.into()
    }

    /// The table as `t`, with its metadata columns as `m`, in a session that splits even small
    /// files; `pushdown`: Parquet evaluates filters while it decodes.
    pub(crate) async fn session(&self, pushdown: bool) -> SessionContext {
        self.configured(SessionConfig::new(), pushdown).await
    }

    async fn configured(&self, config: SessionConfig, pushdown: bool) -> SessionContext {
        let mut config = config.with_target_partitions(3).with_batch_size(16);
        config.options_mut().optimizer.repartition_file_min_size = 1;
        config.options_mut().execution.parquet.pushdown_filters = pushdown;
        let context = SessionContext::new_with_config(config);
        let table = IcebergTable::open(self.commit().to_str().unwrap()).await.unwrap();
        context.register_table("m", Arc::new(table.with_metadata_columns().unwrap())).unwrap();
        context.register_table("t", Arc::new(table)).unwrap();
        context
    }

    /// What a query gives, with and without pushed down filters, with equality deletes in memory and
    /// joined, as text; one row a string.
    pub(crate) async fn rows(&self, sql: &str) -> Vec<String> {
        let context = self.session(false).await;
        let plain = query(&context, sql).await.unwrap();
        let again = query(&context, sql).await.unwrap();
        assert_eq!(plain, again, "with what is known of the deletes: {sql}");
        let pushed = query(&self.session(true).await, sql).await.unwrap();
        assert_eq!(plain, pushed, "{sql}");
        let joins = SessionConfig::new().with_extension(Arc::new(EqualityDeleteMemory(0)));
        let joined = query(&self.configured(joins, false).await, sql).await.unwrap();
        assert_eq!(plain, joined, "joined: {sql}");
        plain
    }

    /// The error of a query.
    pub(crate) async fn error(&self, sql: &str) -> String {
        query(&self.session(false).await, sql).await.unwrap_err().to_string()
    }
}

/// The rows of a query as text.
pub(crate) async fn query(context: &SessionContext, sql: &str) -> datafusion::error::Result<Vec<String>> {
    let batches = context.sql(sql).await?.collect().await?;
    let mut rows = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().map(|c| match c.is_null(row) {
                true => "null".to_owned(),
                false => array_value_to_string(c, row).unwrap(),
            });
            rows.push(values.collect::<Vec<_>>().join(" "));
        }
    }
    Ok(rows)
}

/// `id: long, s: string`, both optional.
pub(crate) fn id_and_s() -> Vec<NestedField> {
    vec![
        NestedField::optional(1, "id", PrimitiveType::Long),
        NestedField::optional(2, "s", PrimitiveType::String),
    ]
}
