//! Partition specs and sort orders as JSON (spec, Appendix C, "Partition Specs", "Sort Orders").

use std::collections::HashSet;

use serde_json::{Map, Value as Json};

use crate::error::Result;

use super::ids::{FieldId, SortOrderId, SpecId};
use super::json::{Node, Object};
use super::partition::{PartitionField, PartitionSpec};
use super::sort::{NullOrder, SortDirection, SortField, SortOrder};
use super::transform::Transform;

/// The id of the first partition field of a table.
pub(crate) const FIRST_PARTITION_FIELD_ID: i32 = 1000;

impl PartitionSpec {
    /// Reads a spec object. Fields without ids (old v1 writers) get them from 1000 on.
    ///
    /// # Errors
    /// `DataInvalid`, with the path of the member, for JSON that is no spec, where only some
    /// fields have ids, or where an id occurs twice.
    pub fn from_json(json: &Json) -> Result<Self> {
        Self::read(&Node::root(json))
    }

    pub(crate) fn read(node: &Node<'_>) -> Result<Self> {
        let object = node.object()?;
        let spec_id = SpecId(object.req("spec-id", Node::i32)?);
        Ok(Self { spec_id, fields: object.req("fields", read_partition_fields)? })
    }

    /// Reads the fields alone, as manifests and v1's `partition-spec` have them; a whole spec
    /// object, of which some writers put one there, will do too.
    ///
    /// # Errors
    /// As for [`PartitionSpec::from_json`].
    pub fn fields_from_json(json: &Json) -> Result<Vec<PartitionField>> {
        read_partition_fields(&Node::root(json))
    }

    /// Writes the spec object.
    pub fn to_json(&self) -> Json {
        let mut members = Map::new();
        members.insert("spec-id".into(), self.spec_id.0.into());
        members.insert("fields".into(), self.fields_to_json());
        Json::Object(members)
    }

    /// Writes the fields alone.
    pub fn fields_to_json(&self) -> Json {
        self.fields.iter().map(write_partition_field).collect()
    }
}

pub(crate) fn read_partition_fields(node: &Node<'_>) -> Result<Vec<PartitionField>> {
    if node.json().is_object() {
        return node.object()?.req("fields", |n| read_field_list(n));
    }
    read_field_list(node)
}

fn read_field_list(node: &Node<'_>) -> Result<Vec<PartitionField>> {
    let mut with_ids = 0;
    let mut next_id = FIRST_PARTITION_FIELD_ID;
    let fields = node.list(|node| {
        let object = node.object()?;
        let given = object.opt("field-id", Node::i32)?;
        with_ids += usize::from(given.is_some());
        let field_id = FieldId(given.unwrap_or(next_id));
        next_id = next_id.saturating_add(1);
        Ok(PartitionField {
            source_ids: read_source_ids(&object)?,
            field_id,
            name: object.req("name", Node::string)?,
            transform: Transform::parse(object.req("transform", Node::str)?),
            extra: object.extra(),
        })
    })?;
    if with_ids != 0 && with_ids != fields.len() {
        return Err(node.error(format!("{with_ids} of {} fields have a `field-id`", fields.len())));
    }
    let mut ids = HashSet::new();
    if let Some(twice) = fields.iter().find(|f| !ids.insert(f.field_id)) {
        return Err(node.error(format!("partition field id {} occurs twice", twice.field_id)));
    }
    Ok(fields)
}

/// One source is written as `source-id`, several (v3) as `source-ids`.
fn read_source_ids(object: &Object<'_>) -> Result<Vec<FieldId>> {
    let many = object.list("source-ids", |n| n.i32().map(FieldId))?;
    let one = object.opt("source-id", |n| n.i32().map(FieldId))?;
    match (one, many.as_slice()) {
        (None, []) => object.req("source-id", |_| Ok(Vec::new())),
        (Some(one), []) => Ok(vec![one]),
        (Some(one), [first, ..]) if one != *first => {
            Err(object.error(format!("`source-id` is {one}, but `source-ids` begin with {first}")))
        }
        _ => Ok(many),
    }
}

fn write_source_ids(source_ids: &[FieldId], members: &mut Map<String, Json>) {
    match source_ids {
        [one] => members.insert("source-id".into(), one.0.into()),
        many => members.insert("source-ids".into(), many.iter().map(|id| Json::from(id.0)).collect()),
    };
}

fn write_partition_field(field: &PartitionField) -> Json {
    let mut members = field.extra.clone();
    write_source_ids(&field.source_ids, &mut members);
    members.insert("field-id".into(), field.field_id.0.into());
    members.insert("name".into(), field.name.as_str().into());
    members.insert("transform".into(), field.transform.to_string().into());
    Json::Object(members)
}

impl SortOrder {
    /// Reads a sort order object.
    ///
    /// # Errors
    /// `DataInvalid`, with the path of the member, for JSON that is no sort order, and for an
    /// order 0 (the unsorted one) that has keys.
    pub fn from_json(json: &Json) -> Result<Self> {
        Self::read(&Node::root(json))
    }

    pub(crate) fn read(node: &Node<'_>) -> Result<Self> {
        let object = node.object()?;
        let order_id = SortOrderId(object.req("order-id", Node::i32)?);
        let fields = object.req("fields", |n| n.list(read_sort_field))?;
        if order_id == SortOrderId(0) && !fields.is_empty() {
            return Err(node.error("sort order 0 is the unsorted order, but has keys"));
        }
        Ok(Self { order_id, fields })
    }

