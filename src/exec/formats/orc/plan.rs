//! A file's types and the table's schema → the columns that are read.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, TimeUnit};

use super::super::Wanted;
use super::super::resolve::{FieldIds, Unique, mapping_or_names};
use super::footer::{ColumnType, Footer, Kind};
use crate::error::{Error, Result, ResultExt};
use crate::spec::{
    FieldId, MAX_DECIMAL_PRECISION, NameMapping, NestedField, PrimitiveType, Schema, StructType, Type,
};

/// What Hive takes for a decimal that has none.
const DEFAULT_PRECISION: u64 = 38;
const DEFAULT_SCALE: u64 = 10;

/// A column that is read.
#[derive(Debug, Clone)]
pub(super) struct Planned {
    /// Its number in the file.
    pub(super) column: usize,
    pub(super) shape: Shape,
}

/// What is made of a column.
#[derive(Debug, Clone)]
pub(super) enum Shape {
    Boolean,
    Byte,
    /// 16 or 32 bits, and what they mean.
    Int(DataType),
    /// 64 bits, and what they mean.
    Long(DataType),
    Float,
    Double,
    Text,
    Binary,
    Fixed(usize),
    Decimal {
        precision: u8,
        scale: u8,
    },
    Timestamp {
        unit: TimeUnit,
        is_instant: bool,
    },
    Struct {
        children: Vec<Planned>,
        fields: Fields,
    },
    List {
        element: Box<Planned>,
        field: FieldRef,
    },
    Map {
        key: Box<Planned>,
        value: Box<Planned>,
        field: FieldRef,
    },
}

/// The columns of the file that are read for `wanted`, and their Arrow fields.
///
/// # Errors
/// `DataInvalid` where the file's type of a wanted field can't be the table's; `Unsupported` for
/// types that Iceberg does not use.
pub(super) fn plan(footer: &Footer, wanted: &Wanted<'_>) -> Result<(Vec<Planned>, Fields)> {
    let columns = wanted.fields();
    let plan = Plan { types: &footer.types };
    if footer.types.iter().any(|t| t.id.is_some()) {
        return plan.record(0, &columns, FieldIds::InFile);
    }
    let mapping = mapping_or_names(wanted.mapping, wanted.schema);
    plan.record(0, &columns, FieldIds::Mapped(Some(&mapping.root)))
}

struct Plan<'a> {
    types: &'a [ColumnType],
}

impl Plan<'_> {
    fn get(&self, column: usize) -> Result<&ColumnType> {
        self.types.get(column).ok_or_else(|| Error::invalid(format!("orc column {column} has no type")))
    }

    fn record(
        &self,
        column: usize,
        expected: &[NestedField],
        ids: FieldIds<'_>,
    ) -> Result<(Vec<Planned>, Fields)> {
        let record = self.get(column)?;
        let mut planned = Vec::new();
        let mut fields = Vec::new();
        let mut unique = Unique::default();
        for (child, name) in record.children.iter().zip(&record.names) {
            let own = self.get(*child)?.id.map(FieldId);
            let Some(target) = ids.find(own, name, expected) else { continue };
            unique.check(target, name)?;
            let shape = self
                .shape(*child, &target.field_type, ids.below(name))
                .context(|| format!("field `{}`", target.name))?;
            fields.push(Field::new(&target.name, shape.data_type(), true));
            planned.push(Planned { column: *child, shape });
        }
        Ok((planned, fields.into()))
    }

    fn shape(&self, column: usize, target: &Type, ids: FieldIds<'_>) -> Result<Shape> {
        let t = self.get(column)?;
        match (t.kind, target, t.children.as_slice()) {
            (Kind::Struct, Type::Struct(s), _) => {
                let (children, fields) = self.record(column, &s.fields, ids)?;
                Ok(Shape::Struct { children, fields })
            }
            (Kind::Struct, Type::Variant, _) => self.variant(column, t),
            (Kind::List, Type::List(list), [element]) => {
                let shape = self.shape(*element, &list.element.field_type, ids.below_element())?;
                let field = Arc::new(Field::new("element", shape.data_type(), true));
                Ok(Shape::List { element: Box::new(Planned { column: *element, shape }), field })
            }
            (Kind::Map, Type::Map(map), [key, value]) => {
                let key_shape = self.shape(*key, &map.key.field_type, ids.below("key"))?;
                let value_shape = self.shape(*value, &map.value.field_type, ids.below("value"))?;
                let pair = Fields::from(vec![
                    Field::new("key", key_shape.data_type(), false),
                    Field::new("value", value_shape.data_type(), true),
                ]);
                let field = Arc::new(Field::new("key_value", DataType::Struct(pair), false));
                Ok(Shape::Map {
                    key: Box::new(Planned { column: *key, shape: key_shape }),
                    value: Box::new(Planned { column: *value, shape: value_shape }),
                    field,
                })
            }
            (Kind::Union, ..) => Err(Error::unsupported("orc unions")),
            (Kind::Unknown(kind), ..) => Err(Error::unsupported(format!("orc type {kind}"))),
            (_, Type::Primitive(p), _) => primitive(t, p),
            _ => Err(mismatch(t.kind, target)),
        }
    }

    /// A variant is a struct of two binary columns, which have no ids.
    fn variant(&self, column: usize, t: &ColumnType) -> Result<Shape> {
        let parts = StructType::new(vec![
            NestedField::required(1, "metadata", PrimitiveType::Binary),
            NestedField::required(2, "value", PrimitiveType::Binary),
        ]);
        if let Some(missing) = parts.fields.iter().find(|p| !t.names.contains(&p.name)) {
            return Err(Error::unsupported(format!("orc variant without `{}`", missing.name)));
        }
        // Only Parquet files may shred; what is in there must not get lost.
        if t.names.iter().any(|n| n == "typed_value") {
            return Err(Error::unsupported("shredded orc variant"));
        }
        let schema = Schema::new(0.into(), parts.fields, Vec::new())?;
        let mapping = NameMapping::from_schema(&schema);
        let ids = FieldIds::Mapped(Some(&mapping.root));
        let (children, fields) = self.record(column, schema.fields(), ids)?;
        Ok(Shape::Struct { children, fields })
    }
}

