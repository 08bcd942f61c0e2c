//! Data and delete files as JSON (REST spec, `ContentFile`).

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::Value as Json;

use crate::error::{Error, Result, ResultExt};
use crate::spec::{
    ContentFile, ContentType, FieldId, FileFormat, MetricMaps, PartitionValues, PrimitiveType, SortOrderId,
    SpecId, StructType, Type, Value,
};
use crate::table::Table;

/// Reads a file of a table.
///
/// # Errors
/// `DataInvalid`, with the member, for what is no file of the table.
pub(super) fn read_content_file(json: &Json, table: &Table) -> Result<ContentFile> {
    let file = Members(json);
    let content = match file.text("content")?.to_ascii_lowercase().replace('_', "-").as_str() {
        "data" => ContentType::Data,
        "position-deletes" => ContentType::PositionDeletes,
        "equality-deletes" => ContentType::EqualityDeletes,
        _ => return Err(invalid("content", "expected `data`, `position-deletes` or `equality-deletes`")),
    };
    let format = FileFormat::parse(file.text("file-format")?);
    let file_format = format.ok_or_else(|| invalid("file-format", "there is no such format"))?;
    let spec_id = SpecId(file.int("spec-id")?.ok_or_else(|| missing("spec-id"))?);
    let partition_type = table.partition_type(spec_id).context(|| "field `spec-id`".into())?;
    let partition =
        partition(json.get("partition"), partition_type).context(|| "field `partition`".into())?;
    let offsets = file.longs("split-offsets")?;
    let ids = file.longs("equality-ids")?.map(|ids| {
        let ids = ids.into_iter().map(|id| i32::try_from(id).map(FieldId));
        ids.collect::<Result<Vec<_>, _>>().map_err(|_| invalid("equality-ids", "expected ids of fields"))
    });
    let file_path = file.text("file-path")?;
    if file_path.is_empty() {
        return Err(missing("file-path"));
    }
    Ok(ContentFile {
        content,
        file_path: file_path.to_owned(),
        file_format,
        spec_id,
        partition,
        record_count: file.size("record-count")?.ok_or_else(|| missing("record-count"))?,
        file_size_in_bytes: file.size("file-size-in-bytes")?.ok_or_else(|| missing("file-size-in-bytes"))?,
        metrics: metrics(json, table)?.into(),
        key_metadata: file.get("key-metadata").map(|hex| bytes_of("key-metadata", hex)).transpose()?,
        split_offsets: offsets,
        equality_ids: ids.transpose()?,
        sort_order_id: file.int("sort-order-id")?.map(SortOrderId),
        first_row_id: file.size("first-row-id")?,
        referenced_data_file: match file.get("referenced-data-file") {
            None => None,
            Some(_) => Some(file.text("referenced-data-file")?.to_owned()),
        },
        content_offset: file.size("content-offset")?,
        content_size_in_bytes: file.size("content-size-in-bytes")?,
    })
}

fn invalid(member: &str, message: impl Into<String>) -> Error {
    Error::invalid(message).context(format!("field `{member}`"))
}

fn missing(member: &str) -> Error {
    invalid(member, "is missing")
}

/// A JSON object; a null member is none.
struct Members<'a>(&'a Json);

impl<'a> Members<'a> {
    fn get(&self, name: &str) -> Option<&'a Json> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    fn text(&self, name: &str) -> Result<&'a str> {
        let value = self.get(name).ok_or_else(|| missing(name))?;
        value.as_str().ok_or_else(|| invalid(name, "expected a string"))
    }

    fn long(&self, name: &str) -> Result<Option<i64>> {
        let read = |v: &Json| v.as_i64().ok_or_else(|| invalid(name, "expected a 64-bit integer"));
        self.get(name).map(read).transpose()
    }

    fn int(&self, name: &str) -> Result<Option<i32>> {
        let narrow = |v| i32::try_from(v).map_err(|_| invalid(name, "expected a 32-bit integer"));
        self.long(name)?.map(narrow).transpose()
    }

    /// A number that is not negative.
    fn size(&self, name: &str) -> Result<Option<i64>> {
        match self.long(name)? {
            Some(size) if size < 0 => Err(invalid(name, format!("is {size}"))),
            size => Ok(size),
        }
    }

    fn longs(&self, name: &str) -> Result<Option<Vec<i64>>> {
        let Some(list) = self.get(name) else { return Ok(None) };
        let longs = list.as_array().and_then(|l| l.iter().map(Json::as_i64).collect::<Option<Vec<_>>>());
        longs.map(Some).ok_or_else(|| invalid(name, "expected an array of integers"))
    }
}

fn bytes_of(name: &str, hex: &Json) -> Result<Vec<u8>> {
    match Value::from_json(hex, &Type::Primitive(PrimitiveType::Binary)) {
        Ok(Value::Binary(bytes)) => Ok(bytes),
        _ => Err(invalid(name, "expected bytes as hexadecimal digits")),
    }
}

