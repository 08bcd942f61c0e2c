//! Partition tuples in manifests: field 102 of `data_file` (spec, "Manifests"; Appendix A,
//! "Avro", for how values are stored).

use std::collections::HashSet;

use uuid::Uuid;

use super::avro::{AvroSchema, Cursor, Encoder, Kind, Logical, NodeId, Slot, Want};
use super::partition::PartitionValues;
use super::types::{PrimitiveType, StructType, Type};
use super::value::Value;
use super::value_binary::{decimal_from_bytes, fits_precision};
use crate::error::{Error, Result, ResultExt};

const MICROS_PER_DAY: i64 = 86_400_000_000;

/// How the tuples of a manifest are read.
#[derive(Debug)]
pub(crate) struct PartitionPlan {
    steps: Vec<Step>,
    /// The type of the tuples that come out: what was asked for, with types that nobody knew
    /// taken from the file.
    pub(crate) partition_type: StructType,
}

#[derive(Debug)]
struct Step {
    slot: Slot,
    /// Where the value goes, and how it is read; else it is skipped.
    target: Option<(usize, Reading)>,
}

/// How a value is stored, and what it becomes.
#[derive(Debug, Clone, PartialEq)]
enum Reading {
    Boolean,
    Int,
    Long,
    Float,
    Double,
    FloatToDouble,
    Decimal {
        fixed: Option<usize>,
        precision: u32,
        scale: u32,
    },
    Date,
    /// A date that became a timestamp: units a day, and whether these are nanoseconds.
    DateToTimestamp {
        nanos: bool,
    },
    Time,
    Timestamp,
    Timestamptz,
    TimestampNs,
    TimestamptzNs,
    String,
    Uuid,
    UuidText,
    Fixed(usize),
    FixedToBinary(usize),
    BinaryToFixed(u64),
    Binary,
    /// Stored as a type that it can't be read from; fine as long as all are null.
    Mismatch {
        stored: String,
        wanted: String,
    },
}

impl PartitionPlan {
    /// Finds the fields of `wanted` in the record that the file stores: by id, and by name where
    /// the ids of either do not meet.
    pub(crate) fn new(schema: &AvroSchema, record: NodeId, wanted: &StructType) -> Result<Self> {
        let stored = schema.fields(record).ok_or_else(|| Error::invalid("it is not a record"))?;
        let position_by_id = |id: i32| wanted.fields.iter().position(|f| f.id.0 == id);
        let stored_ids: HashSet<i32> = stored.iter().filter_map(|f| f.id).collect();
        let mut partition_type = wanted.clone();
        let mut steps = Vec::with_capacity(stored.len());
        let mut seen = vec![false; wanted.fields.len()];
        for field in stored {
            let index = field.id.and_then(position_by_id).or_else(|| {
                wanted.fields.iter().position(|f| {
                    !stored_ids.contains(&f.id.0) && (f.name == field.name || field.aliases.contains(&f.name))
                })
            });
            let step = Slot::new(schema, field.node, Want::Anything).and_then(|slot| {
                let Some((index, target)) = index.and_then(|i| Some((i, partition_type.fields.get_mut(i)?)))
                else {
                    return Ok(Step { slot, target: None });
                };
                if let Some(seen) = seen.get_mut(index)
                    && std::mem::replace(seen, true)
                {
                    return Err(Error::invalid("it occurs twice"));
                }
                let (native, reading) = native(schema, slot.node())?;
                let reading = match target.field_type.as_primitive() {
                    None | Some(PrimitiveType::Unknown) => {
                        target.field_type = native.into();
                        reading
                    }
                    Some(wanted) => reading.becoming(wanted, schema.logical(slot.node())),
                };
                Ok(Step { slot, target: Some((index, reading)) })
            });
            steps.push(step.context(|| format!("partition field `{}`", field.name))?);
        }
        Ok(Self { steps, partition_type })
    }

    /// Tuples of nulls, for files that store none.
    pub(crate) fn of_nulls(wanted: &StructType) -> Self {
        Self { steps: Vec::new(), partition_type: wanted.clone() }
    }

