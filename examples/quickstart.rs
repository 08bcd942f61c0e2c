//! Opens an Iceberg table that Spark wrote, reads it, and reads it as it was. No network, no
//! service: `cargo run --example quickstart`.

use std::sync::Arc;

use datafusion::prelude::SessionContext;
use icefloe::IcebergTable;
use icefloe::spec::SnapshotSelector;
use icefloe::sql::IcebergSql;
use icefloe::table::OpenOptions;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The table was written elsewhere and copied here, so its metadata names other places.
    let location = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/tables/branches_tags");
    let options = OpenOptions::new().allow_moved_paths(true).name("events");
    let table = IcebergTable::open_with(location, &options).await?;

    let context = SessionContext::new();
    icefloe::sql::register(&context)?;
    context.register_table("events", Arc::new(table.clone()))?;

    println!("The table now:");
    context.sql("SELECT * FROM events ORDER BY id").await?.show().await?;

    println!("As the tag `first_tag` has it, with the columns it had then:");
    context.iceberg_sql("SELECT * FROM events VERSION AS OF 'first_tag' ORDER BY id").await?.show().await?;

    println!("The same in Rust:");
    let tagged = table.at(&SnapshotSelector::Ref("first_tag".to_owned()))?;
    context
        .read_table(Arc::new(tagged))?
        .sort(vec![datafusion::prelude::col("id").sort(true, true)])?
        .show()
        .await?;

    println!("Where each row lies, and what was pruned on the way to it:");
    context.iceberg_sql("SELECT id, _pos, _spec_id FROM events WHERE id >= 3").await?.show().await?;
    let explain = context.sql("EXPLAIN SELECT * FROM events WHERE id >= 3").await?;
    println!("{}", explain.to_string().await?);
    Ok(())
}
