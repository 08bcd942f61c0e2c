//! Reports of scans and commits (REST spec, `ReportMetricsRequest`): sent beside what they are of,
//! which neither waits for them nor fails with them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value as Json, json};
use tokio::sync::Semaphore;

use super::client::{Client, Request};
use super::endpoint::{Endpoint, Endpoints};
use super::failure::Subject;
use super::properties::Properties;
use super::service::Service;
use crate::error::{Error, ErrorKind, Result};
use crate::table::{CommitReport, Report, ScanReport};

/// How many reports are on their way at a time; others are left out meanwhile.
const MAX_UNDER_WAY: usize = 16;
/// How long one may take.
const TIME_OUT: Duration = Duration::from_secs(30);

/// Metrics of a commit by the names of the protocol, and in a snapshot's summary.
const COMMIT_COUNTS: &[(&str, &str)] = &[
    ("added-data-files", "added-data-files"),
    ("removed-data-files", "deleted-data-files"),
    ("total-data-files", "total-data-files"),
    ("added-delete-files", "added-delete-files"),
    ("removed-delete-files", "removed-delete-files"),
    ("total-delete-files", "total-delete-files"),
    ("added-records", "added-records"),
    ("removed-records", "deleted-records"),
    ("total-records", "total-records"),
    ("added-positional-deletes", "added-position-deletes"),
    ("removed-positional-deletes", "removed-position-deletes"),
    ("total-positional-deletes", "total-position-deletes"),
    ("added-equality-deletes", "added-equality-deletes"),
    ("removed-equality-deletes", "removed-equality-deletes"),
    ("total-equality-deletes", "total-equality-deletes"),
];
const COMMIT_BYTES: &[(&str, &str)] = &[
    ("added-files-size-bytes", "added-files-size"),
    ("removed-files-size-bytes", "removed-files-size"),
    ("total-files-size-bytes", "total-files-size"),
];

/// Sends reports, a few at a time.
#[derive(Clone)]
pub(super) struct Reports {
    client: Arc<Client>,
    under_way: Arc<Semaphore>,
}

impl Reports {
    /// `None` if the server does not want them, or the user.
    pub(super) fn new(
        client: &Arc<Client>,
        endpoints: &Endpoints,
        properties: &Properties,
    ) -> Result<Option<Self>> {
        let enabled = properties.flag("rest-metrics-reporting-enabled")?.unwrap_or(true);
        let wanted = enabled && endpoints.offers(Endpoint::ReportMetrics);
        let under_way = || Arc::new(Semaphore::new(MAX_UNDER_WAY));
        Ok(wanted.then(|| Self { client: Arc::clone(client), under_way: under_way() }))
    }

    /// Sends a report of a table, now or never.
    pub(super) fn send(&self, service: &Service, report: Report) {
        let Ok(permit) = Arc::clone(&self.under_way).try_acquire_owned() else {
            tracing::debug!(table = %service.table, "a report was left out: too many are under way");
            return;
        };
        let (Ok(runtime), Ok(url)) = (
            tokio::runtime::Handle::try_current(),
            service.catalog.0.paths.of_table(&service.table, "metrics"),
        ) else {
            return;
        };
        let (client, token, table) = (Arc::clone(&self.client), service.token.clone(), service.table.clone());
        let body = body(&report, &format!("{}.{table}", service.catalog.0.name));
        runtime.spawn(async move {
            let what = format!("report on the table `{table}`");
            let request = Request::post(url, Subject::Entity, what, &body).token(token.as_ref());
            let sent = tokio::time::timeout(TIME_OUT, client.send(&request)).await;
            let sent = sent.unwrap_or_else(|_| Err(Error::new(ErrorKind::Io, "it took too long")));
            if let Err(error) = sent {
                tracing::debug!(%table, %error, "a report was not taken");
            }
            drop(permit);
        });
    }
}

fn body(report: &Report, table: &str) -> Json {
    match report {
        Report::Scan(report) => scan(report, table),
        Report::Commit(report) => commit(report, table),
    }
}

fn counter(unit: &str, value: i64) -> Json {
    json!({"unit": unit, "value": value})
}

fn timer(duration: Duration) -> Json {
    let nanos = i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
    json!({"count": 1, "time-unit": "nanoseconds", "total-duration": nanos})
}

fn metadata() -> Json {
    json!({"engine-name": "icefloe", "engine-version": env!("CARGO_PKG_VERSION")})
}

fn scan(report: &ScanReport, table: &str) -> Json {
    let mut metrics = Map::new();
    metrics.insert("total-planning-duration".into(), timer(report.planning));
    metrics.extend(report.counts.iter().map(|(name, n)| ((*name).to_owned(), counter("count", *n))));
    metrics.extend(report.bytes.iter().map(|(name, n)| ((*name).to_owned(), counter("bytes", *n))));
    let (ids, names): (Vec<i32>, Vec<&str>) = report.fields.iter().map(|(id, n)| (id.0, n.as_str())).unzip();
    json!({
        "report-type": "scan-report",
        "table-name": table,
        "snapshot-id": report.snapshot_id.0,
        "filter": report.filter,
        "schema-id": report.schema_id.0,
        "projected-field-ids": ids,
        "projected-field-names": names,
        "metrics": metrics,
        "metadata": metadata(),
    })
}

fn commit(report: &CommitReport, table: &str) -> Json {
    let mut metrics = Map::new();
    metrics.insert("total-duration".into(), timer(report.duration));
    metrics.insert("attempts".into(), counter("count", report.attempts.into()));
    for (unit, names) in [("count", COMMIT_COUNTS), ("bytes", COMMIT_BYTES)] {
        for (name, of_summary) in names {
            let value = report.summary.get(*of_summary).and_then(|value| value.parse().ok());
            metrics.extend(value.map(|value| ((*name).to_owned(), counter(unit, value))));
        }
    }
    json!({
        "report-type": "commit-report",
        "table-name": table,
        "snapshot-id": report.snapshot_id.0,
        "sequence-number": report.sequence_number.0,
        "operation": report.operation,
        "metrics": metrics,
        "metadata": metadata(),
    })
}