    /// Reads a tuple.
    pub(crate) fn read(&self, schema: &AvroSchema, cursor: &mut Cursor<'_>) -> Result<PartitionValues> {
        let mut values = vec![None; self.partition_type.fields.len()];
        for step in &self.steps {
            if !step.slot.is_present(cursor)? {
                continue;
            }
            match &step.target {
                None => schema.skip(step.slot.node(), cursor)?,
                Some((index, reading)) => {
                    let name = || {
                        let field = self.partition_type.fields.get(*index);
                        format!("partition field `{}`", field.map_or("", |f| &f.name))
                    };
                    let value = reading.read(cursor).context(name)?;
                    if let Some(place) = values.get_mut(*index) {
                        *place = Some(value);
                    }
                }
            }
        }
        Ok(values)
    }
}

/// The type of a stored value by its Avro type alone.
fn native(schema: &AvroSchema, node: NodeId) -> Result<(PrimitiveType, Reading)> {
    use PrimitiveType as P;
    use Reading as R;
    Ok(match (schema.kind(node), schema.logical(node)) {
        (Kind::Null, _) => (P::Unknown, R::Mismatch { stored: "null".into(), wanted: "a value".into() }),
        (Kind::Boolean, _) => (P::Boolean, R::Boolean),
        (Kind::Int, Logical::Date) => (P::Date, R::Date),
        (Kind::Int, _) => (P::Int, R::Int),
        (Kind::Long, Logical::TimeMicros) => (P::Time, R::Time),
        (Kind::Long, Logical::TimestampMicros { utc: false }) => (P::Timestamp, R::Timestamp),
        (Kind::Long, Logical::TimestampMicros { utc: true }) => (P::Timestamptz, R::Timestamptz),
        (Kind::Long, Logical::TimestampNanos { utc: false }) => (P::TimestampNs, R::TimestampNs),
        (Kind::Long, Logical::TimestampNanos { utc: true }) => (P::TimestamptzNs, R::TimestamptzNs),
        (Kind::Long, _) => (P::Long, R::Long),
        (Kind::Float, _) => (P::Float, R::Float),
        (Kind::Double, _) => (P::Double, R::Double),
        (Kind::String, Logical::Uuid) => (P::Uuid, R::UuidText),
        (Kind::String, _) => (P::String, R::String),
        (Kind::Fixed(16), Logical::Uuid) => (P::Uuid, R::Uuid),
        (Kind::Fixed(size), Logical::Decimal { precision, scale }) => (
            P::Decimal { precision: *precision, scale: *scale },
            R::Decimal { fixed: Some(*size), precision: *precision, scale: *scale },
        ),
        (Kind::Bytes, Logical::Decimal { precision, scale }) => (
            P::Decimal { precision: *precision, scale: *scale },
            R::Decimal { fixed: None, precision: *precision, scale: *scale },
        ),
        (Kind::Fixed(size), _) => (P::Fixed(*size as u64), R::Fixed(*size)),
        (Kind::Bytes, _) => (P::Binary, R::Binary),
        (Kind::Enum | Kind::Array(_) | Kind::Map(_) | Kind::Union(_) | Kind::Record(_), _) => {
            return Err(Error::invalid("a partition value must have a primitive avro type"));
        }
    })
}

