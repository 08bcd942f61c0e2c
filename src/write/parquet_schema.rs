//! The Parquet schema of files, by the table's (spec, Appendix A, "Parquet").

use std::sync::Arc;

use arrow::datatypes::{Field, Schema as ArrowSchema};
use parquet::basic::{EdgeInterpolationAlgorithm, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::schema::types::{ColumnPath, SchemaDescriptor, Type as ParquetType, TypePtr};

use crate::arrow::to_arrow_field;
use crate::error::{Error, Result, ResultExt};
use crate::spec::{FieldId, NestedField, PrimitiveType, Schema, Type};

/// Decimals of up to so many digits are int32.
const INT32_DIGITS: u32 = 9;
/// Decimals of up to so many digits are int64.
const INT64_DIGITS: u32 = 18;
/// The version of the variant encoding.
const VARIANT_VERSION: i8 = 1;

/// What the columns of a file are: the same in three vocabularies, without fields of type `unknown`,
/// which files leave out.
#[derive(Debug, Clone)]
pub(super) struct FileSchema {
    /// The columns.
    pub(super) fields: Vec<NestedField>,
    /// The types that batches have when they are encoded.
    pub(super) arrow: Arc<ArrowSchema>,
    /// The schema that the file has.
    pub(super) parquet: SchemaDescriptor,
    /// One for each column of the file, in its order.
    pub(super) leaves: Vec<LeafColumn>,
}

/// A column of a file.
#[derive(Debug, Clone)]
pub(super) struct LeafColumn {
    /// The field whose values it holds; `None` for the parts of a variant.
    pub(super) id: Option<FieldId>,
    /// The type of the values; `None` for the parts of a variant.
    pub(super) primitive: Option<PrimitiveType>,
    /// Whether it lies in a list or a map.
    pub(super) repeated: bool,
    /// Its place in the file's schema.
    pub(super) path: ColumnPath,
}

impl FileSchema {
    /// The schema of a file for the columns of `schema`.
    ///
    /// # Errors
    /// `Unsupported` for a type that can't be written, with the column's name.
    pub(super) fn new(schema: &Schema) -> Result<Self> {
        let fields: Vec<NestedField> = schema.fields().iter().filter_map(without_unknown).collect();
        if fields.is_empty() {
            return Err(Error::unsupported(
                "a Parquet file needs a column; a table without any that are not of type `unknown` \
                 can't be written to",
            ));
        }
        let arrow = fields.iter().map(to_arrow_field).collect::<Result<Vec<Field>>>()?;
        let columns = fields.iter().map(parquet_field).collect::<Result<Vec<TypePtr>>>()?;
        let root =
            ParquetType::group_type_builder("table").with_fields(columns).build().map_err(unwritable)?;
        let parquet = SchemaDescriptor::new(Arc::new(root));
        let mut leaves = Vec::new();
        for field in &fields {
            collect_leaves(field, false, &mut leaves);
        }
        if leaves.len() != parquet.num_columns() {
            return Err(Error::invalid("the Parquet schema has other columns than the table's"));
        }
        let leaves = leaves.into_iter().zip(parquet.columns());
        let leaves = leaves
            .map(|(leaf, column)| LeafColumn {
                id: leaf.id,
                primitive: leaf.primitive,
                repeated: leaf.repeated,
                path: column.path().clone(),
            })
            .collect();
        Ok(Self { fields, arrow: Arc::new(ArrowSchema::new(arrow)), parquet, leaves })
    }
}

struct Leaf {
    id: Option<FieldId>,
    primitive: Option<PrimitiveType>,
    repeated: bool,
}

fn collect_leaves(field: &NestedField, repeated: bool, leaves: &mut Vec<Leaf>) {
    match &field.field_type {
        Type::Primitive(p) => {
            leaves.push(Leaf { id: Some(field.id), primitive: Some(p.clone()), repeated });
        }
        Type::Variant => {
            for _ in 0..2 {
                leaves.push(Leaf { id: None, primitive: None, repeated });
            }
        }
        nested => {
            let repeated = repeated || matches!(nested, Type::List(_) | Type::Map(_));
            for child in nested.children() {
                collect_leaves(child, repeated, leaves);
            }
        }
    }
}

/// The field without fields of type `unknown` in it; `None` if it is one, or a struct of nothing
/// else.
///
/// In lists and maps they stay, and are refused where they are made a column of a file.
fn without_unknown(field: &NestedField) -> Option<NestedField> {
    let mut field = field.clone();
    match &mut field.field_type {
        Type::Primitive(PrimitiveType::Unknown) => return None,
        Type::Struct(s) => {
            s.fields = s.fields.iter().filter_map(without_unknown).collect();
        }
        Type::List(l) => {
            if let Some(element) = without_unknown(&l.element) {
                *l.element = element;
            }
        }
        Type::Map(m) => {
            if let Some(key) = without_unknown(&m.key) {
                *m.key = key;
            }
            if let Some(value) = without_unknown(&m.value) {
                *m.value = value;
            }
        }
        Type::Primitive(_) | Type::Variant => {}
    }
    Some(field)
}

fn parquet_field(field: &NestedField) -> Result<TypePtr> {
    let repetition = if field.required { Repetition::REQUIRED } else { Repetition::OPTIONAL };
    convert(field, &parquet_name(&field.name), repetition).context(|| format!("field `{}`", field.name))
}

fn convert(field: &NestedField, name: &str, repetition: Repetition) -> Result<TypePtr> {
    let group = |logical: Option<LogicalType>, fields: Vec<TypePtr>| {
        let builder = ParquetType::group_type_builder(name)
            .with_repetition(repetition)
            .with_id(Some(field.id.0))
            .with_logical_type(logical);
        builder.with_fields(fields).build().map(Arc::new).map_err(unwritable)
    };
    let repeated = |name: &str, fields: Vec<TypePtr>| {
        let builder = ParquetType::group_type_builder(name).with_repetition(Repetition::REPEATED);
        builder.with_fields(fields).build().map(Arc::new).map_err(unwritable)
    };
    let part = |name: &str| {
        let builder = ParquetType::primitive_type_builder(name, Physical::BYTE_ARRAY);
        builder.with_repetition(Repetition::REQUIRED).build().map(Arc::new).map_err(unwritable)
    };
    match &field.field_type {
        Type::Primitive(p) => primitive(p, name, repetition, field.id),
        Type::Variant => {
            group(Some(LogicalType::variant(Some(VARIANT_VERSION))), vec![part("metadata")?, part("value")?])
        }
        Type::Struct(s) if s.fields.is_empty() => {
            Err(Error::unsupported("Parquet can't hold a struct without a field that has values"))
        }
        Type::Struct(s) => group(None, s.fields.iter().map(parquet_field).collect::<Result<_>>()?),
        Type::List(l) => {
            let list = repeated("list", vec![named(&l.element, "element")?])?;
            group(Some(LogicalType::List), vec![list])
        }
        Type::Map(m) => {
            let pairs = repeated("key_value", vec![named(&m.key, "key")?, named(&m.value, "value")?])?;
            group(Some(LogicalType::Map), vec![pairs])
        }
    }
}

fn named(field: &NestedField, name: &str) -> Result<TypePtr> {
    let repetition = if field.required { Repetition::REQUIRED } else { Repetition::OPTIONAL };
    convert(field, name, repetition).context(|| format!("field `{name}`"))
}

fn primitive(p: &PrimitiveType, name: &str, repetition: Repetition, id: FieldId) -> Result<TypePtr> {
    use PrimitiveType as P;
    let too_large = || Error::unsupported(format!("Parquet can't hold values of type {p}"));
    let number = |n: u32| i32::try_from(n).map_err(|_| too_large());
    let mut length = None;
    let (physical, logical) = match p {
        P::Boolean => (Physical::BOOLEAN, None),
        P::Int => (Physical::INT32, None),
        P::Long => (Physical::INT64, None),
        P::Float => (Physical::FLOAT, None),
        P::Double => (Physical::DOUBLE, None),
        P::Date => (Physical::INT32, Some(LogicalType::Date)),
        P::Time => (Physical::INT64, Some(LogicalType::time(false, TimeUnit::MICROS))),
        P::Timestamp => (Physical::INT64, Some(LogicalType::timestamp(false, TimeUnit::MICROS))),
        P::Timestamptz => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::MICROS))),
        P::TimestampNs => (Physical::INT64, Some(LogicalType::timestamp(false, TimeUnit::NANOS))),
        P::TimestamptzNs => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::NANOS))),
        P::String => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        P::Binary => (Physical::BYTE_ARRAY, None),
        P::Uuid => {
            length = Some(16);
            (Physical::FIXED_LEN_BYTE_ARRAY, Some(LogicalType::Uuid))
        }
        P::Fixed(bytes) => {
            length = Some(i32::try_from(*bytes).map_err(|_| too_large())?);
            (Physical::FIXED_LEN_BYTE_ARRAY, None)
        }
        P::Decimal { precision, scale } => {
            let physical = match *precision {
                digits if digits <= INT32_DIGITS => Physical::INT32,
                digits if digits <= INT64_DIGITS => Physical::INT64,
                digits => {
                    length = Some(decimal_length(digits).ok_or_else(too_large)?);
                    Physical::FIXED_LEN_BYTE_ARRAY
                }
            };
            (physical, Some(LogicalType::decimal(number(*scale)?, number(*precision)?)))
        }
        P::Geometry { crs } => (Physical::BYTE_ARRAY, Some(LogicalType::geometry(crs.clone()))),
        P::Geography { crs, algorithm } => {
            let algorithm = algorithm.as_deref().map(edges).transpose()?;
            (Physical::BYTE_ARRAY, Some(LogicalType::geography(crs.clone(), algorithm)))
        }
        P::Unknown => {
            return Err(Error::unsupported(
                "lists and maps of values of type `unknown` can't be written; give them another type",
            ));
        }
    };
    let mut builder = ParquetType::primitive_type_builder(name, physical)
        .with_repetition(repetition)
        .with_id(Some(id.0))
        .with_logical_type(logical);
    if let Some(length) = length {
        builder = builder.with_length(length);
    }
    if let P::Decimal { precision, scale } = p {
        builder = builder.with_precision(number(*precision)?).with_scale(number(*scale)?);
    }
    builder.build().map(Arc::new).map_err(unwritable)
}

