//! Types as Arrow types and back.
//!
//! A field carries its id in the metadata key [`FIELD_ID_KEY`] at any depth, as Parquet readers
//! and writers expect. Strings and bytes of columns are views, those inside other types are not:
//! DataFusion coerces only columns to views.

use std::collections::HashMap;
use std::sync::Arc;

use ::arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema as ArrowSchema, TimeUnit};
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;
use serde_json::json;

use crate::error::{Error, Result, ResultExt};
use crate::spec::{
    FieldId, ListType, MAX_DECIMAL_PRECISION, MAX_NESTING, MapType, NestedField, PrimitiveType, Schema,
    SchemaId, StructType, Type,
};

use super::variant::{VARIANT_EXTENSION, is_variant, variant_type};

/// The metadata key of a field's id.
pub const FIELD_ID_KEY: &str = PARQUET_FIELD_ID_META_KEY;
/// The metadata key of a field's comment.
pub const DOC_KEY: &str = "doc";
/// The metadata key of the Iceberg type of a field whose Arrow type does not tell it: `geometry`
/// and `geography`, as the spec writes them.
pub const ICEBERG_TYPE_KEY: &str = "icefloe:type";
/// The Arrow extension type of geometries and geographies, which are WKB.
pub const WKB_EXTENSION: &str = "geoarrow.wkb";

const UTC: &str = "UTC";
/// Arrow's keys for the name of an extension type and what it says beyond that.
const EXTENSION_TYPE_NAME_KEY: &str = "ARROW:extension:name";
const EXTENSION_TYPE_METADATA_KEY: &str = "ARROW:extension:metadata";
/// Arrow's canonical extension type that tells a `uuid` from a `fixed[16]`.
const UUID_EXTENSION: &str = "arrow.uuid";
/// What geometries and geographies refer to if the schema does not say (spec, "Primitive Types").
const DEFAULT_CRS: &str = "OGC:CRS84";
/// How edges of geographies run if the schema does not say.
const DEFAULT_ALGORITHM: &str = "spherical";

/// The schema in Arrow's types.
///
/// A `variant` is a struct of the bytes `metadata` and `value`, with the extension type
/// [`VARIANT_EXTENSION`]; `geometry` and `geography` are WKB with [`WKB_EXTENSION`], whose
/// metadata says `crs` and `edges`, and [`ICEBERG_TYPE_KEY`].
///
/// # Errors
/// `Unsupported` for types that Arrow can't hold, such as a `fixed` of 2^31 bytes.
pub fn to_arrow_schema(schema: &Schema) -> Result<ArrowSchema> {
    let fields = schema.fields().iter().map(to_arrow_field).collect::<Result<Vec<_>>>()?;
    Ok(ArrowSchema::new(fields))
}

/// The schema as queries see it: nested fields say neither ids nor comments, as a list of a table would be
/// of another type then than one that is computed.
///
/// # Errors
/// As [`to_arrow_schema`].
pub(crate) fn to_query_schema(schema: &Schema) -> Result<ArrowSchema> {
    let fields = to_arrow_schema(schema)?;
    let fields =
        fields.fields().iter().map(|f| f.as_ref().clone().with_data_type(without_ids(f.data_type())));
    Ok(ArrowSchema::new(fields.collect::<Vec<_>>()))
}

fn without_ids(data_type: &DataType) -> DataType {
    let plain = |field: &FieldRef| {
        let mut metadata = field.metadata().clone();
        metadata.retain(|key, _| key != FIELD_ID_KEY && key != DOC_KEY);
        let field = field.as_ref().clone().with_data_type(without_ids(field.data_type()));
        Arc::new(field.with_metadata(metadata))
    };
    match data_type {
        DataType::List(field) => DataType::List(plain(field)),
        DataType::Map(field, sorted) => DataType::Map(plain(field), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(plain).collect()),
        other => other.clone(),
    }
}

