//! The tables that we write for others: every type, transform, delete and change of metadata.

use std::sync::Arc;

use serde_json::json;

use super::write::{append, compact, delete, delete_keys, files};
use crate::catalog::{Catalog, Namespace, TableCreation, TableIdent};
use crate::spec::{
    FieldId, ListType, MapType, NestedField, NullOrder, PartitionField, PartitionSpec, PrimitiveType as P,
    Schema, SchemaId, SnapshotId, SortDirection, SortField, SortOrder, SortOrderId, SpecId, StructType,
    Transform, Type, Value,
};
use crate::table::Table;
use crate::transaction::{
    Append, CherryPick, DeleteFiles, ExpireSnapshots, ManageSnapshots, NewColumn, Overwrite,
    ReplacePartitions, ReplaceSortOrder, RewriteManifests, UpdatePartitionStatistics, UpdateProperties,
    UpdateSchema, UpdateSpec, UpdateStatistics, UpgradeFormatVersion,
};

/// What a table is good for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    /// Anything.
    Plain,
    /// It has types that SQL engines lack.
    Exotic,
    /// It has types that nobody reads files of: only its metadata are read.
    Unread,
}

/// A table that we wrote.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    pub(super) table: TableIdent,
    pub(super) kind: Kind,
    /// An empty table with the same schema, spec and properties, if the rows were only appended.
    pub(super) twin: Option<TableIdent>,
}

impl Sample {
    pub(super) fn name(&self) -> &str {
        self.table.name()
    }
}

/// Writes tables of one format version to a namespace.
pub(super) struct Maker {
    pub(super) catalog: Arc<dyn Catalog>,
    pub(super) namespace: Namespace,
    pub(super) version: u8,
    samples: Vec<Sample>,
}

/// A column and the type of its values.
type Column<'a> = (&'a str, Type);

fn primitive(p: P) -> Type {
    Type::Primitive(p)
}

/// All types that SQL engines have too.
fn sql_types() -> Vec<Column<'static>> {
    let decimal = |precision, scale| primitive(P::Decimal { precision, scale });
    vec![
        ("a_boolean", primitive(P::Boolean)),
        ("an_int", primitive(P::Int)),
        ("a_long", primitive(P::Long)),
        ("a_float", primitive(P::Float)),
        ("a_double", primitive(P::Double)),
        ("a_decimal9", decimal(9, 2)),
        ("a_decimal18", decimal(18, 0)),
        ("a_decimal38", decimal(38, 10)),
        ("a_date", primitive(P::Date)),
        ("a_timestamp", primitive(P::Timestamp)),
        ("a_timestamptz", primitive(P::Timestamptz)),
        ("a_string", primitive(P::String)),
        ("a_uuid", primitive(P::Uuid)),
        ("a_fixed", primitive(P::Fixed(5))),
        ("a_binary", primitive(P::Binary)),
    ]
}

fn nested_types() -> Vec<Column<'static>> {
    let member = |id, name, p| NestedField::optional(id, name, primitive(p));
    let point = |id| {
        StructType::new(vec![
            member(id, "x", P::Int),
            member(id + 1, "y", P::Double),
            member(id + 2, "s", P::String),
        ])
    };
    let inner = ListType::new(124, P::Timestamp, false);
    vec![
        ("a_struct", Type::Struct(point(101))),
        ("a_list", ListType::new(105, P::Decimal { precision: 20, scale: 3 }, false).into()),
        ("a_map", MapType::new(106, P::String, 107, P::Long, false).into()),
        ("some_structs", ListType::new(110, point(111), false).into()),
        (
            "some_maps",
            MapType::new(120, P::Int, 121, MapType::new(122, P::String, 123, inner, false), false).into(),
        ),
    ]
}

