//! What a catalog is asked to make and to change.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::TableIdent;
use crate::spec::{
    PartitionSpec, Schema, SortOrder, TableRequirement, TableUpdate, ViewMetadata, ViewRepresentation,
};

/// A table to create. Its schema, spec and order may have any ids that agree with each other: new
/// ones are assigned.
#[derive(Debug, Clone)]
pub struct TableCreation {
    /// Its schema.
    pub schema: Schema,
    /// How it is partitioned; not at all if `None`.
    pub partition_spec: Option<PartitionSpec>,
    /// How writers sort it; not at all if `None`.
    pub sort_order: Option<SortOrder>,
    /// Where it lies; where the catalog puts tables if `None`.
    pub location: Option<String>,
    /// Its properties. `format-version` becomes the format version (2 without it) and no property.
    pub properties: BTreeMap<String, String>,
}

impl TableCreation {
    /// A table with that schema, and nothing else special.
    pub fn new(schema: Schema) -> Self {
        Self { schema, partition_spec: None, sort_order: None, location: None, properties: BTreeMap::new() }
    }
}

/// Changes of one table, and what must hold for them.
#[derive(Debug, Clone, PartialEq)]
pub struct TableCommit {
    /// The table.
    pub table: TableIdent,
    /// What must hold of it when the commit arrives.
    pub requirements: Vec<TableRequirement>,
    /// The changes, in order.
    pub updates: Vec<TableUpdate>,
}

/// A view as its metadata describes it.
#[derive(Debug, Clone)]
pub struct View {
    /// Its name.
    pub ident: TableIdent,
    /// Everything that its metadata file says.
    pub metadata: Arc<ViewMetadata>,
    /// Where the metadata file is, if the catalog says so.
    pub metadata_location: Option<String>,
}

/// A view, or a version of one, to create.
#[derive(Debug, Clone)]
pub struct ViewCreation {
    /// The schema of its result; new field ids are assigned.
    pub schema: Schema,
    /// The query, once a dialect.
    pub representations: Vec<ViewRepresentation>,
    /// The catalog of names in the query that have none.
    pub default_catalog: Option<String>,
    /// The namespace of names in the query that have none.
    pub default_namespace: Vec<String>,
    /// Where it lies; where the catalog puts views if `None`.
    pub location: Option<String>,
    /// Its properties.
    pub properties: BTreeMap<String, String>,
}