/// The column as an Arrow field.
///
/// # Errors
/// As [`to_arrow_schema`].
pub(crate) fn to_arrow_field(field: &NestedField) -> Result<Field> {
    arrow_field(field, false).context(|| format!("field `{}`", field.name))
}

fn arrow_field(field: &NestedField, nested: bool) -> Result<Field> {
    let mut metadata = HashMap::from([(FIELD_ID_KEY.to_owned(), field.id.to_string())]);
    if let Some(doc) = &field.doc {
        metadata.insert(DOC_KEY.to_owned(), doc.clone());
    }
    let data_type = match &field.field_type {
        Type::Primitive(p) => {
            let mut say = |key: &str, value: String| metadata.insert(key.to_owned(), value);
            match p {
                PrimitiveType::Geometry { crs } => {
                    say(ICEBERG_TYPE_KEY, p.to_string());
                    say(EXTENSION_TYPE_NAME_KEY, WKB_EXTENSION.to_owned());
                    let crs = crs.as_deref().unwrap_or(DEFAULT_CRS);
                    say(EXTENSION_TYPE_METADATA_KEY, json!({ "crs": crs }).to_string());
                }
                PrimitiveType::Geography { crs, algorithm } => {
                    say(ICEBERG_TYPE_KEY, p.to_string());
                    say(EXTENSION_TYPE_NAME_KEY, WKB_EXTENSION.to_owned());
                    let crs = crs.as_deref().unwrap_or(DEFAULT_CRS);
                    let edges = algorithm.as_deref().unwrap_or(DEFAULT_ALGORITHM);
                    let edges = edges.to_ascii_lowercase();
                    say(EXTENSION_TYPE_METADATA_KEY, json!({ "crs": crs, "edges": edges }).to_string());
                }
                PrimitiveType::Uuid => {
                    say(EXTENSION_TYPE_NAME_KEY, UUID_EXTENSION.to_owned());
                }
                _ => {}
            }
            primitive(p, nested)?
        }
        Type::Variant => {
            metadata.extend(variant_metadata());
            variant_type()
        }
        Type::Struct(s) => DataType::Struct(s.fields.iter().map(child).collect::<Result<Vec<_>>>()?.into()),
        Type::List(l) => DataType::List(Arc::new(child(&l.element)?)),
        Type::Map(m) => {
            let pair = DataType::Struct(Fields::from(vec![child(&m.key)?, child(&m.value)?]));
            DataType::Map(Arc::new(Field::new("key_value", pair, false)), false)
        }
    };
    // Arrow has no NULL array that is not nullable.
    let nullable = !field.required || data_type == DataType::Null;
    Ok(Field::new(&field.name, data_type, nullable).with_metadata(metadata))
}

/// What the metadata of a field says to make it a variant.
pub(crate) fn variant_metadata() -> [(String, String); 2] {
    [
        (EXTENSION_TYPE_NAME_KEY.to_owned(), VARIANT_EXTENSION.to_owned()),
        (EXTENSION_TYPE_METADATA_KEY.to_owned(), String::new()),
    ]
}

fn child(field: &NestedField) -> Result<Field> {
    arrow_field(field, true).context(|| format!("field `{}`", field.name))
}

fn bytes(nested: bool) -> DataType {
    if nested { DataType::Binary } else { DataType::BinaryView }
}