fn schema(columns: &[Column<'_>]) -> Schema {
    let id = NestedField::required(1, "id", P::Long);
    let columns = columns.iter().zip(2..).map(|((name, t), id)| NestedField::optional(id, *name, t.clone()));
    Schema::new(SchemaId(0), std::iter::once(id).chain(columns).collect(), Vec::new()).unwrap()
}

fn spec(schema: &Schema, fields: &[(&str, Transform)]) -> PartitionSpec {
    let fields = fields.iter().zip(1000..).map(|((source, transform), id)| PartitionField {
        source_ids: vec![schema.field_by_path(&[source]).unwrap().id],
        field_id: FieldId(id),
        name: match transform {
            Transform::Identity => (*source).to_owned(),
            other => format!("{source}_{}", other.to_string().replace(['[', ']'], "_")),
        },
        transform: transform.clone(),
        extra: Default::default(),
    });
    PartitionSpec { spec_id: SpecId(0), fields: fields.collect() }
}

impl Maker {
    /// Into the new namespace `<prefix><version>`.
    pub(super) async fn new(catalog: &Arc<dyn Catalog>, prefix: &str, version: u8) -> Self {
        let namespace = Namespace::new([format!("{prefix}{version}")]).unwrap();
        catalog.create_namespace(&namespace, Default::default()).await.unwrap();
        Self { catalog: Arc::clone(catalog), namespace, version, samples: Vec::new() }
    }

    /// All tables of the version.
    pub(super) async fn all(mut self) -> Vec<Sample> {
        self.partitions().await;
        self.without_odd_paths().await
    }

    /// All but those whose partitions make paths that not every server takes.
    pub(super) async fn without_odd_paths(mut self) -> Vec<Sample> {
        self.types().await;
        self.exotic_types().await;
        self.evolved().await;
        self.maintained().await;
        self.empty().await;
        if self.version >= 2 {
            self.deletes().await;
        }
        if self.version >= 3 {
            self.defaults().await;
            self.upgraded().await;
        }
        self.samples
    }

    fn ident(&self, name: &str) -> TableIdent {
        TableIdent::new(self.namespace.clone(), name).unwrap()
    }

    fn creation(
        &self,
        columns: &[Column<'_>],
        partitions: &[(&str, Transform)],
        properties: &[(&str, &str)],
    ) -> TableCreation {
        let version = self.version.to_string();
        let properties = properties.iter().copied().chain([("format-version", version.as_str())]);
        let schema = schema(columns);
        TableCreation {
            partition_spec: Some(spec(&schema, partitions)),
            properties: properties.map(|(n, v)| (n.to_owned(), v.to_owned())).collect(),
            ..TableCreation::new(schema)
        }
    }

    async fn create(&mut self, name: &str, kind: Kind, creation: TableCreation) -> Table {
        let table = self.ident(name);
        self.samples.push(Sample { table: table.clone(), kind, twin: None });
        self.catalog.create_table(&table, creation).await.unwrap()
    }

    /// A table and its empty twin.
    async fn create_twins(&mut self, name: &str, kind: Kind, creation: TableCreation) -> Table {
        let twin = self.ident(&format!("{name}_twin"));
        self.catalog.create_table(&twin, creation.clone()).await.unwrap();
        let table = self.create(name, kind, creation).await;
        self.samples.last_mut().unwrap().twin = Some(twin);
        table
    }

    async fn append(&self, table: &Table, ids: impl IntoIterator<Item = i64>) -> Table {
        append(self.catalog.as_ref(), table, &ids.into_iter().collect::<Vec<_>>()).await
    }

    async fn delete(&self, table: &Table, ids: &[i64]) -> Table {
        delete(self.catalog.as_ref(), table, ids).await
    }

    async fn apply(&self, table: &Table, action: impl crate::transaction::Action + 'static) -> Table {
        table.transaction().apply(action).commit(self.catalog.as_ref()).await.unwrap()
    }

    /// One file of every type, with the default metrics; another with every other kind of them.
    async fn types(&mut self) {
        let columns: Vec<_> = sql_types().into_iter().chain(nested_types()).collect();
        let table = self.create_twins("types", Kind::Plain, self.creation(&columns, &[], &[])).await;
        self.append(&table, 0..20).await;
        let properties = [
            ("write.metadata.metrics.default", "full"),
            ("write.metadata.metrics.column.a_long", "none"),
            ("write.metadata.metrics.column.an_int", "counts"),
            ("write.metadata.metrics.column.a_string", "truncate(2)"),
            ("write.metadata.metrics.column.a_binary", "truncate(3)"),
            ("write.metadata.metrics.column.a_struct.s", "truncate(1)"),
            ("write.parquet.compression-codec", "snappy"),
        ];
        let creation = self.creation(&columns, &[], &properties);
        let table = self.create_twins("metrics", Kind::Plain, creation).await;
        self.append(&table, 3..12).await;
        // Wider than what metrics are kept of by default.
        let wide: Vec<_> = (0..110).map(|i| (format!("c{i}"), primitive(P::Int))).collect();
        let wide: Vec<_> = wide.iter().map(|(name, t)| (name.as_str(), t.clone())).collect();
        let table = self.create_twins("wide", Kind::Plain, self.creation(&wide, &[], &[])).await;
        self.append(&table, 0..5).await;
    }

    async fn exotic_types(&mut self) {
        let mut columns = vec![("a_time", primitive(P::Time))];
        let mut partitions = vec![("a_time", Transform::Identity), ("a_time", Transform::Bucket(7))];
        if self.version >= 3 {
            columns.extend([
                ("a_timestamp_ns", primitive(P::TimestampNs)),
                ("a_timestamptz_ns", primitive(P::TimestamptzNs)),
                ("an_unknown", primitive(P::Unknown)),
            ]);
            partitions.extend([
                ("a_timestamp_ns", Transform::Bucket(5)),
                ("a_timestamptz_ns", Transform::Hour),
                ("a_timestamp_ns", Transform::Day),
            ]);
            // Java needs a newer library than Spark 3.5 has to read variants.
            let shapes = [
                ("a_variant", Type::Variant),
                ("a_geometry", primitive(P::Geometry { crs: None })),
                ("a_geography", primitive(P::Geography { crs: None, algorithm: None })),
                ("another", primitive(P::Geometry { crs: Some("EPSG:4326".to_owned()) })),
            ];
            let table = self.create("shapes", Kind::Unread, self.creation(&shapes, &[], &[])).await;
            self.append(&table, 0..4).await;
        }
        let creation = self.creation(&columns, &[], &[]);
        let table = self.create("exotic", Kind::Exotic, creation).await;
        self.append(&table, 0..9).await;
        let creation = self.creation(&columns, &partitions, &[]);
        let table = self.create("exotic_partitions", Kind::Exotic, creation).await;
        self.append(&table, 0..5).await;
    }

    /// Every transform of every type that it takes.
    async fn partitions(&mut self) {
        let columns = sql_types();
        let all = |transform: Transform, without: &[&str]| -> Vec<(&'static str, Transform)> {
            let names = columns.iter().map(|(name, _)| *name).filter(|name| !without.contains(name));
            names.map(|name| (name, transform.clone())).collect()
        };
        // Java 1.10 reads partition values of type `fixed` as if their length stood before them.
        let creation = self.creation(&columns, &all(Transform::Identity, &["a_fixed"]), &[]);
        let table = self.create_twins("by_identity", Kind::Plain, creation).await;
        self.append(&table, 0..7).await;
        let no_hash = ["a_boolean", "a_float", "a_double"];
        let creation = self.creation(&columns, &all(Transform::Bucket(97), &no_hash), &[]);
        let table = self.create_twins("by_bucket", Kind::Plain, creation).await;
        self.append(&table, 0..9).await;
        let of = |names: &[&'static str], transform: Transform| -> Vec<_> {
            names.iter().map(|name| (*name, transform.clone())).collect()
        };
        let integers = ["an_int", "a_long", "a_decimal9", "a_decimal18", "a_decimal38"];
        let partitions = [
            // Not the least integers, which have nothing below them to be cut to.
            of(&integers, Transform::Truncate(10)),
            of(&["a_string", "a_binary"], Transform::Truncate(2)),
        ]
        .concat();
        let creation = self.creation(&columns, &partitions, &[]);
        let table = self.create_twins("by_truncate", Kind::Plain, creation).await;
        let least = |id: &i64| {
            let n = |i: i64| usize::try_from(id + i).unwrap();
            let is_least = |v: Option<Value>| matches!(v, Some(Value::Int(i32::MIN) | Value::Long(i64::MIN)));
            is_least(super::write::some_value(&P::Int.into(), n(3)))
                || is_least(super::write::some_value(&P::Long.into(), n(4)))
        };
        self.append(&table, (0..12).filter(|id| !least(id))).await;
        let times = ["a_timestamp", "a_timestamptz"];
        for (name, transform) in
            [("by_year", Transform::Year), ("by_month", Transform::Month), ("by_day", Transform::Day)]
        {
            let creation = self.creation(&columns, &of(&[times[0], times[1], "a_date"], transform), &[]);
            let table = self.create_twins(name, Kind::Plain, creation).await;
            self.append(&table, 0..7).await;
        }
        let creation = self.creation(&columns, &of(&times, Transform::Hour), &[]);
        let table = self.create_twins("by_hour", Kind::Plain, creation).await;
        self.append(&table, 0..7).await;
    }

    /// Schemas, specs, sort orders, branches and tags change under rows that are there.
    async fn evolved(&mut self) {
        let point = StructType::new(vec![
            NestedField::optional(101, "x", P::Int),
            NestedField::optional(102, "y", P::Float),
        ]);
        let columns = [
            ("a", primitive(P::String)),
            ("n", primitive(P::Int)),
            ("f", primitive(P::Float)),
            ("d", primitive(P::Decimal { precision: 5, scale: 2 })),
            ("gone", primitive(P::String)),
            ("point", Type::Struct(point)),
            ("list", ListType::new(103, P::Int, false).into()),
        ];
        let creation = self.creation(
            &columns,
            &[("n", Transform::Identity)],
            &[("write.metadata.compression-codec", "gzip")],
        );
        let table = self.create("evolved", Kind::Plain, creation).await;
        let table = self.append(&table, 0..4).await;
        let table = self
            .apply(&table, ManageSnapshots::new().create_tag("first").set_max_ref_age_ms("first", 1 << 40))
            .await;
        let update = UpdateSchema::new()
            .rename_column("a", "b")
            .update_column("n", P::Long)
            .update_column("f", P::Double)
            .update_column("d", P::Decimal { precision: 12, scale: 2 })
            .update_column("point.y", P::Double)
            .update_column("list.element", P::Long)
            .delete_column("gone")
            .add_new(NewColumn::optional("gone", P::Int).doc("another of that name, \"ü\""))
            .add_new(NewColumn::optional("z", P::Date).parent("point"))
            .move_first("d")
            .move_after("gone", "id");
        let table = self.apply(&table, update).await;
        let table = self.append(&table, 10..14).await;
        let update =
            UpdateSpec::new().add_field("id", Transform::Bucket(4)).add_field("b", Transform::Bucket(3));
        let table = self.apply(&table, update).await;
        let table = self.append(&table, 20..24).await;
        let update = UpdateSpec::new().remove_field("n").rename_field("id_bucket_4", "part_of_id");
        let table = self.apply(&table, update).await;
        let table = self.append(&table, 30..34).await;
        let order = ReplaceSortOrder::new().desc("id").asc("b");
        let table = self.apply(&table, order).await;
        let table = self.apply(&table, ManageSnapshots::new().create_branch("side").create_tag("last")).await;
        let side = Append::fast().branch("side").files(files(&table, &[40, 41]).await);
        let table = self.apply(&table, side).await;
        let table = self.append(&table, 50..52).await;
        let refs = ManageSnapshots::new()
            .set_min_snapshots_to_keep("side", 2)
            .set_max_snapshot_age_ms("side", 1 << 40)
            .create_branch("empty_side");
        let table = self.apply(&table, refs).await;
        let statistics = |table: &Table| {
            json!({
                "snapshot-id": table.metadata().current_snapshot_id.unwrap().0,
                "statistics-path": format!("{}/metadata/x.stats", table.metadata().location),
                "file-size-in-bytes": 100, "file-footer-size-in-bytes": 42,
                "blob-metadata": [{
                    "type": "apache-datasketches-theta-v1", "snapshot-id": 1, "sequence-number": 1,
                    "fields": [1], "properties": {"ndv": "5"}
                }]
            })
        };
        let of_partitions = json!({
            "snapshot-id": table.metadata().current_snapshot_id.unwrap().0,
            "statistics-path": format!("{}/metadata/p.parquet", table.metadata().location),
            "file-size-in-bytes": 100
        });
        let transaction = table
            .transaction()
            .apply(UpdateStatistics::new().set(statistics(&table)))
            .apply(UpdatePartitionStatistics::new().set(of_partitions))
            .apply(
                UpdateProperties::new()
                    .set("owner", "it's \"me\" ü")
                    .remove("write.metadata.compression-codec"),
            );
        transaction.commit(self.catalog.as_ref()).await.unwrap();
    }

    /// Manifests are merged and rewritten, files rewritten and replaced, snapshots staged, picked and
    /// expired, old metadata files removed.
    async fn maintained(&mut self) {
        let columns = [("p", primitive(P::Boolean)), ("s", primitive(P::String))];
        let properties = [
            ("commit.manifest.min-count-to-merge", "3"),
            ("write.metadata.previous-versions-max", "4"),
            ("write.metadata.delete-after-commit.enabled", "true"),
            ("write.summary.partition-limit", "10"),
        ];
        let creation = self.creation(&columns, &[("p", Transform::Identity)], &properties);
        let mut table = self.create("maintained", Kind::Plain, creation).await;
        for i in 0..5 {
            table = self.append(&table, i * 10..i * 10 + 4).await;
        }
        table = self.apply(&table, Append::fast().files(files(&table, &[60, 61]).await)).await;
        if self.version >= 2 {
            table = delete_keys(self.catalog.as_ref(), &table, &[10]).await;
        }
        table = self.delete(&table, &[0, 11]).await;
        table = compact(self.catalog.as_ref(), &table).await;
        table = self.append(&table, 70..74).await;
        table = self
            .apply(&table, RewriteManifests::new().cluster_by(|file| format!("{:?}", file.partition)))
            .await;
        let staged = Append::fast().stage_only().files(files(&table, &[80, 81]).await);
        table = self.apply(&table, staged).await;
        table = self.append(&table, 90..92).await;
        let main = table.metadata().current_snapshot_id;
        let is_staged = |id: &SnapshotId| Some(*id) != main;
        let staged = table.metadata().snapshots.iter().rev().map(|s| s.snapshot_id).find(is_staged).unwrap();
        table = self.apply(&table, CherryPick::new(staged)).await;
        let new: Vec<_> = files(&table, &[100, 101, 102, 103]).await;
        let partition =
            new.iter().find(|file| file.partition == [Some(Value::Boolean(true))]).unwrap().clone();
        table = self.apply(&table, ReplacePartitions::new().files([partition])).await;
        let before = table.metadata().current_snapshot_id.unwrap();
        let one = super::write::scanned(&table).await.first().unwrap().data_file.as_ref().clone();
        table = self.apply(&table, DeleteFiles::new().files([&one])).await;
        table = self.apply(&table, ManageSnapshots::new().rollback_to(before)).await;
        let overwrite = Overwrite::new().remove_files([one]).add_files(files(&table, &[110, 111]).await);
        table = self.apply(&table, overwrite).await;
        let expire = ExpireSnapshots::new().expire_older_than(i64::MAX / 2).retain_last(2);
        table = self.apply(&table, expire.clean_expired_metadata(true)).await;
        self.append(&table, 120..122).await;
    }

    async fn empty(&mut self) {
        let mut creation = self.creation(&[("s", primitive(P::String))], &[], &[]);
        let fields = creation.schema.fields().to_vec();
        creation.schema = Schema::new(SchemaId(0), fields, vec![FieldId(1)]).unwrap();
        let order = |id, transform, direction, null_order| SortField {
            source_ids: vec![FieldId(id)],
            transform,
            direction,
            null_order,
            extra: Default::default(),
        };
        let fields = vec![
            order(1, Transform::Bucket(3), SortDirection::Descending, NullOrder::First),
            order(2, Transform::Identity, SortDirection::Ascending, NullOrder::Last),
        ];
        creation.sort_order = Some(SortOrder { order_id: SortOrderId(1), fields });
        self.create("empty", Kind::Plain, creation).await;
    }

    /// Deletes by position (or vector) and by key, in partitions and without, over and under data.
    async fn deletes(&mut self) {
        let columns = [("p", primitive(P::Boolean)), ("s", primitive(P::String))];
        for (name, partitions, granularity) in [
            ("deletes", &[("p", Transform::Identity)][..], "partition"),
            ("deletes_by_file", &[("id", Transform::Bucket(2))], "file"),
            ("deletes_everywhere", &[], "partition"),
        ] {
            let properties = [("write.delete.granularity", granularity)];
            let creation = self.creation(&columns, partitions, &properties);
            let mut table = self.create(name, Kind::Plain, creation).await;
            table = self.append(&table, 0..10).await;
            table = self.append(&table, 10..20).await;
            table = self.delete(&table, &[1, 2, 11, 15]).await;
            table = delete_keys(self.catalog.as_ref(), &table, &[3, 12, 999]).await;
            table = self.append(&table, [3, 12, 30, 31]).await;
            table = self.delete(&table, &[2, 5, 12, 16, 30]).await;
            self.append(&table, [2]).await;
        }
    }

    /// Columns with defaults, added to rows that are there.
    async fn defaults(&mut self) {
        // Java's vectorized reader can't take a default of a decimal of many digits.
        let properties = [("read.parquet.vectorization.enabled", "false")];
        let creation = self.creation(&[("s", primitive(P::String))], &[], &properties);
        let table = self.create("defaults", Kind::Plain, creation).await;
        let table = self.append(&table, 0..3).await;
        let mut update = UpdateSchema::new();
        for (name, t) in sql_types() {
            let value = super::write::some_value(&t, 0).unwrap();
            update = update.add_new(NewColumn::optional(name, t).default_value(value));
        }
        let required = NewColumn::required("must", P::Int).default_value(Value::Int(5));
        let table = self.apply(&table, update.add_new(required)).await;
        let update = UpdateSchema::new().update_column_default("an_int", Some(Value::Int(99)));
        self.apply(&table, update.update_column_default("a_long", None)).await;
    }

    /// A table that was of every version.
    async fn upgraded(&mut self) {
        let mut creation = self.creation(
            &[("s", primitive(P::String)), ("p", primitive(P::Int))],
            &[("p", Transform::Identity)],
            &[],
        );
        creation.properties.insert("format-version".to_owned(), "1".to_owned());
        let mut table = self.create("upgraded", Kind::Plain, creation).await;
        table = self.append(&table, 0..6).await;
        table = self.apply(&table, UpdateSpec::new().remove_field("p")).await;
        table = self.append(&table, 10..16).await;
        table = self.apply(&table, UpgradeFormatVersion::to(2)).await;
        table = self.delete(&table, &[1, 12]).await;
        table = self.append(&table, 20..26).await;
        table = self.apply(&table, UpgradeFormatVersion::to(3)).await;
        table = self.delete(&table, &[2, 12, 21]).await;
        table = self.append(&table, 30..36).await;
        self.delete(&table, &[31]).await;
    }
}
