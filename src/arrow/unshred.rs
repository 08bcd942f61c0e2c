//! Shredded variants → whole ones.
//!
//! A writer may take parts out of the values of a variant column and store them as typed columns
//! (the Parquet project's VariantShredding.md): `typed_value` beside `value`, at each level.
//! What both hold together is written as one value again.

use ::arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Decimal128Array, FixedSizeBinaryArray, ListArray,
    PrimitiveArray, StructArray,
};
use ::arrow::buffer::NullBuffer;
use ::arrow::compute::cast;
use ::arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, TimestampNanosecondType,
};

use crate::error::{Error, Result, ResultExt};
use crate::spec::variant::{
    ObjectField, VariantMetadata, VariantValue, exact_value, push_array, push_object, push_scalar,
};

use super::variant::{Bytes, TYPED_VALUE, VALUE, to_binary};

/// The whole values, one a row; of rows that `nulls` hides, nothing.
///
/// # Errors
/// `DataInvalid` where the parts contradict each other or are malformed; `Unsupported` for typed
/// columns that are not in the specification.
pub(super) fn unshred(
    metadata: &BinaryArray,
    value: Option<&ArrayRef>,
    typed: Option<&ArrayRef>,
    nulls: Option<&NullBuffer>,
) -> Result<ArrayRef> {
    let mut column = Shredded::new(value, typed, None)?;
    let mut out = Bytes::with_capacity(metadata.len());
    let mut names = Names { bytes: &[], generation: 0, metadata: None };
    for row in 0..metadata.len() {
        out.write(|out| {
            if nulls.is_some_and(|n| n.is_null(row)) {
                return Ok(());
            }
            names.set(metadata.value(row))?;
            column.push_required(out, row, &names)
        })?;
    }
    out.finish()
}

/// A row's dictionary.
struct Names<'a> {
    bytes: &'a [u8],
    /// Another one for another dictionary than the row before had.
    generation: usize,
    metadata: Option<VariantMetadata<'a>>,
}

impl<'a> Names<'a> {
    fn set(&mut self, bytes: &'a [u8]) -> Result<()> {
        if self.metadata.is_none() || self.bytes != bytes {
            self.metadata = Some(VariantMetadata::parse(bytes)?);
            self.bytes = bytes;
            self.generation += 1;
        }
        Ok(())
    }

    fn id(&self, name: &str) -> Result<usize> {
        let id = self.metadata.as_ref().and_then(|m| m.id(name));
        id.ok_or_else(|| Error::invalid(format!("a variant's metadata lacks the field name `{name}`")))
    }

    fn name(&self, id: usize) -> Result<&'a str> {
        match &self.metadata {
            Some(metadata) => metadata.name(id),
            None => Err(Error::invalid("a variant without metadata")),
        }
    }
}

/// One level: a pair of `value` and `typed_value`, of which either may be missing.
struct Shredded<'a> {
    value: Option<BinaryArray>,
    typed: Option<Typed<'a>>,
    /// Of the group around them; null says that the field is missing.
    nulls: Option<&'a NullBuffer>,
}

enum Typed<'a> {
    Scalar(Scalars),
    List {
        list: &'a ListArray,
        element: Box<Shredded<'a>>,
    },
    Object {
        object: &'a StructArray,
        fields: Vec<ShreddedField<'a>>,
        /// Which dictionary the fields' numbers are of.
        generation: usize,
    },
}

struct ShreddedField<'a> {
    name: &'a str,
    /// The name's number in the dictionary, once it was looked up.
    id: Option<usize>,
    column: Shredded<'a>,
}

impl<'a> Shredded<'a> {
    fn new(
        value: Option<&'a ArrayRef>,
        typed: Option<&'a ArrayRef>,
        nulls: Option<&'a NullBuffer>,
    ) -> Result<Self> {
        let value = value.map(to_binary).transpose()?;
        let value = value.and_then(|v| v.as_binary_opt::<i32>().cloned());
        Ok(Self { value, typed: typed.map(Typed::new).transpose()?, nulls })
    }