fn primitive(p: &PrimitiveType, nested: bool) -> Result<DataType> {
    use PrimitiveType as P;
    let too_large = || Error::unsupported(format!("Arrow can't hold values of type {p}"));
    Ok(match p {
        P::Boolean => DataType::Boolean,
        P::Int => DataType::Int32,
        P::Long => DataType::Int64,
        P::Float => DataType::Float32,
        P::Double => DataType::Float64,
        P::Decimal { precision, scale } => {
            if *precision == 0 || *precision > MAX_DECIMAL_PRECISION || scale > precision {
                return Err(too_large());
            }
            DataType::Decimal128(
                u8::try_from(*precision).map_err(|_| too_large())?,
                i8::try_from(*scale).map_err(|_| too_large())?,
            )
        }
        P::Date => DataType::Date32,
        P::Time => DataType::Time64(TimeUnit::Microsecond),
        P::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
        P::Timestamptz => DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into())),
        P::TimestampNs => DataType::Timestamp(TimeUnit::Nanosecond, None),
        P::TimestamptzNs => DataType::Timestamp(TimeUnit::Nanosecond, Some(UTC.into())),
        P::String if nested => DataType::Utf8,
        P::String => DataType::Utf8View,
        P::Uuid => DataType::FixedSizeBinary(16),
        P::Fixed(length) => DataType::FixedSizeBinary(i32::try_from(*length).map_err(|_| too_large())?),
        P::Binary | P::Geometry { .. } | P::Geography { .. } => bytes(nested),
        P::Unknown => DataType::Null,
    })
}

/// The field's id, if its metadata has one.
///
/// # Errors
/// `DataInvalid` for an id that is not a number.
pub(crate) fn field_id(field: &Field) -> Result<Option<FieldId>> {
    let Some(id) = field.metadata().get(FIELD_ID_KEY) else { return Ok(None) };
    let id = id.parse().map_err(|_| {
        Error::invalid(format!("field id `{id}` is not a number"))
            .context(format!("field `{}`", field.name()))
    })?;
    Ok(Some(FieldId(id)))
}

/// The schema of Arrow fields that carry their ids, such as [`to_arrow_schema`] makes.
///
/// # Errors
/// `DataInvalid` where a field has no id or an id occurs twice; `Unsupported` for types that
/// Iceberg does not have, such as unsigned 64-bit integers, intervals and unions.
pub fn from_arrow_schema(schema: &ArrowSchema, schema_id: SchemaId) -> Result<Schema> {
    let mut by_metadata = |field: &Field| {
        field_id(field)?.ok_or_else(|| Error::invalid(format!("field `{}` has no field id", field.name())))
    };
    let fields = iceberg_fields(schema.fields(), &mut by_metadata, 0)?;
    Schema::new(schema_id, fields, Vec::new())
}

/// The schema of Arrow fields for a new table: ids are counted from 1, a field before the fields
/// inside it, and ids in the metadata are ignored.
///
/// # Errors
/// `Unsupported` for types that Iceberg does not have; `DataInvalid` for names that occur twice.
pub fn from_arrow_schema_fresh_ids(schema: &ArrowSchema, schema_id: SchemaId) -> Result<Schema> {
    let mut last = 0_i32;
    let mut next = |_: &Field| {
        last = last.checked_add(1).ok_or_else(|| Error::unsupported("too many fields"))?;
        Ok(FieldId(last))
    };
    let fields = iceberg_fields(schema.fields(), &mut next, 0)?;
    Schema::new(schema_id, fields, Vec::new())
}

/// Gives a field its id.
type Ids<'a> = dyn FnMut(&Field) -> Result<FieldId> + 'a;

fn iceberg_fields(fields: &Fields, ids: &mut Ids<'_>, depth: usize) -> Result<Vec<NestedField>> {
    fields.iter().map(|f| iceberg_field(f, f.name(), ids, depth)).collect()
}

fn iceberg_field(field: &Field, name: &str, ids: &mut Ids<'_>, depth: usize) -> Result<NestedField> {
    if depth > MAX_NESTING {
        return Err(Error::invalid(format!("types nest deeper than {MAX_NESTING}")));
    }
    let id = ids(field)?;
    let field_type = if field.extension_type_name() == Some(VARIANT_EXTENSION) {
        match is_variant(field.data_type()) {
            true => Ok(Type::Variant),
            false => Err(Error::invalid(format!("a variant can't be {}", field.data_type()))),
        }
    } else {
        iceberg_type(field, field.data_type(), ids, depth)
    }
    .context(|| format!("field `{name}`"))?;
    let required = !field.is_nullable() && field_type != Type::Primitive(PrimitiveType::Unknown);
    let mut result = NestedField { required, ..NestedField::optional(id.0, name, field_type) };
    result.doc = field.metadata().get(DOC_KEY).cloned();
    Ok(result)
}

