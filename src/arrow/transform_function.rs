//! The partition transforms as SQL functions: `years(ts)`, `bucket(16, id)`, …

use std::sync::Arc;

use ::arrow::datatypes::{DataType, Field, Schema as ArrowSchema};
use datafusion::common::{Result as DFResult, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

use crate::error::{Error, Result};
use crate::spec::{PrimitiveType, SchemaId, Transform, Type};

use super::schema::from_arrow_schema_fresh_ids;
use super::transform::transform_array;

/// A partition transform as a function. Filters on it are recognised by this type, not by the
/// name: elsewhere `hour(ts)` is the hour of the day.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct TransformFunction {
    kind: Kind,
    signature: Signature,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Years,
    Months,
    Days,
    Hours,
    Bucket,
    Truncate,
}

impl TransformFunction {
    /// All of them: `years`, `months`, `days`, `hours`, `bucket` and `truncate`, the last two of which
    /// take a number first. Not in the singular: everywhere else `year(ts)` is the calendar's year,
    /// not the number of years since 1970.
    pub fn all() -> Vec<Self> {
        let function = |kind: Kind| Self {
            kind,
            signature: Signature::any(
                if matches!(kind, Kind::Bucket | Kind::Truncate) { 2 } else { 1 },
                Volatility::Immutable,
            ),
        };
        vec![
            function(Kind::Years),
            function(Kind::Months),
            function(Kind::Days),
            function(Kind::Hours),
            function(Kind::Bucket),
            function(Kind::Truncate),
        ]
    }

    /// The transform, given the number that `bucket` and `truncate` take.
    pub(super) fn transform(&self, parameter: Option<&ScalarValue>) -> Result<Transform> {
        let number = || {
            let number = parameter.and_then(|p| match p.cast_to(&DataType::Int64) {
                Ok(ScalarValue::Int64(Some(n))) => i32::try_from(n).ok().filter(|n| *n > 0),
                _ => None,
            });
            let number = number.ok_or_else(|| {
                Error::invalid(format!("function `{}` takes a positive number first", self.name()))
            })?;
            Ok::<u32, Error>(number.unsigned_abs())
        };
        Ok(match self.kind {
            Kind::Years => Transform::Year,
            Kind::Months => Transform::Month,
            Kind::Days => Transform::Day,
            Kind::Hours => Transform::Hour,
            Kind::Bucket => Transform::Bucket(number()?),
            Kind::Truncate => Transform::Truncate(number()?),
        })
    }

    /// The Iceberg type of the column that the function is called with.
    fn source(&self, field: &Field) -> Result<PrimitiveType> {
        let name = self.name();
        let schema = from_arrow_schema_fresh_ids(&ArrowSchema::new(vec![field.clone()]), SchemaId(0))?;
        match schema.fields().first().map(|f| &f.field_type) {
            Some(Type::Primitive(p)) => Ok(p.clone()),
            _ => Err(Error::invalid(format!("function `{name}` does not apply to {}", field.data_type()))),
        }
    }
}

impl ScalarUDFImpl for TransformFunction {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Years => "years",
            Kind::Months => "months",
            Kind::Days => "days",
            Kind::Hours => "hours",
            Kind::Bucket => "bucket",
            Kind::Truncate => "truncate",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> DFResult<DataType> {
        Ok(match (self.kind, arg_types.last()) {
            (Kind::Days, _) => DataType::Date32,
            (Kind::Truncate, Some(DataType::Dictionary(_, values))) => values.as_ref().clone(),
            (Kind::Truncate, Some(data_type)) => data_type.clone(),
            _ => DataType::Int32,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DFResult<ColumnarValue> {
        let missing = || Error::invalid(format!("function `{}` lacks an argument", self.name()));
        let parameter = match args.args.as_slice() {
            [ColumnarValue::Scalar(parameter), _] => Some(parameter),
            _ => None,
        };
        let transform = self.transform(parameter)?;
        let column = args.args.last().ok_or_else(missing)?;
        let source = self.source(args.arg_fields.last().ok_or_else(missing)?)?;
        match column {
            ColumnarValue::Array(array) => {
                Ok(ColumnarValue::Array(transform_array(&transform, array, &source)?))
            }
            ColumnarValue::Scalar(scalar) => {
                let result = transform_array(&transform, &scalar.to_array_of_size(1)?, &source)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&Arc::clone(&result), 0)?))
            }
        }
    }
}
