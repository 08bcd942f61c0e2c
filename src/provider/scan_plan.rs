//! The files of a scan: found here, or by the server of the table's catalog.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use crate::error::{Error, Result, ResultExt};
use crate::exec::LAST_UPDATED_SEQUENCE_NUMBER;
use crate::expr::{Predicate, inclusive_json, sanitized_json};
use crate::plan::{PlanCounters, ScanPlan, ScanRequest, plan_files};
use crate::spec::{FileScanTask, Selection, Snapshot};
use crate::table::{Report, ScanDemand, ScanReport, Table, TableService};

/// What a scan is of.
pub(super) struct Wanted<'a> {
    pub(super) selection: &'a Selection,
    pub(super) filter: &'a Predicate,
    /// The columns that are read, by name; the table's and metadata columns.
    pub(super) columns: Vec<&'a String>,
}

/// The files of a scan, and the table with the storage that opens them.
pub(super) struct Planned {
    pub(super) table: Table,
    pub(super) plan: ScanPlan,
    own_storage: bool,
}

impl Planned {
    /// Whether another storage opens the files than that of the table.
    pub(super) fn has_own_storage(&self) -> bool {
        self.own_storage
    }
}

/// Finds the files that may hold rows that match.
///
/// # Errors
/// As [`plan_files`], and those of the server; `Unsupported` for what it does not tell.
pub(super) async fn plan_scan(table: &Table, wanted: &Wanted<'_>) -> Result<Planned> {
    let Some(snapshot) = &wanted.selection.snapshot else {
        return Ok(Planned { table: table.clone(), plan: ScanPlan::default(), own_storage: false });
    };
    let started = Instant::now();
    let planned = match table.scan_service() {
        Some(service) => plan_by_server(table, service, snapshot, wanted).await?,
        None => {
            let schema = Arc::clone(&wanted.selection.schema);
            let request = ScanRequest { schema, filter: wanted.filter.clone() };
            let plan = plan_files(table, snapshot, &request).await?;
            Planned { table: table.clone(), plan, own_storage: false }
        }
    };
    if let Some(service) = table.service() {
        service.report(report(snapshot, wanted, &planned.plan, started));
    }
    Ok(planned)
}

async fn plan_by_server(
    table: &Table,
    service: &Arc<dyn TableService>,
    snapshot: &Snapshot,
    wanted: &Wanted<'_>,
) -> Result<Planned> {
    let schema = &wanted.selection.schema;
    let fields = schema.fields();
    let is_own = |name: &str| fields.iter().any(|field| field.name == name);
    if wanted.columns.iter().any(|name| *name == LAST_UPDATED_SEQUENCE_NUMBER && !is_own(name)) {
        return Err(Error::unsupported(format!(
            "`{LAST_UPDATED_SEQUENCE_NUMBER}` of a table whose server plans its scans (`scan-planning-mode`): \
             it tells no sequence numbers"
        )));
    }
    let mut seen = HashSet::new();
    let select = wanted.columns.iter().filter(|name| is_own(name) && seen.insert(name.as_str()));
    let demand = ScanDemand {
        snapshot_id: snapshot.snapshot_id,
        use_snapshot_schema: !Arc::ptr_eq(schema, table.metadata().current_schema()),
        select: select.map(|name| (*name).clone()).collect(),
        filter: inclusive_json(wanted.filter, schema),
    };
    let planned = service.plan_scan(table, &demand).await.context(|| "planning by the server".to_owned())?;
    let counters = PlanCounters {
        files: planned.tasks.len(),
        files_kept: planned.tasks.len(),
        delete_files: delete_files(&planned.tasks).len(),
        ..PlanCounters::default()
    };
    let own_storage = planned.storage.is_some();
    let table = match planned.storage {
        Some(storage) => table.with_storage(storage),
        None => table.clone(),
    };
    let plan = ScanPlan { tasks: planned.tasks, residuals: vec![wanted.filter.clone()], counters };
    Ok(Planned { table, plan, own_storage })
}

/// The delete files of the tasks with their sizes, each once.
fn delete_files(tasks: &[FileScanTask]) -> HashSet<(&str, Option<i64>, i64)> {
    let deletes = tasks.iter().flat_map(|task| &task.deletes).map(|delete| delete.file.as_ref());
    deletes
        .map(|file| {
            let size = file.content_size_in_bytes.unwrap_or(file.file_size_in_bytes);
            (file.file_path.as_str(), file.content_offset, size)
        })
        .collect()
}

fn report(snapshot: &Snapshot, wanted: &Wanted<'_>, plan: &ScanPlan, started: Instant) -> Report {
    let schema = &wanted.selection.schema;
    let fields = schema.fields().iter().filter(|field| wanted.columns.contains(&&field.name));
    let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let sum = |sizes: &mut dyn Iterator<Item = i64>| sizes.fold(0i64, i64::saturating_add);
    let deletes = delete_files(&plan.tasks);
    let skipped = plan.counters.files_skipped_by_partition + plan.counters.files_skipped_by_metrics;
    Report::Scan(ScanReport {
        snapshot_id: snapshot.snapshot_id,
        schema_id: schema.schema_id,
        filter: sanitized_json(wanted.filter),
        fields: fields.map(|field| (field.id, field.name.clone())).collect(),
        planning: started.elapsed(),
        counts: vec![
            ("result-data-files", count(plan.tasks.len())),
            ("result-delete-files", count(deletes.len())),
            ("skipped-data-files", count(skipped)),
        ],
        bytes: vec![
            ("total-file-size-in-bytes", sum(&mut plan.tasks.iter().map(|t| t.data_file.file_size_in_bytes))),
            ("total-delete-file-size-in-bytes", sum(&mut deletes.iter().map(|(_, _, size)| *size))),
        ],
    })
}