fn iceberg_type(field: &Field, data_type: &DataType, ids: &mut Ids<'_>, depth: usize) -> Result<Type> {
    use PrimitiveType as P;
    let unsupported = || Error::unsupported(format!("Iceberg has no type for Arrow's {data_type}"));
    let p = match data_type {
        DataType::Null => P::Unknown,
        DataType::Boolean => P::Boolean,
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::UInt8 | DataType::UInt16 => P::Int,
        DataType::Int64 | DataType::UInt32 => P::Long,
        DataType::Float16 | DataType::Float32 => P::Float,
        DataType::Float64 => P::Double,
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => {
            let precision = u32::from(*precision);
            let scale = u32::try_from(*scale).map_err(|_| unsupported())?;
            if precision == 0 || precision > MAX_DECIMAL_PRECISION || scale > precision {
                return Err(unsupported());
            }
            P::Decimal { precision, scale }
        }
        DataType::Date32 | DataType::Date64 => P::Date,
        DataType::Time32(_) | DataType::Time64(TimeUnit::Microsecond) => P::Time,
        DataType::Timestamp(TimeUnit::Nanosecond, None) => P::TimestampNs,
        DataType::Timestamp(TimeUnit::Nanosecond, Some(_)) => P::TimestamptzNs,
        DataType::Timestamp(_, None) => P::Timestamp,
        DataType::Timestamp(_, Some(_)) => P::Timestamptz,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => P::String,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => match said_type(field)? {
            Some(said @ (P::Geometry { .. } | P::Geography { .. })) => said,
            _ => P::Binary,
        },
        DataType::FixedSizeBinary(16) if is_uuid(field) => P::Uuid,
        DataType::FixedSizeBinary(length) => P::Fixed(u64::try_from(*length).map_err(|_| unsupported())?),
        DataType::Dictionary(_, values) => return iceberg_type(field, values, ids, depth + 1),
        DataType::RunEndEncoded(_, values) => return iceberg_type(field, values.data_type(), ids, depth + 1),
        DataType::Struct(fields) => {
            return Ok(StructType::new(iceberg_fields(fields, ids, depth + 1)?).into());
        }
        DataType::List(element)
        | DataType::LargeList(element)
        | DataType::ListView(element)
        | DataType::LargeListView(element)
        | DataType::FixedSizeList(element, _) => {
            let element = Box::new(iceberg_field(element, "element", ids, depth + 1)?);
            return Ok(ListType { element }.into());
        }
        DataType::Map(entries, _) => {
            let DataType::Struct(pair) = entries.data_type() else { return Err(unsupported()) };
            let [key, value] = pair.as_ref() else { return Err(unsupported()) };
            let mut key = iceberg_field(key, "key", ids, depth + 1)?;
            // Arrow's keys are never null, whatever the field says.
            key.required = true;
            let value = iceberg_field(value, "value", ids, depth + 1)?;
            return Ok(MapType { key: Box::new(key), value: Box::new(value) }.into());
        }
        _ => return Err(unsupported()),
    };
    Ok(p.into())
}

fn said_type(field: &Field) -> Result<Option<PrimitiveType>> {
    field.metadata().get(ICEBERG_TYPE_KEY).map(|name| PrimitiveType::parse(name)).transpose()
}

