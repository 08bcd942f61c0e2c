//! `CREATE EXTERNAL TABLE … STORED AS ICEBERG`.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::CreateExternalTable;

use crate::error::{Error, Result};
use crate::spec::{SnapshotId, SnapshotSelector};
use crate::storage::StorageProperties;
use crate::table::{MetadataCache, OpenOptions};

use super::table::IcebergTable;

/// Attaches the table at a `LOCATION`: a table directory or a metadata file.
///
/// `OPTIONS`: `allow_moved_paths` (`true` for a table that was copied elsewhere after it was
/// written), `snapshot_id` or `ref` (a branch or tag) to read another state than the current
/// one, and the properties of the store (`s3.endpoint`, `gcs.…`, `adls.…`).
#[derive(Debug, Default)]
pub struct IcebergTableFactory {
    cache: Arc<MetadataCache>,
}

impl IcebergTableFactory {
    /// A factory whose tables share a cache of metadata.
    pub fn new(cache: Arc<MetadataCache>) -> Self {
        Self { cache }
    }

    async fn open(&self, command: &CreateExternalTable) -> Result<IcebergTable> {
        let mut options = HashMap::new();
        for (key, value) in &command.options {
            // DataFusion puts options without a dot in its own name space.
            options.insert(key.strip_prefix("format.").unwrap_or(key).to_owned(), value.clone());
        }
        let allow_moved_paths = match options.remove("allow_moved_paths").as_deref() {
            None => false,
            Some(v) if v.eq_ignore_ascii_case("true") => true,
            Some(v) if v.eq_ignore_ascii_case("false") => false,
            Some(v) => {
                return Err(Error::invalid(format!(
                    "option `allow_moved_paths` is true or false, not `{v}`"
                )));
            }
        };
        let selector = match (options.remove("snapshot_id"), options.remove("ref")) {
            (None, None) => SnapshotSelector::Current,
            (None, Some(name)) => SnapshotSelector::Ref(name),
            (Some(id), None) => SnapshotSelector::Id(SnapshotId(id.trim().parse().map_err(|e| {
                Error::invalid(format!("option `snapshot_id` is a number, not `{id}`")).with_source(e)
            })?)),
            (Some(_), Some(_)) => {
                return Err(Error::invalid("options `snapshot_id` and `ref` exclude each other"));
            }
        };
        if let Some(key) = options.keys().find(|key| !key.contains('.')) {
            return Err(Error::invalid(format!(
                "unknown option `{key}`; there are allow_moved_paths, snapshot_id, ref and the store's properties \
                 such as s3.endpoint"
            )));
        }
        if let Some(key) = options.keys().find(|key| !StorageProperties::is_known(key)) {
            return Err(Error::invalid(format!(
                "unknown option `{key}`; the properties of stores are listed in the README, such as s3.endpoint, \
                 s3.access-key-id, gcs.project-id or adls.account-name"
            )));
        }
        if !command.table_partition_cols.is_empty() || !command.order_exprs.is_empty() {
            return Err(Error::unsupported(
                "PARTITIONED BY and WITH ORDER can't be given: an Iceberg table's metadata has them",
            ));
        }
        if !command.schema.fields().is_empty() {
            return Err(Error::unsupported(
                "columns can't be given: an Iceberg table's metadata has them; leave the list out",
            ));
        }
        let open = OpenOptions::new()
            .allow_moved_paths(allow_moved_paths)
            .properties(StorageProperties::from_iter(options))
            .cache(Arc::clone(&self.cache))
            .name(command.name.to_string());
        let [location] = command.locations.as_slice() else {
            return Err(Error::invalid("one LOCATION, a table directory or a metadata file, is needed"));
        };
        IcebergTable::open_with(location, &open).await?.at(&selector)
    }
}

#[async_trait]
impl TableProviderFactory for IcebergTableFactory {
    async fn create(
        &self,
        _: &dyn Session,
        command: &CreateExternalTable,
    ) -> DfResult<Arc<dyn TableProvider>> {
        let opened = self.open(command).await;
        Ok(Arc::new(opened.map_err(|e| e.context(format!("CREATE EXTERNAL TABLE {}", command.name)))?))
    }
}