impl Reading {
    /// How to read a value of type `wanted` from one stored like this: writers differ in logical
    /// types, and types may have been promoted since.
    fn becoming(self, wanted: &PrimitiveType, logical: &Logical) -> Reading {
        use PrimitiveType as P;
        use Reading as R;
        let untyped = *logical == Logical::None;
        match (wanted, self) {
            (P::Boolean, R::Boolean) => R::Boolean,
            // Int and long are encoded alike; a day may be stored as either date or int.
            (P::Int, R::Int | R::Long | R::Date) => R::Int,
            (P::Long, R::Int | R::Long) => R::Long,
            (P::Date, R::Int | R::Date) => R::Date,
            (P::Float, R::Float) => R::Float,
            (P::Double, R::Double) => R::Double,
            (P::Double, R::Float) => R::FloatToDouble,
            (P::Decimal { precision, scale }, R::Decimal { fixed, scale: stored, .. })
                if *scale == stored =>
            {
                R::Decimal { fixed, precision: *precision, scale: *scale }
            }
            (P::Decimal { precision, scale }, R::Fixed(size)) if untyped => {
                R::Decimal { fixed: Some(size), precision: *precision, scale: *scale }
            }
            (P::Decimal { precision, scale }, R::Binary) if untyped => {
                R::Decimal { fixed: None, precision: *precision, scale: *scale }
            }
            (P::Time, R::Time) => R::Time,
            (P::Time, R::Long) if untyped => R::Time,
            // `adjust-to-utc` is Iceberg's own and some writers leave it out.
            (P::Timestamp, R::Timestamp | R::Timestamptz) => R::Timestamp,
            (P::Timestamptz, R::Timestamp | R::Timestamptz) => R::Timestamptz,
            (P::TimestampNs, R::TimestampNs | R::TimestamptzNs) => R::TimestampNs,
            (P::TimestamptzNs, R::TimestampNs | R::TimestamptzNs) => R::TimestamptzNs,
            (P::Timestamp, R::Long) if untyped => R::Timestamp,
            (P::Timestamptz, R::Long) if untyped => R::Timestamptz,
            (P::TimestampNs, R::Long) if untyped => R::TimestampNs,
            (P::TimestamptzNs, R::Long) if untyped => R::TimestamptzNs,
            (P::Timestamp, R::Date) => R::DateToTimestamp { nanos: false },
            (P::TimestampNs, R::Date) => R::DateToTimestamp { nanos: true },
            (P::String, R::String) => R::String,
            (P::Uuid, R::Uuid | R::Fixed(16)) => R::Uuid,
            (P::Uuid, R::UuidText | R::String) => R::UuidText,
            (P::Fixed(length), R::Fixed(size)) if *length == size as u64 => R::Fixed(size),
            (P::Fixed(length), R::Binary) => R::BinaryToFixed(*length),
            (P::Binary, R::Binary) => R::Binary,
            (P::Binary, R::Fixed(size)) => R::FixedToBinary(size),
            (wanted, stored) => R::Mismatch { stored: format!("{stored:?}"), wanted: wanted.to_string() },
        }
    }

    fn read(&self, cursor: &mut Cursor<'_>) -> Result<Value> {
        Ok(match self {
            Reading::Boolean => Value::Boolean(cursor.boolean()?),
            Reading::Int => Value::Int(cursor.int()?),
            Reading::Long => Value::Long(cursor.long()?),
            Reading::Float => Value::Float(cursor.float()?),
            Reading::Double => Value::Double(cursor.double()?),
            Reading::FloatToDouble => Value::Double(cursor.float()?.into()),
            Reading::Decimal { fixed, precision, scale } => {
                let bytes = match fixed {
                    Some(size) => cursor.take(*size)?,
                    None => cursor.bytes()?,
                };
                let unscaled = decimal_from_bytes(bytes)
                    .filter(|unscaled| fits_precision(*unscaled, *precision))
                    .ok_or_else(|| Error::invalid(format!("a decimal has more than {precision} digits")))?;
                Value::Decimal(unscaled, *scale)
            }
            Reading::Date => Value::Date(cursor.int()?),
            Reading::DateToTimestamp { nanos } => {
                let micros = i64::from(cursor.int()?) * MICROS_PER_DAY;
                if *nanos {
                    let nanos = micros.checked_mul(1000);
                    Value::TimestampNs(nanos.ok_or_else(|| Error::invalid("a date is out of range"))?)
                } else {
                    Value::Timestamp(micros)
                }
            }
            Reading::Time => Value::Time(cursor.long()?),
            Reading::Timestamp => Value::Timestamp(cursor.long()?),
            Reading::Timestamptz => Value::Timestamptz(cursor.long()?),
            Reading::TimestampNs => Value::TimestampNs(cursor.long()?),
            Reading::TimestamptzNs => Value::TimestamptzNs(cursor.long()?),
            Reading::String => Value::String(cursor.string()?.to_owned()),
            Reading::Uuid => Value::Uuid(Uuid::from_bytes(cursor.array()?)),
            Reading::UuidText => Value::Uuid(
                Uuid::parse_str(cursor.string()?)
                    .map_err(|e| Error::invalid("a uuid is not one").with_source(e))?,
            ),
            Reading::Fixed(size) => Value::Fixed(cursor.take(*size)?.to_vec()),
            Reading::FixedToBinary(size) => Value::Binary(cursor.take(*size)?.to_vec()),
            Reading::BinaryToFixed(length) => {
                let bytes = cursor.bytes()?;
                if bytes.len() as u64 != *length {
                    return Err(Error::invalid(format!("a fixed({length}) has {} bytes", bytes.len())));
                }
                Value::Fixed(bytes.to_vec())
            }
            Reading::Binary => Value::Binary(cursor.bytes()?.to_vec()),
            Reading::Mismatch { stored, wanted } => {
                return Err(Error::invalid(format!("stored as {stored}, which can't be read as {wanted}")));
            }
        })
    }
}