/// A partition tuple: an array in the order of the spec's fields, or as older servers have it, an
/// object by the ids of its fields.
fn partition(json: Option<&Json>, of: &StructType) -> Result<PartitionValues> {
    let value = |json: Option<&Json>, field: &crate::spec::NestedField| match json {
        None | Some(Json::Null) => Ok(None),
        Some(json) => {
            let read = Value::from_json(json, &field.field_type);
            read.map(Some).context(|| format!("partition field `{}`", field.name))
        }
    };
    match json {
        None | Some(Json::Null) if of.fields.is_empty() => Ok(Vec::new()),
        Some(Json::Array(values)) if values.len() == of.fields.len() => {
            of.fields.iter().zip(values).map(|(field, json)| value(Some(json), field)).collect()
        }
        Some(Json::Array(values)) => {
            Err(Error::invalid(format!("expected {} values, found {}", of.fields.len(), values.len())))
        }
        Some(Json::Object(members)) if members.len() <= of.fields.len() => {
            let known = |id: &String| of.fields.iter().any(|field| field.id.to_string() == *id);
            if let Some(unknown) = members.keys().find(|id| !known(id)) {
                return Err(Error::invalid(format!("the spec has no field {}", unknown.escape_debug())));
            }
            of.fields.iter().map(|field| value(members.get(&field.id.to_string()), field)).collect()
        }
        _ => Err(Error::invalid(format!("expected an array of {} values", of.fields.len()))),
    }
}

fn metrics(json: &Json, table: &Table) -> Result<MetricMaps> {
    let counts = |name: &str| -> Result<BTreeMap<FieldId, i64>> {
        let read = |(id, value): (FieldId, &Json)| {
            value.as_i64().map(|count| (id, count)).ok_or_else(|| invalid(name, "expected integers"))
        };
        pairs(json, name)?.into_iter().map(read).collect()
    };
    let bounds = |name: &str| -> Result<BTreeMap<FieldId, Bytes>> {
        let read = |(id, value): (FieldId, &Json)| Some((id, bound(value, &field_type(table, id)?)?));
        Ok(pairs(json, name)?.into_iter().filter_map(read).collect())
    };
    Ok(MetricMaps {
        column_sizes: counts("column-sizes")?,
        value_counts: counts("value-counts")?,
        null_value_counts: counts("null-value-counts")?,
        nan_value_counts: counts("nan-value-counts")?,
        lower_bounds: bounds("lower-bounds")?,
        upper_bounds: bounds("upper-bounds")?,
    })
}

/// A map as two arrays of the same length.
fn pairs<'a>(json: &'a Json, name: &str) -> Result<Vec<(FieldId, &'a Json)>> {
    let Some(map) = json.get(name).filter(|map| !map.is_null()) else { return Ok(Vec::new()) };
    let array = |member: &str| map.get(member).and_then(Json::as_array);
    let (Some(keys), Some(values)) = (array("keys"), array("values")) else {
        return Err(invalid(name, "expected the arrays `keys` and `values`"));
    };
    if keys.len() != values.len() {
        return Err(invalid(name, format!("{} keys for {} values", keys.len(), values.len())));
    }
    let id = |key: &Json| key.as_i64().and_then(|id| i32::try_from(id).ok()).map(FieldId);
    let ids: Option<Vec<FieldId>> = keys.iter().map(id).collect();
    let ids = ids.ok_or_else(|| invalid(name, "expected ids of fields"))?;
    Ok(ids.into_iter().zip(values).collect())
}

fn field_type(table: &Table, id: FieldId) -> Option<PrimitiveType> {
    let metadata = table.metadata();
    // A column that was promoted has bounds of either type: only the current one is sure.
    metadata.current_schema().field_by_id(id)?.field_type.as_primitive().cloned()
}

/// A bound in its binary form. The protocol has values of the column's type here, Java has that
/// binary form as hexadecimal digits; what could be either is not used, which is always right.
fn bound(json: &Json, of: &PrimitiveType) -> Option<Bytes> {
    use PrimitiveType as P;
    let typed = || Value::from_json(json, &Type::Primitive(of.clone())).ok()?.to_bytes().ok();
    let digits = |length: usize| {
        let hex = json.as_str().filter(|hex| hex.len() == length * 2)?;
        let bytes = bytes_of("bound", &Json::from(hex)).ok()?;
        Value::from_bytes(of, &bytes).is_ok().then_some(bytes)
    };
    let bytes = match of {
        P::Boolean => typed().or_else(|| digits(1)),
        P::Int | P::Float | P::Date => typed().or_else(|| digits(4)),
        P::Long | P::Double | P::Time | P::Timestamp | P::Timestamptz | P::TimestampNs | P::TimestamptzNs => {
            typed().or_else(|| digits(8))
        }
        P::Uuid => typed().or_else(|| digits(16)),
        // Both forms are the same.
        P::Fixed(_) | P::Binary => typed(),
        _ => None,
    };
    bytes.map(Bytes::from)
}
