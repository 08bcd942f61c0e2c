//! A metadata table as a `TableProvider`.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};

use super::contents::{Contents, Part, Wanted};
use super::entries::Entries;
use super::kind::MetadataTableKind;
use super::logs;
use super::manifests::Manifests;
use super::partitions::Partitions;
use crate::error::{Error, Result, ResultExt};
use crate::spec::{ManifestContent, Snapshot, SnapshotSelector};
use crate::table::Table;

/// A metadata table of an Iceberg table. Its rows are read as a query runs.
#[derive(Debug, Clone)]
pub struct MetadataTable {
    table: Table,
    kind: MetadataTableKind,
    contents: Arc<dyn Contents>,
}

impl MetadataTable {
    /// A metadata table; those that show one snapshot show this one.
    ///
    /// # Errors
    /// `Unsupported` for [`MetadataTableKind::PositionDeletes`], where columns of the table have no
    /// counterpart in Arrow, and for a table without [all of its
    /// snapshots](Table::with_all_snapshots).
    pub fn try_new(table: Table, snapshot: Option<Arc<Snapshot>>, kind: MetadataTableKind) -> Result<Self> {
        let made = contents_of(&table, snapshot, kind);
        let contents = made.context(|| format!("table {}${kind}", table.name()))?;
        Ok(Self { table, kind, contents })
    }

    /// The same table at another snapshot.
    ///
    /// # Errors
    /// `Unsupported` if it does not show one snapshot; `NotFound` for a snapshot, reference or time
    /// that the table does not have.
    pub fn at(&self, selector: &SnapshotSelector) -> Result<Self> {
        let select = || {
            if !self.kind.has_versions() {
                let message = "it is about all of the table and has no versions; leave the version out";
                return Err(Error::unsupported(message));
            }
            self.table.metadata().select(selector)
        };
        let selection = select().context(|| self.place())?;
        Self::try_new(self.table.clone(), selection.snapshot, self.kind)
    }

    /// What it shows.
    pub fn kind(&self) -> MetadataTableKind {
        self.kind
    }

    /// The table that it is about.
    pub fn table(&self) -> &Table {
        &self.table
    }

    fn place(&self) -> String {
        format!("table {}${}", self.table.name(), self.kind)
    }
}

fn contents_of(
    table: &Table,
    snapshot: Option<Arc<Snapshot>>,
    kind: MetadataTableKind,
) -> Result<Arc<dyn Contents>> {
    use ManifestContent::{Data, Deletes};
    use MetadataTableKind as K;
    let metadata = table.metadata();
    metadata.require_all_snapshots("a metadata table")?;
    let one = || snapshot.iter().cloned().collect::<Vec<_>>();
    let all = || metadata.snapshots.clone();
    Ok(match kind {
        K::Snapshots => Arc::new(logs::snapshots(metadata)?),
        K::History => Arc::new(logs::history(metadata)?),
        K::MetadataLogEntries => Arc::new(logs::metadata_log_entries(table)?),
        K::Refs => Arc::new(logs::refs(metadata)?),
        K::Files => Arc::new(Entries::files(table, one(), None)?),
        K::DataFiles => Arc::new(Entries::files(table, one(), Some(Data))?),
        K::DeleteFiles => Arc::new(Entries::files(table, one(), Some(Deletes))?),
        K::AllFiles => Arc::new(Entries::files(table, all(), None)?),
        K::AllDataFiles => Arc::new(Entries::files(table, all(), Some(Data))?),
        K::AllDeleteFiles => Arc::new(Entries::files(table, all(), Some(Deletes))?),
        K::Entries => Arc::new(Entries::listing(table, one())?),
        K::AllEntries => Arc::new(Entries::listing(table, all())?),
        K::Manifests => Arc::new(Manifests::of_snapshot(table, snapshot)?),
        K::AllManifests => Arc::new(Manifests::all(table)?),
        K::Partitions => Arc::new(Partitions::new(table, snapshot)?),
        K::PositionDeletes => {
            return Err(Error::unsupported(
                "the metadata table `position_deletes` can't be read yet; `delete_files` lists the files",
            ));
        }
    })
}

#[async_trait]
impl TableProvider for MetadataTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.contents.schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let schema = self.contents.schema();
        let projection = projection.cloned().unwrap_or_else(|| (0..schema.fields().len()).collect());
        let partitions = state.config().target_partitions();
        let wanted = Wanted { projection: &projection, partitions };
        let mut parts = self.contents.scan(&wanted).await.map_err(|e| e.context(self.place()))?;
        let schema = Arc::new(schema.project(&projection)?);
        if parts.is_empty() {
            // DataFusion's operators need a partition.
            parts.push(Part::empty(&schema));
        }
        let parts = parts.into_iter().map(|part| Arc::new(part) as Arc<dyn PartitionStream>).collect();
        Ok(Arc::new(StreamingTableExec::try_new(schema, parts, None, [], false, limit)?))
    }
}