fn is_uuid(field: &Field) -> bool {
    field.extension_type_name() == Some(UUID_EXTENSION)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use PrimitiveType as P;
    use proptest::prelude::*;

    fn schema(fields: Vec<NestedField>) -> Schema {
        Schema::new(SchemaId(0), fields, vec![]).unwrap()
    }

    #[test]
    fn maps_every_primitive() {
        let us = |tz: Option<&str>| DataType::Timestamp(TimeUnit::Microsecond, tz.map(Into::into));
        let ns = |tz: Option<&str>| DataType::Timestamp(TimeUnit::Nanosecond, tz.map(Into::into));
        for (p, column, nested) in [
            (P::Boolean, DataType::Boolean, None),
            (P::Int, DataType::Int32, None),
            (P::Long, DataType::Int64, None),
            (P::Float, DataType::Float32, None),
            (P::Double, DataType::Float64, None),
            (P::Decimal { precision: 9, scale: 2 }, DataType::Decimal128(9, 2), None),
            (P::Date, DataType::Date32, None),
            (P::Time, DataType::Time64(TimeUnit::Microsecond), None),
            (P::Timestamp, us(None), None),
            (P::Timestamptz, us(Some("UTC")), None),
            (P::TimestampNs, ns(None), None),
            (P::TimestamptzNs, ns(Some("UTC")), None),
            (P::String, DataType::Utf8View, Some(DataType::Utf8)),
            (P::Binary, DataType::BinaryView, Some(DataType::Binary)),
            (P::Uuid, DataType::FixedSizeBinary(16), None),
            (P::Fixed(3), DataType::FixedSizeBinary(3), None),
            (P::Unknown, DataType::Null, None),
        ] {
            let s = schema(vec![
                NestedField::optional(1, "a", p.clone()),
                NestedField::optional(2, "l", ListType::new(3, p, false)),
            ]);
            let arrow = to_arrow_schema(&s).unwrap();
            assert_eq!(arrow.field(0).data_type(), &column);
            let DataType::List(element) = arrow.field(1).data_type() else { panic!() };
            assert_eq!(element.data_type(), nested.as_ref().unwrap_or(&column));
            assert_eq!(element.name(), "element");
            assert_eq!(element.metadata().get(FIELD_ID_KEY).unwrap(), "3");
        }
    }

    #[test]
    fn a_map_has_the_names_of_parquet() {
        let field = NestedField::optional(1, "m", MapType::new(2, P::String, 3, P::String, true));
        let DataType::Map(entries, false) = to_arrow_field(&field).unwrap().data_type().clone() else {
            panic!()
        };
        assert_eq!(entries.name(), "key_value");
        assert!(!entries.is_nullable());
        let DataType::Struct(pair) = entries.data_type() else { panic!() };
        assert_eq!(pair.iter().map(|f| f.name().as_str()).collect::<Vec<_>>(), ["key", "value"]);
        assert!(pair.iter().all(|f| !f.is_nullable() && f.data_type() == &DataType::Utf8));
        assert_eq!(field_id(&pair[1]).unwrap(), Some(FieldId(3)));
    }

    #[test]
    fn variants_are_what_the_variant_crates_know() {
        let variant = |id, name: &str| NestedField::optional(id, name, Type::Variant);
        let s = schema(vec![
            variant(1, "v"),
            NestedField::optional(2, "l", ListType { element: Box::new(variant(3, "element")) }),
        ]);
        let arrow = to_arrow_schema(&s).unwrap();
        assert!(arrow.field(0).has_valid_extension_type::<parquet_variant_compute::VariantType>());
        let DataType::List(element) = arrow.field(1).data_type() else { panic!() };
        assert!(element.has_valid_extension_type::<parquet_variant_compute::VariantType>());
        let rows = ::arrow::array::new_null_array(element.data_type(), 1);
        assert!(parquet_variant_compute::VariantArray::try_new(&rows).is_ok());
        assert_eq!(from_arrow_schema(&arrow, SchemaId(0)).unwrap(), s);
        // As others make them.
        let others = parquet_variant_compute::VariantArray::from_iter([parquet_variant::Variant::from(1_i8)]);
        let others = ArrowSchema::new(vec![others.field("v")]);
        let read = from_arrow_schema_fresh_ids(&others, SchemaId(0)).unwrap();
        assert_eq!(read.fields()[0].field_type, Type::Variant);
        let wrong = Field::new("v", DataType::Int32, true).with_metadata(variant_metadata().into());
        assert!(from_arrow_schema_fresh_ids(&ArrowSchema::new(vec![wrong]), SchemaId(0)).is_err());
    }

    #[test]
    fn geometries_are_wkb_that_says_so() {
        let geography = |crs: Option<&str>, algorithm: Option<&str>| P::Geography {
            crs: crs.map(Into::into),
            algorithm: algorithm.map(Into::into),
        };
        for (p, said, meaning) in [
            (P::Geometry { crs: None }, "geometry", r#"{"crs":"OGC:CRS84"}"#),
            (P::Geometry { crs: Some("EPSG:3857".into()) }, "geometry(EPSG:3857)", r#"{"crs":"EPSG:3857"}"#),
            (geography(None, None), "geography", r#"{"crs":"OGC:CRS84","edges":"spherical"}"#),
            (
                geography(Some("OGC:CRS84"), Some("karney")),
                "geography(OGC:CRS84, karney)",
                r#"{"crs":"OGC:CRS84","edges":"karney"}"#,
            ),
        ] {
            let s = schema(vec![
                NestedField::optional(1, "g", p.clone()),
                NestedField::optional(2, "l", ListType::new(3, p, false)),
            ]);
            let arrow = to_arrow_schema(&s).unwrap();
            assert_eq!(arrow.field(0).data_type(), &DataType::BinaryView);
            let DataType::List(element) = arrow.field(1).data_type() else { panic!() };
            assert_eq!(element.data_type(), &DataType::Binary);
            for field in [arrow.field(0), element] {
                let metadata = field.metadata();
                assert_eq!(metadata["ARROW:extension:name"], "geoarrow.wkb");
                assert_eq!(metadata["ARROW:extension:metadata"], meaning);
                assert_eq!(metadata[ICEBERG_TYPE_KEY], said);
            }
            assert_eq!(from_arrow_schema(&arrow, SchemaId(0)).unwrap(), s);
        }
        let other = Field::new("x", DataType::Binary, true)
            .with_metadata(HashMap::from([(ICEBERG_TYPE_KEY.to_owned(), "int".to_owned())]));
        let read = from_arrow_schema_fresh_ids(&ArrowSchema::new(vec![other]), SchemaId(0)).unwrap();
        assert_eq!(read.fields()[0].field_type, P::Binary.into());
    }

    #[test]
    fn fields_without_ids_need_fresh_ones() {
        let inner = Fields::from(vec![Field::new("x", DataType::Int16, false)]);
        let arrow = ArrowSchema::new(vec![
            Field::new("a", DataType::Utf8, false),
            Field::new("s", DataType::Struct(inner), true),
            Field::new("l", DataType::new_large_list(DataType::UInt32, true), true),
            Field::new("d", DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)), true),
        ]);
        let error = from_arrow_schema(&arrow, SchemaId(0)).unwrap_err();
        assert!(error.to_string().contains("`a`"), "{error}");
        let s = from_arrow_schema_fresh_ids(&arrow, SchemaId(0)).unwrap();
        let expected = schema(vec![
            NestedField::required(1, "a", P::String),
            NestedField::optional(2, "s", StructType::new(vec![NestedField::required(3, "x", P::Int)])),
            NestedField::optional(4, "l", ListType::new(5, P::Long, false)),
            NestedField::optional(6, "d", P::String),
        ]);
        assert_eq!(s, expected);
    }

    #[test]
    fn what_iceberg_does_not_have_is_refused_by_name() {
        for data_type in [
            DataType::UInt64,
            DataType::Time64(TimeUnit::Nanosecond),
            DataType::Duration(TimeUnit::Second),
            DataType::Decimal256(39, 0),
            DataType::Decimal128(9, -1),
        ] {
            let nested = Field::new("inner", data_type, true);
            let field = Field::new("outer", DataType::Struct(vec![nested].into()), true);
            let error = from_arrow_schema_fresh_ids(&ArrowSchema::new(vec![field]), SchemaId(0)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains("field `outer`: field `inner`"), "{error}");
        }
        let mut deep = DataType::Int32;
        for _ in 0..500 {
            deep = DataType::new_list(deep, true);
        }
        let arrow = ArrowSchema::new(vec![Field::new("deep", deep, true)]);
        assert!(from_arrow_schema_fresh_ids(&arrow, SchemaId(0)).is_err());
        let huge = NestedField::optional(1, "f", P::Fixed(1 << 31));
        assert_eq!(to_arrow_field(&huge).unwrap_err().kind(), ErrorKind::Unsupported);
        let bad_id = Field::new("x", DataType::Int32, true)
            .with_metadata(HashMap::from([(FIELD_ID_KEY.to_owned(), "one".to_owned())]));
        assert!(field_id(&bad_id).is_err());
    }

    pub(crate) fn any_primitive() -> impl Strategy<Value = P> {
        prop_oneof![
            prop::sample::select(vec![
                P::Boolean,
                P::Int,
                P::Long,
                P::Float,
                P::Double,
                P::Date,
                P::Time,
                P::Timestamp,
                P::Timestamptz,
                P::TimestampNs,
                P::TimestamptzNs,
                P::String,
                P::Uuid,
                P::Fixed(16),
                P::Binary,
                P::Geometry { crs: Some("srid:4326".into()) },
                P::Geography { crs: None, algorithm: None },
            ]),
            (1_u32..=38).prop_flat_map(|precision| {
                (0..=precision).prop_map(move |scale| P::Decimal { precision, scale })
            }),
        ]
    }

    fn any_type() -> impl Strategy<Value = Type> {
        let leaf = prop_oneof![4 => any_primitive().prop_map(Type::Primitive), 1 => Just(Type::Variant)];
        leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                (inner.clone(), any::<bool>()).prop_map(|(t, r)| ListType::new(0, t, r).into()),
                (inner.clone(), inner.clone(), any::<bool>())
                    .prop_map(|(k, v, r)| MapType::new(0, k, 0, v, r).into()),
                prop::collection::vec((inner, any::<bool>(), any::<Option<String>>()), 1..4).prop_map(
                    |fields| {
                        let fields = fields.into_iter().enumerate().map(|(i, (t, required, doc))| {
                            NestedField { required, doc, ..NestedField::optional(0, format!("f{i}"), t) }
                        });
                        StructType::new(fields.collect()).into()
                    }
                ),
            ]
        })
    }

    /// Numbers the fields so that no id occurs twice.
    fn number(field: &mut NestedField, next: &mut i32) {
        field.id = FieldId(*next);
        *next += 7;
        match &mut field.field_type {
            Type::Struct(s) => s.fields.iter_mut().for_each(|f| number(f, next)),
            Type::List(l) => number(&mut l.element, next),
            Type::Map(m) => {
                number(&mut m.key, next);
                number(&mut m.value, next);
            }
            _ => {}
        }
    }

    proptest! {
        #[test]
        fn schemas_survive_a_round_trip(types in prop::collection::vec(any_type(), 1..4)) {
            let mut next = 1;
            let fields = types.into_iter().enumerate().map(|(i, t)| {
                let mut field = NestedField::optional(0, format!("c{i}"), t);
                number(&mut field, &mut next);
                field
            });
            let schema = schema(fields.collect());
            let arrow = to_arrow_schema(&schema).unwrap();
            prop_assert_eq!(from_arrow_schema(&arrow, SchemaId(0)).unwrap(), schema);
        }
    }
}