/// Writes a tuple of that type, each value as an optional field.
///
/// # Errors
/// `DataInvalid` where the tuple is not of that type.
pub(crate) fn write_partition(e: &mut Encoder, tuple: &PartitionValues, t: &StructType) -> Result<()> {
    if tuple.len() != t.fields.len() {
        return Err(Error::invalid(format!(
            "a partition tuple has {} values, its spec {} fields",
            tuple.len(),
            t.fields.len()
        )));
    }
    for (value, field) in tuple.iter().zip(&t.fields) {
        let place = || format!("partition field `{}`", field.name);
        let Some(value) = value else {
            // The type `unknown` is stored as null, which takes no bytes.
            if field.field_type.as_primitive() != Some(&PrimitiveType::Unknown) {
                e.long(0);
            }
            continue;
        };
        if !value.is_of(&field.field_type) {
            return Err(
                Error::invalid(format!("{value:?} is not of type {}", field.field_type)).context(place())
            );
        }
        e.long(1);
        write_value(e, value, &field.field_type).context(place)?;
    }
    Ok(())
}

fn write_value(e: &mut Encoder, value: &Value, t: &Type) -> Result<()> {
    match value {
        Value::Boolean(v) => e.boolean(*v),
        Value::Int(v) | Value::Date(v) => e.long((*v).into()),
        Value::Long(v)
        | Value::Time(v)
        | Value::Timestamp(v)
        | Value::Timestamptz(v)
        | Value::TimestampNs(v)
        | Value::TimestamptzNs(v) => e.long(*v),
        Value::Float(v) => e.raw(&v.to_le_bytes()),
        Value::Double(v) => e.raw(&v.to_le_bytes()),
        Value::Decimal(unscaled, _) => {
            let precision = match t.as_primitive() {
                Some(PrimitiveType::Decimal { precision, .. }) => *precision,
                _ => return Err(Error::invalid(format!("a decimal is not of type {t}"))),
            };
            let bytes = unscaled.to_be_bytes();
            let start = bytes.len().saturating_sub(super::avro::decimal_length(precision));
            match bytes.get(start..) {
                Some(bytes) if fits_precision(*unscaled, precision) => e.raw(bytes),
                _ => return Err(Error::invalid(format!("{unscaled} has more than {precision} digits"))),
            }
        }
        Value::String(v) => e.string(v),
        Value::Uuid(v) => e.raw(v.as_bytes()),
        Value::Fixed(v) => e.raw(v),
        Value::Binary(v) => e.bytes(v),
        Value::Struct(_) | Value::List(_) | Value::Map(_) => {
            return Err(Error::invalid("a partition value is a struct, a list or a map"));
        }
    }
    Ok(())
}
