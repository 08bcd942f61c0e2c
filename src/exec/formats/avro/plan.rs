//! A file's Avro schema and the table's → how rows are decoded.

use std::sync::Arc;

use arrow::array::BooleanBufferBuilder;
use arrow::datatypes::{DataType, Field, Fields, TimeUnit};

use super::super::Wanted;
use super::super::resolve::{FieldIds, Unique, mapping_or_names};
use super::column::{Bytes, Column, Parts, Step, Values};
use crate::error::{Error, Result, ResultExt};
use crate::spec::avro::{AvroSchema, Kind, Logical, NodeId, RecordField, Slot, Want};
use crate::spec::{FieldId, MAX_DECIMAL_PRECISION, NestedField, PrimitiveType, StructType, Type};

/// How the rows of a file are decoded into the columns `wanted`.
///
/// # Errors
/// `DataInvalid` where the file's type of a wanted field can't be the table's; `Unsupported` for
/// an Avro type that Iceberg does not use.
pub(super) fn plan(avro: &AvroSchema, wanted: &Wanted<'_>) -> Result<(Parts, Fields)> {
    let fields = avro.fields(avro.root()).ok_or_else(|| Error::invalid("the avro schema is not a record"))?;
    let columns = wanted.fields();
    let plan = Plan { avro };
    if has_ids(avro) {
        return plan.record(fields, &columns, FieldIds::InFile);
    }
    let mapping = mapping_or_names(wanted.mapping, wanted.schema);
    plan.record(fields, &columns, FieldIds::Mapped(Some(&mapping.root)))
}

/// Whether any record's field has an id, at any depth.
fn has_ids(avro: &AvroSchema) -> bool {
    let mut seen: Vec<NodeId> = Vec::new();
    let mut open = vec![avro.root()];
    while let Some(node) = open.pop() {
        match avro.kind(node) {
            Kind::Record(_) if seen.contains(&node) => {}
            Kind::Record(fields) => {
                if fields.iter().any(|f| f.id.is_some()) {
                    return true;
                }
                seen.push(node);
                open.extend(fields.iter().map(|f| f.node));
            }
            Kind::Array(item) | Kind::Map(item) => open.push(*item),
            Kind::Union(branches) => open.extend(branches),
            _ => {}
        }
    }
    false
}

struct Plan<'a> {
    avro: &'a AvroSchema,
}

impl Plan<'_> {
    fn record(
        &self,
        fields: &[RecordField],
        expected: &[NestedField],
        ids: FieldIds<'_>,
    ) -> Result<(Parts, Fields)> {
        let mut parts = Parts { steps: Vec::with_capacity(fields.len()), columns: Vec::new() };
        let mut arrow = Vec::new();
        let mut unique = Unique::default();
        for field in fields {
            let target = ids.find(field.id.map(FieldId), &field.name, expected);
            let column = match target {
                Some(target) => {
                    unique.check(target, &field.name)?;
                    self.column(field.node, &target.field_type, ids.below(&field.name))
                        .context(|| format!("field `{}`", target.name))?
                        .map(|column| (column, target))
                }
                None => None,
            };
            match column {
                Some((column, target)) => {
                    arrow.push(Field::new(&target.name, column.data_type(), column.is_nullable()));
                    parts.steps.push(Step::Read(parts.columns.len()));
                    parts.columns.push(column);
                }
                None => parts.steps.push(Step::Skip(field.node)),
            }
        }
        Ok((parts, arrow.into()))
    }

    /// A column for a value; none for one that is always null where the table has a nested type.
    fn column(&self, node: NodeId, target: &Type, ids: FieldIds<'_>) -> Result<Option<Column>> {
        let slot = Slot::new(self.avro, node, Want::Anything)?;
        let node = slot.node();
        let mismatch = || {
            Error::invalid(format!(
                "the file holds avro's {}, which can't be read as {target}",
                kind_name(self.avro.kind(node))
            ))
        };
        let values = match (self.avro.kind(node), target) {
            (Kind::Null, Type::Primitive(_)) => Values::Null(0),
            (Kind::Null, _) => return Ok(None),
            (Kind::Enum, _) => return Err(Error::unsupported("avro enums")),
            (Kind::Record(fields), Type::Struct(s)) => {
                let (parts, fields) = self.record(fields, &s.fields, ids)?;
                Values::Struct { parts, fields }
            }
            (Kind::Record(fields), Type::Variant) => self.variant(fields)?,
            (Kind::Array(item), Type::List(list)) => {
                let item_is_empty = self.avro.is_empty(*item);
                let Some(item) = self.column(*item, &list.element.field_type, ids.below_element())? else {
                    return Err(mismatch());
                };
                let field = Arc::new(Field::new("element", item.data_type(), item.is_nullable()));
                Values::List { offsets: vec![0], item: Box::new(item), item_is_empty, field }
            }
            (Kind::Array(item), Type::Map(map)) => {
                let Some([key, value]) = self.avro.fields(*item) else {
                    return Err(mismatch());
                };
                let key = self.column(key.node, &map.key.field_type, ids.below("key"))?;
                let value = self.column(value.node, &map.value.field_type, ids.below("value"))?;
                let (Some(key), Some(value)) = (key, value) else {
                    return Err(mismatch());
                };
                map_values(key, value)
            }
            (Kind::Map(value), Type::Map(map)) => {
                let value = self.column(*value, &map.value.field_type, ids.below("value"))?;
                let Some(value) = value else {
                    return Err(mismatch());
                };
                // Its keys are plain strings, without a type of their own.
                map_values(Column::new(Slot::plain(node), Values::Text(Bytes::new())), value)
            }
            (_, Type::Primitive(p)) => self.primitive(node, p)?.ok_or_else(mismatch)?,
            _ => return Err(mismatch()),
        };
        Ok(Some(Column::new(slot, values)))
    }

    /// A variant is a record of two `bytes`, which have no ids.
    fn variant(&self, fields: &[RecordField]) -> Result<Values> {
        let parts = StructType::new(vec![
            NestedField::required(1, "metadata", PrimitiveType::Binary),
            NestedField::required(2, "value", PrimitiveType::Binary),
        ]);
        if let Some(missing) = parts.fields.iter().find(|p| fields.iter().all(|f| f.name != p.name)) {
            return Err(Error::unsupported(format!("avro variant without `{}`", missing.name)));
        }
        // Only Parquet files may shred; what is in there must not get lost.
        if fields.iter().any(|f| f.name == "typed_value") {
            return Err(Error::unsupported("shredded avro variant"));
        }
        let fields: Vec<RecordField> = fields
            .iter()
            .map(|f| RecordField { id: parts.field_by_name(&f.name).map(|p| p.id.0), ..f.clone() })
            .collect();
        let (parts, fields) = self.record(&fields, &parts.fields, FieldIds::InFile)?;
        Ok(Values::Struct { parts, fields })
    }

    fn primitive(&self, node: NodeId, target: &PrimitiveType) -> Result<Option<Values>> {
        let logical = self.avro.logical(node);
        Ok(Some(match self.avro.kind(node) {
            Kind::Boolean => Values::Boolean(BooleanBufferBuilder::new(0)),
            Kind::Int => Values::Int(
                Vec::new(),
                match logical {
                    Logical::Date => DataType::Date32,
                    Logical::Other(name) if name == "time-millis" => DataType::Time32(TimeUnit::Millisecond),
                    _ => DataType::Int32,
                },
            ),
            Kind::Long => Values::Long(Vec::new(), long_type(logical, target)),
            Kind::Float => Values::Float(Vec::new()),
            Kind::Double => Values::Double(Vec::new()),
            Kind::Bytes => match logical {
                Logical::Decimal { precision, scale } => decimal(*precision, *scale, None)?,
                _ => Values::Bytes(Bytes::new()),
            },
            Kind::String if *target == PrimitiveType::Uuid => Values::UuidText(Vec::new()),
            Kind::String => Values::Text(Bytes::new()),
            Kind::Fixed(size) => match logical {
                Logical::Decimal { precision, scale } => decimal(*precision, *scale, Some(*size))?,
                // Only what the table expects: a null takes as much memory as a value.
                _ if expected_size(target) == Some(*size) => Values::Fixed { size: *size, data: Vec::new() },
                _ => return Ok(None),
            },
            _ => return Ok(None),
        }))
    }
}

