//! Partition transforms (spec, "Partition Transforms"): names, result types.

use std::fmt;

use super::types::{PrimitiveType, Type};

/// How a partition or sort value is derived from a column's value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Transform {
    /// The value itself.
    Identity,
    /// Hash of the value, modulo this number of buckets (at least 1).
    Bucket(u32),
    /// The value cut to this width (at least 1).
    Truncate(u32),
    /// Years since 1970.
    Year,
    /// Months since 1970-01.
    Month,
    /// Days since 1970-01-01.
    Day,
    /// Hours since 1970-01-01 00:00.
    Hour,
    /// Always null.
    Void,
    /// A transform this version does not know, by its name; kept, never written to.
    Unknown(String),
}

impl Transform {
    /// Parses the name that metadata uses, such as `bucket[16]`. Names that are not known, or
    /// known ones with impossible parameters, give [`Transform::Unknown`].
    pub fn parse(name: &str) -> Self {
        let unknown = || Transform::Unknown(name.to_owned());
        let lower = name.trim().to_ascii_lowercase();
        if let Some((head, rest)) = lower.split_once('[') {
            let width = rest.strip_suffix(']').and_then(|w| w.trim().parse::<u32>().ok());
            return match (head, width) {
                ("bucket", Some(n)) if (1..=i32::MAX as u32).contains(&n) => Transform::Bucket(n),
                ("truncate", Some(w)) if (1..=i32::MAX as u32).contains(&w) => Transform::Truncate(w),
                _ => unknown(),
            };
        }
        match lower.as_str() {
            "identity" => Transform::Identity,
            "year" => Transform::Year,
            "month" => Transform::Month,
            "day" => Transform::Day,
            "hour" => Transform::Hour,
            "void" => Transform::Void,
            _ => unknown(),
        }
    }

    /// The type of the transform's results for a source of that type; `None` where the transform
    /// does not apply to it or is unknown.
    ///
    /// `day` gives `date` (an int in files: Appendix A of the spec lets both be read).
    pub fn result_type(&self, source: &Type) -> Option<PrimitiveType> {
        use PrimitiveType as P;
        let p = match (self, source) {
            (Transform::Void, Type::Primitive(p)) => return Some(p.clone()),
            (Transform::Void, _) => return Some(P::Int),
            (_, Type::Primitive(p)) => p,
            _ => return None,
        };
        match self {
            Transform::Identity if !p.is_opaque() => Some(p.clone()),
            Transform::Bucket(_) => match p {
                P::Boolean | P::Float | P::Double => None,
                p if p.is_opaque() => None,
                _ => Some(P::Int),
            },
            Transform::Truncate(_) => match p {
                P::Int | P::Long | P::Decimal { .. } | P::String | P::Binary => Some(p.clone()),
                _ => None,
            },
            Transform::Year | Transform::Month => match p {
                P::Date | P::Timestamp | P::Timestamptz | P::TimestampNs | P::TimestamptzNs => Some(P::Int),
                _ => None,
            },
            Transform::Day => match p {
                P::Date | P::Timestamp | P::Timestamptz | P::TimestampNs | P::TimestamptzNs => Some(P::Date),
                _ => None,
            },
            Transform::Hour => match p {
                P::Timestamp | P::Timestamptz | P::TimestampNs | P::TimestamptzNs => Some(P::Int),
                _ => None,
            },
            _ => None,
        }
    }
}

impl fmt::Display for Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Transform::Identity => f.write_str("identity"),
            Transform::Bucket(n) => write!(f, "bucket[{n}]"),
            Transform::Truncate(w) => write!(f, "truncate[{w}]"),
            Transform::Year => f.write_str("year"),
            Transform::Month => f.write_str("month"),
            Transform::Day => f.write_str("day"),
            Transform::Hour => f.write_str("hour"),
            Transform::Void => f.write_str("void"),
            Transform::Unknown(name) => f.write_str(name),
        }
    }
}
