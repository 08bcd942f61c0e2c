//! Names of types as SQL writes them.

use datafusion::arrow::datatypes::{DataType, TimeUnit};

use crate::error::{Error, Result};

/// What a value can be read as.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum SqlType {
    /// As it is.
    Variant,
    /// JSON text, strings quoted.
    Json,
    /// Text: strings as they are, all else as in JSON.
    Text,
    Arrow(DataType),
}

impl SqlType {
    /// # Errors
    /// `Unsupported` for another type.
    pub(super) fn parse(name: &str) -> Result<Self> {
        let unknown = || Error::unsupported(format!("a variant can't be read as type `{name}`"));
        let lower = name.to_ascii_lowercase();
        let (words, arguments) = match lower.trim().split_once('(') {
            Some((words, rest)) => {
                let (arguments, after) = rest.split_once(')').ok_or_else(unknown)?;
                let arguments = arguments.split(',').map(|a| a.trim().parse::<u8>());
                let arguments = arguments.collect::<Result<Vec<u8>, _>>().map_err(|_| unknown())?;
                (format!("{words} {after}"), arguments)
            }
            None => (lower, Vec::new()),
        };
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        let timestamp = |unit, utc: bool| DataType::Timestamp(unit, utc.then(|| "UTC".into()));
        let data_type =
            match (words.as_str(), arguments.as_slice()) {
                ("variant", []) => return Ok(Self::Variant),
                ("json", []) => return Ok(Self::Json),
                ("string" | "text" | "varchar" | "char varying" | "character varying", []) => {
                    return Ok(Self::Text);
                }
                ("boolean" | "bool", []) => DataType::Boolean,
                ("tinyint" | "byte", []) => DataType::Int8,
                ("smallint" | "short", []) => DataType::Int16,
                ("int" | "integer", []) => DataType::Int32,
                ("bigint" | "long", []) => DataType::Int64,
                ("float" | "real", []) => DataType::Float32,
                ("double" | "double precision", []) => DataType::Float64,
                ("decimal" | "numeric" | "dec", arguments) => {
                    let (precision, scale) = match *arguments {
                        [] => (10, 0),
                        [precision] => (precision, 0),
                        [precision, scale] => (precision, scale),
                        _ => return Err(unknown()),
                    };
                    if precision == 0 || precision > 38 || scale > precision {
                        return Err(unknown());
                    }
                    DataType::Decimal128(precision, i8::try_from(scale).map_err(|_| unknown())?)
                }
                ("date", []) => DataType::Date32,
                ("time" | "time without time zone", []) => DataType::Time64(TimeUnit::Microsecond),
                ("timestamp" | "timestamp without time zone" | "timestamp_ntz", [] | [6]) => {
                    timestamp(TimeUnit::Microsecond, false)
                }
                ("timestamptz" | "timestamp with time zone" | "timestamp_ltz", [] | [6]) => {
                    timestamp(TimeUnit::Microsecond, true)
                }
                ("timestamp" | "timestamp without time zone" | "timestamp_ntz", [9])
                | ("timestamp_ns", []) => timestamp(TimeUnit::Nanosecond, false),
                ("timestamptz" | "timestamp with time zone" | "timestamp_ltz", [9])
                | ("timestamptz_ns", []) => timestamp(TimeUnit::Nanosecond, true),
                ("binary" | "varbinary" | "bytea", []) => DataType::Binary,
                _ => return Err(unknown()),
            };
        Ok(Self::Arrow(data_type))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        use SqlType as S;
        let us =
            |utc: Option<&str>| S::Arrow(DataType::Timestamp(TimeUnit::Microsecond, utc.map(Into::into)));
        for (name, expected) in [
            ("int", S::Arrow(DataType::Int32)),
            (" INTEGER ", S::Arrow(DataType::Int32)),
            ("bigint", S::Arrow(DataType::Int64)),
            ("Double  Precision", S::Arrow(DataType::Float64)),
            ("decimal(9,2)", S::Arrow(DataType::Decimal128(9, 2))),
            ("NUMERIC( 38 , 38 )", S::Arrow(DataType::Decimal128(38, 38))),
            ("decimal", S::Arrow(DataType::Decimal128(10, 0))),
            ("string", S::Text),
            ("json", S::Json),
            ("variant", S::Variant),
            ("timestamp", us(None)),
            ("timestamp(6) with time zone", us(Some("UTC"))),
        ] {
            assert_eq!(S::parse(name).unwrap(), expected, "{name}");
        }
        for wrong in [
            "",
            "number",
            "decimal(39,0)",
            "decimal(5,6)",
            "decimal(0)",
            "decimal(1",
            "int(4)",
            "decimal(1,2,3)",
        ] {
            let error = S::parse(wrong).unwrap_err().to_string();
            assert!(error.contains(&format!("`{wrong}`")), "{error}");
        }
    }
}
