//! The hash of the bucket transform (spec, Appendix B): Murmur3, x86, 32 bits, seed 0.

use super::value::Value;
use super::value_binary::minimal_two_complement;

const C1: u32 = 0xcc9e_2d51;
const C2: u32 = 0x1b87_3593;

/// The hash of bytes; strings are hashed as UTF-8.
pub(crate) fn hash_bytes(bytes: &[u8]) -> i32 {
    let mut hash = 0_u32;
    let (blocks, tail) = bytes.as_chunks::<4>();
    for block in blocks {
        hash ^= scramble(u32::from_le_bytes(*block));
        hash = hash.rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    if !tail.is_empty() {
        let rest = tail.iter().rev().fold(0_u32, |k, byte| (k << 8) | u32::from(*byte));
        hash ^= scramble(rest);
    }
    // The reference algorithm takes the length modulo 2^32.
    hash ^= bytes.len() as u32;
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    (hash ^ (hash >> 16)) as i32
}

fn scramble(k: u32) -> u32 {
    k.wrapping_mul(C1).rotate_left(15).wrapping_mul(C2)
}

/// The hash of a number; ints and dates are hashed as longs.
pub(crate) fn hash_long(v: i64) -> i32 {
    hash_bytes(&v.to_le_bytes())
}

/// The hash of a decimal's unscaled value.
pub(crate) fn hash_decimal(unscaled: i128) -> i32 {
    hash_bytes(minimal_two_complement(&unscaled.to_be_bytes()))
}

/// The hash of a timestamp in nanoseconds: that of its microseconds, rounded down.
pub(crate) fn hash_nanos(nanos: i64) -> i32 {
    hash_long(nanos.div_euclid(1000))
}

/// The hash of a double; floats are hashed as doubles.
fn hash_double(v: f64) -> i32 {
    let canonical = match v {
        v if v.is_nan() => 0x7ff8_0000_0000_0000_u64,
        // -0.0 too.
        0.0 => 0,
        v => v.to_bits(),
    };
    hash_bytes(&canonical.to_le_bytes())
}

/// The hash of a value; `None` for structs, lists and maps.
///
/// Booleans and floats have a hash, although they can't be bucketed.
pub(crate) fn hash(value: &Value) -> Option<i32> {
    Some(match value {
        Value::Boolean(v) => hash_long(i64::from(*v)),
        Value::Int(v) | Value::Date(v) => hash_long(i64::from(*v)),
        Value::Long(v) | Value::Time(v) | Value::Timestamp(v) | Value::Timestamptz(v) => hash_long(*v),
        Value::TimestampNs(v) | Value::TimestamptzNs(v) => hash_nanos(*v),
        Value::Float(v) => hash_double(f64::from(*v)),
        Value::Double(v) => hash_double(*v),
        Value::Decimal(v, _) => hash_decimal(*v),
        Value::String(v) => hash_bytes(v.as_bytes()),
        Value::Uuid(v) => hash_bytes(v.as_bytes()),
        Value::Fixed(v) | Value::Binary(v) => hash_bytes(v),
        Value::Struct(_) | Value::List(_) | Value::Map(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2017-11-16, and 22:31:08 of that day.
    const DAY: i32 = 17_486;
    const MICROS: i64 = DAY as i64 * 86_400_000_000 + 81_068_000_000;

    #[test]
    fn gives_the_values_of_appendix_b() {
        for (value, expected) in [
            (Value::Int(34), 2_017_239_379),
            (Value::Long(34), 2_017_239_379),
            (Value::Decimal(1420, 2), -500_754_589),
            (Value::Date(DAY), -653_330_422),
            (Value::Time(81_068_000_000), -662_762_989),
            (Value::Timestamp(MICROS), -2_047_944_441),
            (Value::Timestamp(MICROS + 1), -1_207_196_810),
            (Value::Timestamptz(MICROS), -2_047_944_441),
            (Value::Timestamptz(MICROS + 1), -1_207_196_810),
            (Value::TimestampNs(MICROS * 1000), -2_047_944_441),
            (Value::TimestampNs(MICROS * 1000 + 1001), -1_207_196_810),
            (Value::TimestamptzNs(MICROS * 1000), -2_047_944_441),
            (Value::TimestamptzNs(MICROS * 1000 + 1001), -1_207_196_810),
            (Value::String("iceberg".into()), 1_210_000_089),
            (Value::Uuid("f79c3e09-677c-4bbd-a479-3f349cb785e7".parse().unwrap()), 1_488_055_340),
            (Value::Fixed(vec![0, 1, 2, 3]), -188_683_207),
            (Value::Binary(vec![0, 1, 2, 3]), -188_683_207),
            (Value::Boolean(true), 1_392_991_556),
            (Value::Float(1.0), -142_385_009),
            (Value::Float(0.0), 1_669_671_676),
            (Value::Float(-0.0), 1_669_671_676),
            (Value::Double(1.0), -142_385_009),
            (Value::Double(0.0), 1_669_671_676),
            (Value::Double(-0.0), 1_669_671_676),
        ] {
            assert_eq!(hash(&value), Some(expected), "{value:?}");
        }
        assert_eq!(hash(&Value::List(vec![])), None);
    }

    #[test]
    fn gives_the_values_of_the_reference_for_every_tail_length() {
        // Known vectors of Murmur3_x86_32 with seed 0.
        for (text, expected) in [
            ("", 0_u32),
            ("a", 0x3c25_69b2),
            ("aa", 0x3710_91a9),
            ("abc", 0xb3dd_93fa),
            ("test", 0xba6b_d213),
            ("Hello, world!", 0xc036_3e43),
            ("The quick brown fox jumps over the lazy dog", 0x2e4f_f723),
        ] {
            assert_eq!(hash_bytes(text.as_bytes()) as u32, expected, "{text}");
        }
    }

    #[test]
    fn nanoseconds_round_down_before_1970() {
        assert_eq!(hash_nanos(-1), hash_long(-1));
        assert_eq!(hash_nanos(-1000), hash_long(-1));
        assert_eq!(hash_nanos(-1001), hash_long(-2));
    }
}
