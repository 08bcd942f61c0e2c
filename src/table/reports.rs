//! What can be told of a scan or a commit (REST spec, `ReportMetricsRequest`).

#![cfg_attr(
    not(feature = "catalog-rest"),
    allow(dead_code, reason = "only catalogs behind the REST protocol have servers")
)]

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value as Json;

use crate::spec::{FieldId, SchemaId, SequenceNumber, SnapshotId};

/// A scan that was planned, or a commit that was made.
#[derive(Debug, Clone)]
pub(crate) enum Report {
    Scan(ScanReport),
    Commit(CommitReport),
}

/// How the files of a scan were found.
#[derive(Debug, Clone)]
pub(crate) struct ScanReport {
    pub(crate) snapshot_id: SnapshotId,
    pub(crate) schema_id: SchemaId,
    /// The filter as JSON, without the values that it compares with.
    pub(crate) filter: Json,
    pub(crate) fields: Vec<(FieldId, String)>,
    pub(crate) planning: Duration,
    /// Counts by the names of the protocol.
    pub(crate) counts: Vec<(&'static str, i64)>,
    /// Sizes by the names of the protocol, in bytes.
    pub(crate) bytes: Vec<(&'static str, i64)>,
}

/// What a commit made of a table.
#[derive(Debug, Clone)]
pub(crate) struct CommitReport {
    pub(crate) snapshot_id: SnapshotId,
    pub(crate) sequence_number: SequenceNumber,
    pub(crate) operation: String,
    /// From the beginning of the first attempt to the end of the last.
    pub(crate) duration: Duration,
    pub(crate) attempts: u32,
    /// The snapshot's summary.
    pub(crate) summary: BTreeMap<String, String>,
}
