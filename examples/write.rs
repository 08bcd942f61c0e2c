//! Makes a table in a catalog, writes to it, changes its schema, writes again, and reads it as it is
//! and as it was. No network, no service: `cargo run --example write`.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Date32Array, Int64Array, RecordBatch, StringArray};
use datafusion::prelude::SessionContext;
use icefloe::catalog::{CatalogBuilder, Namespace, TableCreation, TableIdent};
use icefloe::provider::IcebergCatalogProvider;
use icefloe::spec::{
    FieldId, NestedField, PartitionField, PartitionSpec, PrimitiveType, Schema, SchemaId, SpecId, Transform,
};
use icefloe::sql::IcebergSql;
use icefloe::table::Table;
use icefloe::transaction::{Append, UpdateSchema};
use icefloe::write::{DataFileWriter, WriteOptions};

/// Writes rows to new data files; nobody sees them before they are committed.
async fn append(table: &Table, batch: &RecordBatch) -> icefloe::Result<Append> {
    let mut writer = DataFileWriter::new(table, WriteOptions::default())?;
    if let Err(e) = writer.write(batch).await {
        writer.abort().await;
        return Err(e);
    }
    Ok(Append::merging().files(writer.close().await?))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A catalog by its properties, which are those of Java and PyIceberg; they can use this one too.
    let directory = std::env::temp_dir().join(format!("icefloe-example-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let catalog = CatalogBuilder::new("ice")
        .property("type", "sql")
        .property("uri", format!("sqlite:///{}/catalog.db", directory.display()))
        .property("warehouse", directory.display().to_string())
        .build()
        .await?;

    // A table that is partitioned by month. The ids are only to refer to columns here.
    let schema = Schema::new(
        SchemaId(0),
        vec![
            NestedField::required(1, "id", PrimitiveType::Long),
            NestedField::optional(2, "day", PrimitiveType::Date),
        ],
        vec![],
    )?;
    let month = PartitionField {
        source_ids: vec![FieldId(2)],
        field_id: FieldId(1000),
        name: "day_month".to_owned(),
        transform: Transform::Month,
        extra: Default::default(),
    };
    let shop = Namespace::new(["shop"])?;
    catalog.create_namespace(&shop, Default::default()).await?;
    let orders = TableIdent::new(shop, "orders")?;
    let creation = TableCreation {
        partition_spec: Some(PartitionSpec { spec_id: SpecId(0), fields: vec![month] }),
        ..TableCreation::new(schema)
    };
    let table = catalog.create_table(&orders, creation).await?;

    // Files first, then the commit, which is tried again if others were faster.
    let id: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let day: ArrayRef = Arc::new(Date32Array::from(vec![Some(19_723), Some(19_760), None]));
    let batch = RecordBatch::try_from_iter([("id", id), ("day", day)])?;
    let append_first = append(&table, &batch).await?;
    let table = table.transaction().apply(append_first).commit(catalog.as_ref()).await?;
    let first = table.metadata().current_snapshot_id.ok_or("no snapshot")?;

    // Another schema, and rows that have it.
    let add = UpdateSchema::new().add_column("customer", PrimitiveType::String);
    let table = table.transaction().apply(add).commit(catalog.as_ref()).await?;
    let id: ArrayRef = Arc::new(Int64Array::from(vec![4]));
    let day: ArrayRef = Arc::new(Date32Array::from(vec![19_724]));
    let customer: ArrayRef = Arc::new(StringArray::from(vec!["Ann"]));
    let batch = RecordBatch::try_from_iter([("id", id), ("day", day), ("customer", customer)])?;
    let append_second = append(&table, &batch).await?;
    table.transaction().apply(append_second).commit(catalog.as_ref()).await?;

    // Every query sees the newest snapshot, or the one that it asks for.
    let context = SessionContext::new();
    icefloe::sql::register(&context)?;
    context.register_catalog("ice", Arc::new(IcebergCatalogProvider::try_new(catalog).await?));
    println!("The table now:");
    context.sql("SELECT * FROM ice.shop.orders ORDER BY id").await?.show().await?;
    println!("As it was after the first commit:");
    let then = format!("SELECT * FROM ice.shop.orders VERSION AS OF {first} ORDER BY id");
    context.iceberg_sql(&then).await?.show().await?;
    println!("Its files:");
    let files = "SELECT partition, record_count FROM ice.shop.orders.files ORDER BY record_count, file_path";
    context.iceberg_sql(files).await?.show().await?;

    std::fs::remove_dir_all(&directory)?;
    Ok(())
}