    /// The pair in a group.
    fn of_group(array: &'a ArrayRef) -> Result<Self> {
        let group = array.as_struct_opt().ok_or_else(|| {
            let found = array.data_type();
            Error::invalid(format!("shredded variant: {found} where `value` and `typed_value` should be"))
        })?;
        Self::new(group.column_by_name(VALUE), group.column_by_name(TYPED_VALUE), group.nulls())
    }

    /// Appends the value, or null where it is missing although it can't be: readers are asked to.
    fn push_required(&mut self, out: &mut Vec<u8>, row: usize, names: &Names<'_>) -> Result<()> {
        match self.push(out, row, names)? {
            true => Ok(()),
            false => push_scalar(out, &VariantValue::Null),
        }
    }

    /// Appends the value; false where it is missing.
    fn push(&mut self, out: &mut Vec<u8>, row: usize, names: &Names<'_>) -> Result<bool> {
        if self.nulls.is_some_and(|n| n.is_null(row)) {
            return Ok(false);
        }
        let rest = self.value.as_ref().filter(|v| v.is_valid(row)).map(|v| v.value(row));
        let typed = self.typed.as_mut().filter(|t| t.is_valid(row));
        match (typed, rest) {
            (None, None) => return Ok(false),
            (None, Some(rest)) => out.extend_from_slice(exact_value(rest)?),
            (Some(Typed::Object { object: _, fields, generation }), rest) => {
                if *generation != names.generation {
                    fields.iter_mut().for_each(|f| f.id = None);
                    *generation = names.generation;
                }
                push_merged(out, row, names, fields, rest)?;
            }
            (Some(_), Some(_)) => {
                return Err(Error::invalid("shredded variant: both `value` and `typed_value` are there"));
            }
            (Some(Typed::Scalar(scalars)), None) => scalars.push(out, row)?,
            (Some(Typed::List { list, element }), None) => {
                let (mut starts, mut elements) = (Vec::new(), Vec::new());
                let ends = list.value_offsets().get(row..=row + 1).unwrap_or_default();
                let bound = |at: usize| ends.get(at).map_or(0, |e| usize::try_from(*e).unwrap_or(0));
                for index in bound(0)..bound(1) {
                    starts.push(elements.len());
                    element.push_required(&mut elements, index, names)?;
                }
                push_array(out, &starts, &elements)?;
            }
        }
        Ok(true)
    }
}

