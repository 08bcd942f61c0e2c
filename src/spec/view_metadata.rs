//! View metadata (view spec).

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use super::ids::SchemaId;
use super::schema::Schema;

/// The only version of the format of views.
pub(crate) const VIEW_FORMAT_VERSION: u8 = 1;

/// Everything that a view's metadata file says.
#[derive(Debug, Clone, PartialEq)]
pub struct ViewMetadata {
    /// Always 1.
    pub format_version: u8,
    /// The view's identity.
    pub view_uuid: Uuid,
    /// The view's base location.
    pub location: String,
    /// The current version; always in `versions`.
    pub current_version_id: i32,
    /// The known versions by id.
    pub versions: BTreeMap<i32, Arc<ViewVersion>>,
    /// Which version was current when.
    pub version_log: Vec<ViewLogEntry>,
    /// All schemas by id.
    pub schemas: BTreeMap<SchemaId, Arc<Schema>>,
    /// The view's properties.
    pub properties: BTreeMap<String, String>,
}

/// One version of a view.
#[derive(Debug, Clone, PartialEq)]
pub struct ViewVersion {
    /// Its id.
    pub version_id: i32,
    /// The schema of its result.
    pub schema_id: SchemaId,
    /// When it was made, in milliseconds since 1970 UTC.
    pub timestamp_ms: i64,
    /// What made it, such as `engine-name`.
    pub summary: BTreeMap<String, String>,
    /// The query, once a dialect.
    pub representations: Vec<ViewRepresentation>,
    /// The catalog of names in the query that have none.
    pub default_catalog: Option<String>,
    /// The namespace of names in the query that have none.
    pub default_namespace: Vec<String>,
}

/// A view's query in one dialect of SQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewRepresentation {
    /// The query.
    pub sql: String,
    /// The dialect, such as `spark` or `datafusion`.
    pub dialect: String,
}

/// An entry of a view's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ViewLogEntry {
    /// When the version became current, in milliseconds since 1970 UTC.
    pub timestamp_ms: i64,
    /// The version.
    pub version_id: i32,
}