fn mismatch(kind: Kind, target: &Type) -> Error {
    let name = format!("{kind:?}").to_lowercase();
    Error::invalid(format!("the file holds orc's {name}, which can't be read as {target}"))
}

fn primitive(t: &ColumnType, target: &PrimitiveType) -> Result<Shape> {
    use PrimitiveType as P;
    Ok(match t.kind {
        Kind::Boolean => Shape::Boolean,
        Kind::Byte => Shape::Byte,
        Kind::Short | Kind::Int => Shape::Int(DataType::Int32),
        Kind::Date => Shape::Int(DataType::Date32),
        Kind::Long if *target == P::Time => Shape::Long(DataType::Time64(TimeUnit::Microsecond)),
        Kind::Long => Shape::Long(DataType::Int64),
        Kind::Float => Shape::Float,
        Kind::Double => Shape::Double,
        Kind::String | Kind::Varchar | Kind::Char => Shape::Text,
        Kind::Binary => match target {
            P::Uuid => Shape::Fixed(16),
            P::Fixed(length) => match usize::try_from(*length) {
                Ok(length) if i32::try_from(length).is_ok() => Shape::Fixed(length),
                _ => return Err(Error::unsupported(format!("{target} columns"))),
            },
            _ => Shape::Binary,
        },
        Kind::Decimal => decimal(t)?,
        Kind::Timestamp | Kind::TimestampInstant => Shape::Timestamp {
            unit: match target {
                P::TimestampNs | P::TimestamptzNs => TimeUnit::Nanosecond,
                _ => TimeUnit::Microsecond,
            },
            is_instant: t.kind == Kind::TimestampInstant,
        },
        _ => return Err(mismatch(t.kind, &target.clone().into())),
    })
}

fn decimal(t: &ColumnType) -> Result<Shape> {
    let precision = t.precision.unwrap_or(DEFAULT_PRECISION);
    let scale = t.scale.unwrap_or(DEFAULT_SCALE);
    if precision == 0 || precision > u64::from(MAX_DECIMAL_PRECISION) || scale > precision {
        return Err(Error::invalid(format!("orc decimal({precision}, {scale})")));
    }
    // Both are at most 38.
    Ok(Shape::Decimal { precision: precision as u8, scale: scale as u8 })
}

impl Shape {
    pub(super) fn data_type(&self) -> DataType {
        match self {
            Shape::Boolean => DataType::Boolean,
            Shape::Byte => DataType::Int32,
            Shape::Int(t) | Shape::Long(t) => t.clone(),
            Shape::Float => DataType::Float32,
            Shape::Double => DataType::Float64,
            Shape::Text => DataType::Utf8View,
            Shape::Binary => DataType::Binary,
            // The plan has checked that it fits.
            Shape::Fixed(length) => DataType::FixedSizeBinary(i32::try_from(*length).unwrap_or(i32::MAX)),
            Shape::Decimal { precision, scale } => DataType::Decimal128(*precision, scale.cast_signed()),
            Shape::Timestamp { unit, is_instant } => {
                DataType::Timestamp(*unit, is_instant.then(|| "UTC".into()))
            }
            Shape::Struct { fields, .. } => DataType::Struct(fields.clone()),
            Shape::List { field, .. } => DataType::List(Arc::clone(field)),
            Shape::Map { field, .. } => DataType::Map(Arc::clone(field), false),
        }
    }

    /// Adds the columns that are needed for it, without its own.
    fn add_columns(&self, into: &mut HashSet<u64>) {
        match self {
            Shape::Struct { children, .. } => children.iter().for_each(|c| c.add_columns(into)),
            Shape::List { element, .. } => element.add_columns(into),
            Shape::Map { key, value, .. } => {
                key.add_columns(into);
                value.add_columns(into);
            }
            _ => {}
        }
    }
}

impl Planned {
    /// Adds the numbers of all columns whose streams are needed.
    pub(super) fn add_columns(&self, into: &mut HashSet<u64>) {
        into.insert(self.column as u64);
        self.shape.add_columns(into);
    }
}