/// Appends an object of the shredded fields and those in `rest`.
fn push_merged(
    out: &mut Vec<u8>,
    row: usize,
    names: &Names<'_>,
    shredded: &mut [ShreddedField<'_>],
    rest: Option<&[u8]>,
) -> Result<()> {
    let (mut fields, mut values) = (Vec::with_capacity(shredded.len()), Vec::new());
    for ShreddedField { name, id, column } in shredded {
        let start = values.len();
        if !column.push(&mut values, row, names).context(|| format!("field `{name}`"))? {
            continue;
        }
        let id = match id {
            Some(id) => *id,
            None => *id.insert(names.id(name)?),
        };
        fields.push(ObjectField { name, id, start });
    }
    if let Some(rest) = rest {
        let VariantValue::Object(object) = VariantValue::read(rest)? else {
            return Err(Error::invalid("shredded variant: `typed_value` is an object, but `value` is not"));
        };
        for index in 0..object.values().len() {
            let id = object.name_id(index)?;
            fields.push(ObjectField { name: names.name(id)?, id, start: values.len() });
            // Elements there are as many as names.
            let value = object.values().get(index)?.unwrap_or_default();
            values.extend_from_slice(exact_value(value)?);
        }
    }
    push_object(out, &mut fields, &values)
}

impl<'a> Typed<'a> {
    fn new(array: &'a ArrayRef) -> Result<Self> {
        let unknown =
            || Error::unsupported(format!("shredded variant: `typed_value` of type {}", array.data_type()));
        Ok(match array.data_type() {
            DataType::Struct(_) => {
                let object = array.as_struct_opt().ok_or_else(unknown)?;
                let columns = object.fields().iter().zip(object.columns());
                let fields = columns.map(|(field, column)| {
                    let name = field.name().as_str();
                    let column = Shredded::of_group(column).context(|| format!("field `{name}`"))?;
                    Ok(ShreddedField { name, id: None, column })
                });
                Self::Object { object, fields: fields.collect::<Result<_>>()?, generation: 0 }
            }
            DataType::List(_) => {
                let list = array.as_list_opt::<i32>().ok_or_else(unknown)?;
                Self::List { list, element: Box::new(Shredded::of_group(list.values())?) }
            }
            _ => Self::Scalar(Scalars::new(array)?.ok_or_else(unknown)?),
        })
    }

    fn is_valid(&self, row: usize) -> bool {
        match self {
            Self::Scalar(scalars) => scalars.array().is_valid(row),
            Self::List { list, .. } => list.is_valid(row),
            Self::Object { object, .. } => object.is_valid(row),
        }
    }
}

/// A typed column of scalars.
enum Scalars {
    Boolean(BooleanArray),
    Int8(PrimitiveArray<Int8Type>),
    Int16(PrimitiveArray<Int16Type>),
    Int32(PrimitiveArray<Int32Type>),
    Int64(PrimitiveArray<Int64Type>),
    Float(PrimitiveArray<Float32Type>),
    Double(PrimitiveArray<Float64Type>),
    Decimal(Decimal128Array, u8),
    Date(PrimitiveArray<Date32Type>),
    Time(PrimitiveArray<Time64MicrosecondType>),
    /// And whether it is a point in time.
    Micros(PrimitiveArray<TimestampMicrosecondType>, bool),
    Nanos(PrimitiveArray<TimestampNanosecondType>, bool),
    Text(BinaryArray),
    Binary(BinaryArray),
    Uuid(FixedSizeBinaryArray),
}

impl Scalars {
    /// `None` for types that shredded variants don't have.
    fn new(array: &ArrayRef) -> Result<Option<Self>> {
        fn primitive<T: ArrowPrimitiveType>(array: &ArrayRef) -> Option<PrimitiveArray<T>> {
            array.as_primitive_opt::<T>().cloned()
        }
        let binary = || Ok::<_, Error>(to_binary(array)?.as_binary_opt::<i32>().cloned());
        Ok(match array.data_type() {
            DataType::Boolean => array.as_boolean_opt().cloned().map(Self::Boolean),
            DataType::Int8 => primitive(array).map(Self::Int8),
            DataType::Int16 => primitive(array).map(Self::Int16),
            DataType::Int32 => primitive(array).map(Self::Int32),
            DataType::Int64 => primitive(array).map(Self::Int64),
            DataType::Float32 => primitive(array).map(Self::Float),
            DataType::Float64 => primitive(array).map(Self::Double),
            DataType::Decimal32(precision, scale)
            | DataType::Decimal64(precision, scale)
            | DataType::Decimal128(precision, scale) => {
                let Some(known) = u8::try_from(*scale).ok().filter(|s| *s <= 38) else { return Ok(None) };
                let wide = cast(array, &DataType::Decimal128(*precision, *scale))
                    .map_err(|e| Error::invalid("shredded variant").with_source(e))?;
                primitive::<Decimal128Type>(&wide).map(|a| Self::Decimal(a, known))
            }
            DataType::Date32 => primitive(array).map(Self::Date),
            DataType::Time64(TimeUnit::Microsecond) => primitive(array).map(Self::Time),
            DataType::Timestamp(TimeUnit::Microsecond, zone) => {
                primitive(array).map(|a| Self::Micros(a, zone.is_some()))
            }
            DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
                primitive(array).map(|a| Self::Nanos(a, zone.is_some()))
            }
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => binary()?.map(Self::Text),
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => binary()?.map(Self::Binary),
            DataType::FixedSizeBinary(16) => array.as_fixed_size_binary_opt().cloned().map(Self::Uuid),
            _ => None,
        })
    }

    fn array(&self) -> &dyn Array {
        match self {
            Self::Boolean(a) => a,
            Self::Int8(a) => a,
            Self::Int16(a) => a,
            Self::Int32(a) => a,
            Self::Int64(a) => a,
            Self::Float(a) => a,
            Self::Double(a) => a,
            Self::Decimal(a, _) => a,
            Self::Date(a) => a,
            Self::Time(a) => a,
            Self::Micros(a, _) => a,
            Self::Nanos(a, _) => a,
            Self::Text(a) | Self::Binary(a) => a,
            Self::Uuid(a) => a,
        }
    }

    /// Appends the value of a row, which is not null.
    fn push(&self, out: &mut Vec<u8>, row: usize) -> Result<()> {
        use VariantValue as V;
        let value = match self {
            Self::Boolean(a) => V::Boolean(a.value(row)),
            Self::Int8(a) => V::Int8(a.value(row)),
            Self::Int16(a) => V::Int16(a.value(row)),
            Self::Int32(a) => V::Int32(a.value(row)),
            Self::Int64(a) => V::Int64(a.value(row)),
            Self::Float(a) => V::Float(a.value(row)),
            Self::Double(a) => V::Double(a.value(row)),
            Self::Decimal(a, scale) => V::Decimal(a.value(row), *scale),
            Self::Date(a) => V::Date(a.value(row)),
            Self::Time(a) => V::Time(a.value(row)),
            Self::Micros(a, true) => V::Timestamptz(a.value(row)),
            Self::Micros(a, false) => V::Timestamp(a.value(row)),
            Self::Nanos(a, true) => V::TimestamptzNs(a.value(row)),
            Self::Nanos(a, false) => V::TimestampNs(a.value(row)),
            Self::Text(a) => {
                let text = std::str::from_utf8(a.value(row));
                V::String(text.map_err(|e| Error::invalid("shredded variant").with_source(e))?)
            }
            Self::Binary(a) => V::Binary(a.value(row)),
            Self::Uuid(a) => match a.value(row).try_into() {
                Ok(bytes) => V::Uuid(bytes),
                Err(_) => return Err(Error::invalid("shredded variant: a UUID of another length")),
            },
        };
        push_scalar(out, &value)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::variant::{VariantColumn, read_variants, variant_type};
    use super::*;
    use crate::spec::variant::push_json;
    use ::arrow::array::{BinaryViewArray, Int64Array, StringArray, TimestampMicrosecondArray};
    use ::arrow::datatypes::{Field, Fields};
    use parquet_variant::{Variant, VariantBuilder};
    use parquet_variant_compute::{VariantArray, json_to_variant, shred_variant, variant_to_json};
    use proptest::prelude::*;
    use serde_json::{Value as Json, json};

    /// The rows as JSON; null for SQL's NULL, and `null` for the variant null.
    fn rows(array: &dyn Array) -> Result<Vec<Option<String>>> {
        let column = VariantColumn::new(array)?;
        let row = |row| {
            let Some((metadata, value)) = column.row(row)? else { return Ok(None) };
            let mut text = String::new();
            push_json(&mut text, &metadata, value)?;
            // Nothing else lies in the bytes.
            assert_eq!(exact_value(value)?.len(), value.len());
            Ok(Some(text))
        };
        (0..column.len()).map(row).collect()
    }

    fn variants(rows: &[Option<Json>]) -> VariantArray {
        let text = StringArray::from_iter(rows.iter().map(|r| r.as_ref().map(Json::to_string)));
        json_to_variant(&(Arc::new(text) as ArrayRef)).unwrap()
    }

    fn shredded(array: &VariantArray, as_type: &DataType) -> StructArray {
        shred_variant(array, as_type).unwrap().into_inner()
    }

    fn fields(fields: Vec<(&str, DataType)>) -> DataType {
        DataType::Struct(fields.into_iter().map(|(n, t)| Field::new(n, t, true)).collect::<Fields>())
    }

    fn list(element: DataType) -> DataType {
        DataType::new_list(element, true)
    }

    fn type_of(kind: usize) -> DataType {
        let object = fields(vec![("a", DataType::Int64), ("c", list(DataType::Int64))]);
        match kind {
            0 => DataType::Int64,
            1 => DataType::Utf8,
            2 => list(DataType::Utf8),
            3 => object,
            4 => fields(vec![("b", object.clone()), ("d", DataType::Utf8)]),
            _ => list(fields(vec![("a", object), ("b", list(list(DataType::Utf8)))])),
        }
    }

    fn any_json() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<i32>().prop_map(Json::from),
            prop::sample::select(vec![
                "",
                "x",
                "long enough not to be a short string, which has at most 63 bytes"
            ])
            .prop_map(Json::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            let name = prop::sample::select(vec!["a", "b", "c", "d", "e"]);
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
                prop::collection::hash_map(name, inner, 0..4)
                    .prop_map(|m| m.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_was_shredded_is_whole_again(
            values in prop::collection::vec(prop::option::of(any_json()), 1..6),
            kind in 0_usize..6,
        ) {
            let whole = variants(&values);
            let parts = shredded(&whole, &type_of(kind));
            let read = read_variants(&parts).unwrap();
            prop_assert_eq!(read.data_type(), &variant_type());
            let parsed = |array: &dyn Array| -> Vec<Option<Json>> {
                let rows = rows(array).unwrap().into_iter();
                rows.map(|r| r.map(|text| serde_json::from_str(&text).unwrap())).collect()
            };
            prop_assert_eq!(&parsed(whole.inner()), &values);
            prop_assert_eq!(&parsed(&parts), &values);
            prop_assert_eq!(&parsed(&read), &values);
            // And another implementation reads the same.
            prop_assert!(VariantArray::try_new(&read).is_ok());
            let theirs = variant_to_json(&read).unwrap();
            let theirs = theirs.iter().map(|t| t.map(|t| serde_json::from_str::<Json>(t).unwrap()));
            prop_assert!(theirs.eq(values));
        }
    }

    /// A shredded column by hand.
    fn parts(names: &[&str], value: Vec<Option<Variant<'_, '_>>>, typed: ArrayRef) -> StructArray {
        let mut builder = VariantBuilder::new().with_field_names(names.iter().copied());
        builder.append_value(());
        let (metadata, _) = builder.finish();
        let values: Vec<Option<Vec<u8>>> = value
            .into_iter()
            .map(|v| {
                v.map(|v| {
                    let mut builder = VariantBuilder::new().with_field_names(names.iter().copied());
                    builder.append_value(v);
                    builder.finish().1
                })
            })
            .collect();
        let metadata = BinaryViewArray::from_iter_values(std::iter::repeat_n(metadata, values.len()));
        group(vec![
            ("metadata", Arc::new(metadata)),
            ("value", Arc::new(BinaryViewArray::from_iter(values))),
            ("typed_value", typed),
        ])
    }

    fn group(columns: Vec<(&str, ArrayRef)>) -> StructArray {
        let fields: Fields =
            columns.iter().map(|(n, a)| Field::new(*n, a.data_type().clone(), true)).collect();
        StructArray::new(fields, columns.into_iter().map(|(_, a)| a).collect(), None)
    }

    fn texts(rows: &[&str]) -> Vec<Option<String>> {
        rows.iter().map(|r| Some((*r).to_owned())).collect()
    }

    #[test]
    fn every_typed_column_there_is() {
        let micros = |zone: Option<&str>| {
            Arc::new(TimestampMicrosecondArray::from(vec![1]).with_timezone_opt(zone)) as ArrayRef
        };
        let decimal = Decimal128Array::from(vec![150]).with_precision_and_scale(9, 2).unwrap();
        for (array, expected) in [
            (Arc::new(BooleanArray::from(vec![true])) as ArrayRef, "true"),
            (Arc::new(PrimitiveArray::<Int8Type>::from(vec![-1])), "-1"),
            (Arc::new(PrimitiveArray::<Int16Type>::from(vec![300])), "300"),
            (Arc::new(PrimitiveArray::<Int32Type>::from(vec![70_000])), "70000"),
            (Arc::new(Int64Array::from(vec![5_000_000_000])), "5000000000"),
            (Arc::new(PrimitiveArray::<Float32Type>::from(vec![0.5])), "0.5"),
            (Arc::new(PrimitiveArray::<Float64Type>::from(vec![0.1])), "0.1"),
            (Arc::new(decimal), "1.50"),
            (Arc::new(PrimitiveArray::<Date32Type>::from(vec![1])), "\"1970-01-02\""),
            (Arc::new(PrimitiveArray::<Time64MicrosecondType>::from(vec![1])), "\"00:00:00.000001\""),
            (micros(None), "\"1970-01-01T00:00:00.000001\""),
            (micros(Some("UTC")), "\"1970-01-01T00:00:00.000001+00:00\""),
            (
                Arc::new(PrimitiveArray::<TimestampNanosecondType>::from(vec![1])),
                "\"1970-01-01T00:00:00.000000001\"",
            ),
            (Arc::new(StringArray::from(vec!["x"])), "\"x\""),
            (Arc::new(BinaryArray::from(vec![&b"\xff"[..]])), "\"/w==\""),
            (
                Arc::new(FixedSizeBinaryArray::try_from_iter([[7_u8; 16]].into_iter()).unwrap()),
                "\"07070707-0707-0707-0707-070707070707\"",
            ),
        ] {
            assert_eq!(rows(&parts(&[], vec![None], array)).unwrap(), texts(&[expected]));
        }
        let unsigned = Arc::new(::arrow::array::UInt8Array::from(vec![1]));
        let error = rows(&parts(&[], vec![None], unsigned)).unwrap_err().to_string();
        assert!(error.contains("UInt8"), "{error}");
    }

    #[test]
    fn nulls_of_both_kinds_are_kept_apart() {
        let typed = Arc::new(Int64Array::from(vec![Some(1), None, None, None]));
        let all = parts(&[], vec![None, Some(Variant::Null), None, None], typed);
        let nulls = NullBuffer::from(vec![true, true, false, true]);
        let (fields, columns, _) = all.into_parts();
        let all = StructArray::new(fields, columns, Some(nulls));
        // What is missing although it must be there is the variant null.
        let expected = vec![Some("1".to_owned()), Some("null".to_owned()), None, Some("null".to_owned())];
        assert_eq!(rows(&all).unwrap(), expected);
        let read = read_variants(&all).unwrap();
        assert_eq!(rows(&read).unwrap(), expected);
        // The same where nothing is shredded.
        let value = BinaryViewArray::from_iter([Some(&[0x0c_u8, 5][..]), None]);
        let metadata = BinaryViewArray::from_iter_values([[1_u8, 0, 0]; 2]);
        let whole = group(vec![("metadata", Arc::new(metadata)), ("value", Arc::new(value))]);
        assert_eq!(rows(&whole).unwrap(), texts(&["5", "null"]));
    }

    #[test]
    fn parts_that_contradict_each_other() {
        let both = parts(&[], vec![Some(Variant::from(1_i8))], Arc::new(Int64Array::from(vec![1])));
        assert!(rows(&both).unwrap_err().to_string().contains("both"));
        let object = |name: &str| {
            let field = group(vec![("typed_value", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]);
            Arc::new(group(vec![(name, Arc::new(field))])) as ArrayRef
        };
        let scalar = parts(&["a"], vec![Some(Variant::from(1_i8))], object("a"));
        assert!(rows(&scalar).unwrap_err().to_string().contains("`value` is not"));
        let unnamed = parts(&["b"], vec![None], object("a"));
        assert!(rows(&unnamed).unwrap_err().to_string().contains("field name `a`"));
        let typed = json!({"a": 2});
        let twice = variants(&[Some(typed)]);
        let twice = group(vec![
            ("metadata", Arc::clone(twice.metadata_column())),
            ("value", Arc::clone(twice.value_column())),
            ("typed_value", object("a")),
        ]);
        assert!(rows(&twice).unwrap_err().to_string().contains("`a` twice"));
        let bare = Arc::new(group(vec![("a", Arc::new(Int64Array::from(vec![1])) as ArrayRef)])) as ArrayRef;
        assert!(rows(&parts(&["a"], vec![None], bare)).unwrap_err().to_string().contains("Int64"));
        let cut = group(vec![
            ("metadata", Arc::new(BinaryViewArray::from_iter_values([[1_u8, 0, 0]])) as ArrayRef),
            ("value", Arc::new(BinaryViewArray::from_iter_values([[0x0c_u8]]))),
            ("typed_value", Arc::new(Int64Array::from(vec![None]))),
        ]);
        assert!(rows(&cut).unwrap_err().to_string().contains("cut short"));
    }

    #[test]
    fn what_holds_no_variants() {
        let error = read_variants(&Int64Array::from(vec![1])).unwrap_err().to_string();
        assert!(error.contains("Int64") && error.contains("variant"), "{error}");
        let only = group(vec![("value", Arc::new(BinaryViewArray::from_iter_values([[0_u8]])) as ArrayRef)]);
        assert!(read_variants(&only).is_err());
    }
}
