//! Writing values.

use crate::error::{Error, Result};

use super::value::VariantValue;

/// Appends a value that is no object and no array.
///
/// # Errors
/// `DataInvalid` for objects and arrays; `Unsupported` for text and bytes of 4 GiB and more.
pub(crate) fn push_scalar(out: &mut Vec<u8>, value: &VariantValue<'_>) -> Result<()> {
    use VariantValue as V;
    let mut fixed = |id: u8, bytes: &[u8]| {
        out.push(id << 2);
        out.extend_from_slice(bytes);
    };
    match value {
        V::Null => fixed(0, &[]),
        V::Boolean(true) => fixed(1, &[]),
        V::Boolean(false) => fixed(2, &[]),
        V::Int8(v) => fixed(3, &v.to_le_bytes()),
        V::Int16(v) => fixed(4, &v.to_le_bytes()),
        V::Int32(v) => fixed(5, &v.to_le_bytes()),
        V::Int64(v) => fixed(6, &v.to_le_bytes()),
        V::Double(v) => fixed(7, &v.to_le_bytes()),
        V::Decimal(unscaled, scale) => push_decimal(out, *unscaled, *scale),
        V::Date(v) => fixed(11, &v.to_le_bytes()),
        V::Timestamptz(v) => fixed(12, &v.to_le_bytes()),
        V::Timestamp(v) => fixed(13, &v.to_le_bytes()),
        V::Float(v) => fixed(14, &v.to_le_bytes()),
        V::Binary(v) => push_sized(out, 15, v)?,
        V::String(v) => match u8::try_from(v.len()) {
            Ok(short @ 0..64) => {
                out.push(short << 2 | 1);
                out.extend_from_slice(v.as_bytes());
            }
            _ => push_sized(out, 16, v.as_bytes())?,
        },
        V::Time(v) => fixed(17, &v.to_le_bytes()),
        V::TimestamptzNs(v) => fixed(18, &v.to_le_bytes()),
        V::TimestampNs(v) => fixed(19, &v.to_le_bytes()),
        V::Uuid(v) => fixed(20, v),
        V::Object(_) | V::Array(_) => return Err(Error::invalid("a variant is no scalar")),
    }
    Ok(())
}

/// In the narrowest type with as many digits: 9, 18 or 38.
fn push_decimal(out: &mut Vec<u8>, unscaled: i128, scale: u8) {
    let fits = |digits: u8| scale <= digits && unscaled.unsigned_abs() < 10_u128.pow(digits.into());
    match (i32::try_from(unscaled), i64::try_from(unscaled)) {
        (Ok(v), _) if fits(9) => {
            out.extend([8 << 2, scale]);
            out.extend(v.to_le_bytes());
        }
        (_, Ok(v)) if fits(18) => {
            out.extend([9 << 2, scale]);
            out.extend(v.to_le_bytes());
        }
        _ => {
            out.extend([10 << 2, scale]);
            out.extend(unscaled.to_le_bytes());
        }
    }
}

fn push_sized(out: &mut Vec<u8>, id: u8, bytes: &[u8]) -> Result<()> {
    let len = u32::try_from(bytes.len()).map_err(|_| too_large())?;
    out.push(id << 2);
    out.extend(len.to_le_bytes());
    out.extend_from_slice(bytes);
    Ok(())
}

fn too_large() -> Error {
    Error::unsupported("variants of 4 GiB and more")
}

/// Bytes that numbers up to this one take.
fn width(largest: usize) -> Result<u8> {
    Ok(match u32::try_from(largest).map_err(|_| too_large())? {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xff_ffff => 3,
        _ => 4,
    })
}

fn push_number(out: &mut Vec<u8>, number: usize, width: u8) -> Result<()> {
    let bytes = u32::try_from(number).map_err(|_| too_large())?.to_le_bytes();
    out.extend(bytes.iter().take(width.into()));
    Ok(())
}

fn push_count(out: &mut Vec<u8>, count: usize) -> Result<()> {
    push_number(out, count, if count > 0xff { 4 } else { 1 })
}

/// Appends an array of elements that were written one after the other; `starts` says where.
///
/// # Errors
/// `Unsupported` from 4 GiB on.
pub(crate) fn push_array(out: &mut Vec<u8>, starts: &[usize], elements: &[u8]) -> Result<()> {
    let offset_width = width(elements.len())?;
    let large = u8::from(starts.len() > 0xff);
    out.push((large << 2 | (offset_width - 1)) << 2 | 3);
    push_count(out, starts.len())?;
    for offset in starts.iter().copied().chain([elements.len()]) {
        push_number(out, offset, offset_width)?;
    }
    out.extend_from_slice(elements);
    Ok(())
}

/// A field of an object to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ObjectField<'a> {
    pub(crate) name: &'a str,
    /// The name's number in the metadata.
    pub(crate) id: usize,
    /// Where the value begins.
    pub(crate) start: usize,
}