/// The unit is the file's; whether it is a point in time the table knows better than the file,
/// which need not say.
fn long_type(logical: &Logical, target: &PrimitiveType) -> DataType {
    use PrimitiveType as P;
    let (unit, utc) = match logical {
        Logical::TimeMicros => return DataType::Time64(TimeUnit::Microsecond),
        Logical::TimestampMicros { utc } => (TimeUnit::Microsecond, *utc),
        Logical::TimestampNanos { utc } => (TimeUnit::Nanosecond, *utc),
        Logical::Other(name) if name == "timestamp-millis" => (TimeUnit::Millisecond, true),
        Logical::Other(name) if name == "local-timestamp-millis" => (TimeUnit::Millisecond, false),
        _ => return DataType::Int64,
    };
    let utc = match target {
        P::Timestamp | P::TimestampNs => false,
        P::Timestamptz | P::TimestamptzNs => true,
        _ => utc,
    };
    DataType::Timestamp(unit, utc.then(|| "UTC".into()))
}

fn expected_size(target: &PrimitiveType) -> Option<usize> {
    match target {
        PrimitiveType::Uuid => Some(16),
        PrimitiveType::Fixed(length) => {
            usize::try_from(*length).ok().filter(|length| i32::try_from(*length).is_ok())
        }
        _ => None,
    }
}

fn decimal(precision: u32, scale: u32, size: Option<usize>) -> Result<Values> {
    let unsupported = || Error::unsupported(format!("avro decimal({precision}, {scale})"));
    if precision == 0 || precision > MAX_DECIMAL_PRECISION || scale > precision {
        return Err(unsupported());
    }
    Ok(Values::Decimal {
        values: Vec::new(),
        size,
        precision: u8::try_from(precision).map_err(|_| unsupported())?,
        scale: i8::try_from(scale).map_err(|_| unsupported())?,
    })
}

fn map_values(key: Column, value: Column) -> Values {
    let pair = Fields::from(vec![
        Field::new("key", key.data_type(), false),
        Field::new("value", value.data_type(), value.is_nullable()),
    ]);
    let field = Arc::new(Field::new("key_value", DataType::Struct(pair.clone()), false));
    Values::Map { offsets: vec![0], key: Box::new(key), value: Box::new(value), field, pair }
}

fn kind_name(kind: &Kind) -> &'static str {
    match kind {
        Kind::Null => "null",
        Kind::Boolean => "boolean",
        Kind::Int => "int",
        Kind::Long => "long",
        Kind::Float => "float",
        Kind::Double => "double",
        Kind::Bytes => "bytes",
        Kind::String => "string",
        Kind::Fixed(_) => "fixed",
        Kind::Enum => "enum",
        Kind::Array(_) => "array",
        Kind::Map(_) => "map",
        Kind::Union(_) => "union",
        Kind::Record(_) => "record",
    }
}
