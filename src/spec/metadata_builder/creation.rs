//! The updates that create a table.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use uuid::Uuid;

use crate::error::{Error, Result};

use super::super::ids::{FieldId, SchemaId, SortOrderId, SpecId};
use super::super::partition::{PartitionField, PartitionSpec};
use super::super::partition_json::FIRST_PARTITION_FIELD_ID;
use super::super::schema::Schema;
use super::super::sort::{SortField, SortOrder};
use super::super::table_metadata::TableMetadata;
use super::super::table_properties::TableProperties;
use super::super::table_update::{LAST_ADDED, TableUpdate};
use super::fresh_ids::assign_fresh_ids;
use super::{
    DEFAULT_FORMAT_VERSION, FORMAT_VERSION_PROPERTY, is_reserved, parse_version, without_trailing_slash,
};

impl TableMetadata {
    /// The updates that create a table. All ids are assigned anew: fields count from 1, those of
    /// one level first, partition fields from 1000. The property `format-version` becomes the
    /// version; reserved properties are left out, and what engines expect of new tables is added.
    ///
    /// # Errors
    /// `DataInvalid` for a spec or order whose source is not in the schema, and for properties
    /// with wrong values or of columns that are not there. The rest shows in
    /// [`TableMetadata::apply`].
    pub fn creation(
        schema: &Schema,
        spec: Option<&PartitionSpec>,
        order: Option<&SortOrder>,
        location: &str,
        properties: &BTreeMap<String, String>,
    ) -> Result<Vec<TableUpdate>> {
        let version = requested_version(properties)?.unwrap_or(DEFAULT_FORMAT_VERSION);
        let fresh = assign_fresh_ids(schema, FieldId(0), None)?;
        let mut fields = fresh_spec_fields(spec, &fresh.new_ids)?;
        for (field, id) in fields.iter_mut().zip(FIRST_PARTITION_FIELD_ID..) {
            field.field_id = FieldId(id);
        }
        let spec = PartitionSpec { spec_id: SpecId(0), fields };
        let order = fresh_order(order, &fresh.new_ids)?;
        check_properties(properties, &fresh.schema, &order)?;
        Ok(vec![
            TableUpdate::AssignUuid(Uuid::new_v4()),
            TableUpdate::UpgradeFormatVersion(version),
            TableUpdate::AddSchema(Arc::new(fresh.schema)),
            TableUpdate::SetCurrentSchema(SchemaId(LAST_ADDED)),
            TableUpdate::AddSpec(Arc::new(spec)),
            TableUpdate::SetDefaultSpec(SpecId(LAST_ADDED)),
            TableUpdate::AddSortOrder(Arc::new(order)),
            TableUpdate::SetDefaultSortOrder(SortOrderId(LAST_ADDED)),
            TableUpdate::SetLocation(without_trailing_slash(location).to_owned()),
            TableUpdate::SetProperties(stored_properties(properties)),
        ])
    }
}

/// The version that the property `format-version` asks for.
pub(super) fn requested_version(properties: &BTreeMap<String, String>) -> Result<Option<u8>> {
    properties.get(FORMAT_VERSION_PROPERTY).map(|value| parse_version(value)).transpose()
}

/// The properties that a new table stores.
pub(super) fn stored_properties(properties: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    // Java's default for old tables was gzip; new ones name the better one.
    let zstd = ("write.parquet.compression-codec".to_owned(), "zstd".to_owned());
    let given = properties.iter().filter(|(name, _)| !is_reserved(name));
    std::iter::once(zstd).chain(given.map(|(k, v)| (k.clone(), v.clone()))).collect()
}

/// Looks at properties that would otherwise fail every later commit or write.
pub(super) fn check_properties(
    properties: &BTreeMap<String, String>,
    schema: &Schema,
    order: &SortOrder,
) -> Result<()> {
    let typed = TableProperties::new(properties);
    typed.check_commits()?;
    typed.metrics_config(schema, order)?;
    typed.check_metrics_columns(schema)
}

/// The fields of a spec, with the sources' new ids.
pub(super) fn fresh_spec_fields(
    spec: Option<&PartitionSpec>,
    ids: &HashMap<FieldId, FieldId>,
) -> Result<Vec<PartitionField>> {
    let fields = spec.map_or(&[][..], |spec| &spec.fields).iter().map(|field| {
        let source_ids = new_ids(&field.source_ids, ids)
            .map_err(|e| e.context(format!("partition field `{}`", field.name)))?;
        Ok(PartitionField { source_ids, ..field.clone() })
    });
    fields.collect()
}

/// A sort order with the sources' new ids.
pub(super) fn fresh_order(order: Option<&SortOrder>, ids: &HashMap<FieldId, FieldId>) -> Result<SortOrder> {
    let fields = order.map_or(&[][..], |order| &order.fields);
    let order_id = SortOrderId(i32::from(!fields.is_empty()));
    let fields = fields.iter().enumerate().map(|(i, field)| {
        let source_ids = new_ids(&field.source_ids, ids).map_err(|e| e.context(format!("sort field {i}")))?;
        Ok(SortField { source_ids, ..field.clone() })
    });
    Ok(SortOrder { order_id, fields: fields.collect::<Result<_>>()? })
}

fn new_ids(old: &[FieldId], ids: &HashMap<FieldId, FieldId>) -> Result<Vec<FieldId>> {
    let new = |id: &FieldId| {
        let missing = || Error::invalid(format!("its source column {id} is not in the schema"));
        ids.get(id).copied().ok_or_else(missing)
    };
    old.iter().map(new).collect()
}