/// Appends an object whose fields' values were written in any order.
///
/// # Errors
/// `DataInvalid` where two fields have the same name; `Unsupported` from 4 GiB on.
pub(crate) fn push_object(out: &mut Vec<u8>, fields: &mut [ObjectField<'_>], values: &[u8]) -> Result<()> {
    fields.sort_unstable();
    if let Some([twice, _]) = fields.array_windows::<2>().find(|[a, b]| a.name == b.name) {
        return Err(Error::invalid(format!("a variant has field `{}` twice", twice.name)));
    }
    let offset_width = width(values.len())?;
    let id_width = width(fields.iter().map(|f| f.id).max().unwrap_or(0))?;
    let large = u8::from(fields.len() > 0xff);
    out.push((large << 4 | (id_width - 1) << 2 | (offset_width - 1)) << 2 | 2);
    push_count(out, fields.len())?;
    for field in fields.iter() {
        push_number(out, field.id, id_width)?;
    }
    for offset in fields.iter().map(|f| f.start).chain([values.len()]) {
        push_number(out, offset, offset_width)?;
    }
    out.extend_from_slice(values);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{VariantMetadata, exact_value};
    use super::*;
    use parquet_variant::{Variant, VariantBuilder};
    use proptest::prelude::*;

    fn scalar() -> impl Strategy<Value = VariantValue<'static>> {
        use VariantValue as V;
        let long: &'static str = "0123456789012345678901234567890123456789012345678901234567890123";
        let texts = vec!["", "x", "ü€", &long[1..], long];
        prop_oneof![
            Just(V::Null),
            any::<bool>().prop_map(V::Boolean),
            any::<i8>().prop_map(V::Int8),
            any::<i16>().prop_map(V::Int16),
            any::<i32>().prop_map(V::Int32),
            any::<i64>().prop_map(V::Int64),
            (-1e9_f32..1e9).prop_map(V::Float),
            (-1e9_f64..1e9).prop_map(V::Double),
            ((-(10_i128.pow(38)) + 1)..10_i128.pow(38), 0_u8..=38).prop_map(|(v, s)| V::Decimal(v, s)),
            (-999_i128..999, 0_u8..=38).prop_map(|(v, s)| V::Decimal(v, s)),
            any::<i32>().prop_map(V::Date),
            (0..86_400_000_000_i64).prop_map(V::Time),
            any::<i64>().prop_map(V::Timestamp),
            any::<i64>().prop_map(V::Timestamptz),
            any::<i64>().prop_map(V::TimestampNs),
            any::<i64>().prop_map(V::TimestamptzNs),
            any::<[u8; 16]>().prop_map(V::Uuid),
            prop::sample::select(vec![&b""[..], b"\x00\xff"]).prop_map(V::Binary),
            prop::sample::select(texts).prop_map(V::String),
        ]
    }

    proptest! {
        #[test]
        fn scalars_read_back(value in scalar(), rest in any::<[u8; 3]>()) {
            let mut bytes = Vec::new();
            push_scalar(&mut bytes, &value).unwrap();
            let size = bytes.len();
            bytes.extend(rest);
            prop_assert_eq!(VariantValue::read(&bytes).unwrap(), value);
            prop_assert_eq!(exact_value(&bytes).unwrap().len(), size);
        }

        /// Whatever the bytes are.
        #[test]
        fn reading_never_panics(metadata in any::<Vec<u8>>(), value in any::<Vec<u8>>()) {
            if let (Ok(metadata), Ok(VariantValue::Object(object))) =
                (VariantMetadata::parse(&metadata), VariantValue::read(&value))
            {
                let _ = object.field("a", &metadata);
            }
        }
    }

    #[test]
    fn another_implementation_reads_what_is_written() {
        for count in [0, 1, 3, 256, 70_000] {
            let names: Vec<String> = (0..count).map(|i| format!("f{i:05}")).collect();
            let mut builder = VariantBuilder::new().with_field_names(names.iter().map(String::as_str));
            builder.append_value(());
            let (metadata, _) = builder.finish();
            let (mut values, mut starts, mut fields) = (Vec::new(), Vec::new(), Vec::new());
            for (id, name) in names.iter().enumerate().rev() {
                starts.push(values.len());
                fields.push(ObjectField { name, id, start: values.len() });
                push_scalar(&mut values, &VariantValue::Int32(id as i32)).unwrap();
            }
            let (mut object, mut array) = (Vec::new(), Vec::new());
            push_object(&mut object, &mut fields, &values).unwrap();
            push_array(&mut array, &starts, &values).unwrap();
            let object = Variant::try_new(&metadata, &object).unwrap();
            let array = Variant::try_new(&metadata, &array).unwrap();
            assert_eq!(object.as_object().unwrap().len(), count);
            assert_eq!(array.as_list().unwrap().len(), count);
            if let Some(last) = count.checked_sub(1) {
                let field = object.get_object_field(&names[last]).unwrap();
                assert_eq!(field.as_int32(), Some(last as i32));
                assert_eq!(array.get_list_element(0).unwrap().as_int32(), Some(last as i32));
            }
        }
    }

    #[test]
    fn a_name_may_occur_once() {
        let mut fields =
            [ObjectField { name: "a", id: 0, start: 0 }, ObjectField { name: "a", id: 0, start: 1 }];
        let error = push_object(&mut Vec::new(), &mut fields, &[0, 0]).unwrap_err();
        assert!(error.to_string().contains("`a` twice"), "{error}");
    }
}
