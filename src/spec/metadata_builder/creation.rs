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
    /// `DataInvalid` for a spec or order whose source is not in the schema and for a
    /// `format-version` that is none. The rest shows in [`TableMetadata::apply`].
    pub fn creation(
        schema: &Schema,
        spec: Option<&PartitionSpec>,
        order: Option<&SortOrder>,
        location: &str,
        properties: &BTreeMap<String, String>,
    ) -> Result<Vec<TableUpdate>> {
        let version = match properties.get(FORMAT_VERSION_PROPERTY) {
            Some(value) => parse_version(value)?,
            None => DEFAULT_FORMAT_VERSION,
        };
        let fresh = assign_fresh_ids(schema, FieldId(0), None)?;
        let first = (FIRST_PARTITION_FIELD_ID..).map(FieldId);
        let fields = spec.map_or(&[][..], |spec| &spec.fields);
        let fields = fields.iter().zip(first).map(|(field, field_id)| {
            let source_ids = new_ids(&field.source_ids, &fresh.new_ids)
                .map_err(|e| e.context(format!("partition field `{}`", field.name)))?;
            Ok(PartitionField { source_ids, field_id, ..field.clone() })
        });
        let spec = PartitionSpec { spec_id: SpecId(0), fields: fields.collect::<Result<_>>()? };
        let order = fresh_order(order, &fresh.new_ids)?;
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

/// The properties that a new table stores.
fn stored_properties(properties: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    // Java's default for old tables was gzip; new ones name the better one.
    let zstd = ("write.parquet.compression-codec".to_owned(), "zstd".to_owned());
    let given = properties.iter().filter(|(name, _)| !is_reserved(name));
    std::iter::once(zstd).chain(given.map(|(k, v)| (k.clone(), v.clone()))).collect()
}

fn fresh_order(order: Option<&SortOrder>, ids: &HashMap<FieldId, FieldId>) -> Result<SortOrder> {
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