/// The fewest bytes that hold every number of so many digits.
fn decimal_length(digits: u32) -> Option<i32> {
    let largest = 10_u128.checked_pow(digits)?.checked_sub(1)?;
    // One bit more for the sign.
    let bits = u128::BITS - largest.leading_zeros() + 1;
    i32::try_from(bits.div_ceil(8)).ok().filter(|bytes| *bytes <= 16)
}

fn edges(algorithm: &str) -> Result<EdgeInterpolationAlgorithm> {
    Ok(match algorithm.to_ascii_lowercase().as_str() {
        "spherical" => EdgeInterpolationAlgorithm::SPHERICAL,
        "vincenty" => EdgeInterpolationAlgorithm::VINCENTY,
        "thomas" => EdgeInterpolationAlgorithm::THOMAS,
        "andoyer" => EdgeInterpolationAlgorithm::ANDOYER,
        "karney" => EdgeInterpolationAlgorithm::KARNEY,
        other => {
            return Err(Error::unsupported(format!("Parquet has no edge interpolation `{other}`")));
        }
    })
}

/// The name that a field has in files. Readers go by ids; the name is made as Java makes it, so that
/// it is a name in Avro too.
fn parquet_name(name: &str) -> String {
    let mut result = String::with_capacity(name.len());
    for (i, c) in name.chars().enumerate() {
        match c {
            '_' => result.push(c),
            '0'..='9' if i > 0 => result.push(c),
            '0'..='9' => result.extend(['_', c]),
            // Java looks at UTF-16 code units, and half a character is no letter.
            c if c.is_alphabetic() && c.len_utf16() == 1 => result.push(c),
            other => {
                for unit in other.encode_utf16(&mut [0; 2]) {
                    result.push_str(&format!("_x{unit:X}"));
                }
            }
        }
    }
    if result.is_empty() { "_".to_owned() } else { result }
}

fn unwritable(error: parquet::errors::ParquetError) -> Error {
    Error::unsupported("Parquet can't hold it").with_source(error)
}