    /// Writes the sort order object.
    pub fn to_json(&self) -> Json {
        let mut members = Map::new();
        members.insert("order-id".into(), self.order_id.0.into());
        members.insert("fields".into(), self.fields.iter().map(write_sort_field).collect());
        Json::Object(members)
    }
}

fn read_sort_field(node: &Node<'_>) -> Result<SortField> {
    let object = node.object()?;
    Ok(SortField {
        source_ids: read_source_ids(&object)?,
        transform: Transform::parse(object.req("transform", Node::str)?),
        direction: object.req("direction", |n| match n.str()?.to_ascii_lowercase().as_str() {
            "asc" => Ok(SortDirection::Ascending),
            "desc" => Ok(SortDirection::Descending),
            _ => Err(n.error("expected `asc` or `desc`")),
        })?,
        null_order: object.req("null-order", |n| match n.str()?.to_ascii_lowercase().as_str() {
            "nulls-first" => Ok(NullOrder::First),
            "nulls-last" => Ok(NullOrder::Last),
            _ => Err(n.error("expected `nulls-first` or `nulls-last`")),
        })?,
        extra: object.extra(),
    })
}

fn write_sort_field(field: &SortField) -> Json {
    let mut members = field.extra.clone();
    write_source_ids(&field.source_ids, &mut members);
    members.insert("transform".into(), field.transform.to_string().into());
    let direction = match field.direction {
        SortDirection::Ascending => "asc",
        SortDirection::Descending => "desc",
    };
    let null_order = match field.null_order {
        NullOrder::First => "nulls-first",
        NullOrder::Last => "nulls-last",
    };
    members.insert("direction".into(), direction.into());
    members.insert("null-order".into(), null_order.into());
    Json::Object(members)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn specs_survive_a_round_trip() {
        let json = json!({"spec-id": 2, "fields": [
            {"source-id": 4, "field-id": 1000, "name": "ts_day", "transform": "day"},
            {"source-ids": [1, 2], "field-id": 1003, "name": "m", "transform": "zorder[2]", "x": 1}
        ]});
        let spec = PartitionSpec::from_json(&json).unwrap();
        assert_eq!(spec.spec_id, SpecId(2));
        assert_eq!(spec.fields[0].transform, Transform::Day);
        assert_eq!(spec.fields[0].source_id(), Some(FieldId(4)));
        assert_eq!(spec.fields[1].source_ids, [FieldId(1), FieldId(2)]);
        assert_eq!(spec.fields[1].transform, Transform::Unknown("zorder[2]".into()));
        assert_eq!(spec.to_json(), json);
        assert_eq!(PartitionSpec::fields_from_json(&json["fields"]).unwrap(), spec.fields);
        assert_eq!(PartitionSpec::fields_from_json(&json).unwrap(), spec.fields);
    }

    #[test]
    fn a_single_source_may_come_as_a_list() {
        let json = json!([{"source-ids": [4], "field-id": 1000, "name": "d", "transform": "day"}]);
        let fields = PartitionSpec::fields_from_json(&json).unwrap();
        assert_eq!(fields[0].source_id(), Some(FieldId(4)));
        let spec = PartitionSpec { spec_id: SpecId(0), fields };
        assert_eq!(spec.fields_to_json()[0]["source-id"], 4, "and is written as the spec has it");
    }

    #[test]
    fn old_fields_get_ids_in_sequence() {
        let json = json!([
            {"source-id": 1, "name": "a", "transform": "identity"},
            {"source-id": 2, "name": "b", "transform": "bucket[4]"}
        ]);
        let ids: Vec<i32> =
            PartitionSpec::fields_from_json(&json).unwrap().iter().map(|f| f.field_id.0).collect();
        assert_eq!(ids, [1000, 1001]);
    }

    #[test]
    fn bad_specs_are_errors() {
        let field = |id: Json| json!({"source-id": 1, "field-id": id, "name": "a", "transform": "identity"});
        let without = |name: &str| {
            let mut f = field(json!(1000));
            f.as_object_mut().unwrap().remove(name);
            f
        };
        for (fields, part) in [
            (json!([field(json!(1000)), field(Json::Null)]), "1 of 2 fields"),
            (json!([field(json!(1000)), field(json!(1000))]), "id 1000 occurs twice"),
            (json!([field(json!("1000"))]), "field `fields[0].field-id`"),
            (json!([without("source-id")]), "field `fields[0].source-id`"),
            (json!([without("name")]), "field `fields[0].name`"),
            (json!([without("transform")]), "field `fields[0].transform`"),
            (json!("x"), "field `fields`"),
        ] {
            let found = PartitionSpec::from_json(&json!({"spec-id": 0, "fields": fields})).unwrap_err();
            assert!(found.to_string().contains(part), "{found}");
        }
    }

    #[test]
    fn sort_orders_survive_a_round_trip() {
        let json = json!({"order-id": 1, "fields": [
            {"transform": "identity", "source-id": 2, "direction": "asc", "null-order": "nulls-first"},
            {"transform": "bucket[4]", "source-id": 3, "direction": "desc", "null-order": "nulls-last", "x": true}
        ]});
        let order = SortOrder::from_json(&json).unwrap();
        assert_eq!(order.fields[1].direction, SortDirection::Descending);
        assert_eq!(order.fields[1].null_order, NullOrder::Last);
        assert_eq!(order.to_json(), json);
        let mut bad = json.clone();
        bad["order-id"] = json!(0);
        assert!(SortOrder::from_json(&bad).is_err());
        let mut bad = json;
        bad["fields"][0]["direction"] = json!("up");
        assert!(SortOrder::from_json(&bad).unwrap_err().to_string().contains("`fields[0].direction`"));
    }
}
