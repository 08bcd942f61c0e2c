//! SQL functions over variants: `variant_to_json`, `variant_get` and `is_variant_null`.

mod sql_type;
#[cfg(test)]
mod tests;
mod typed;

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StringBuilder};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result as DFResult, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};

use crate::arrow::{VariantColumn, is_variant, variant_metadata, variant_type};
use crate::error::{Error, Result};
use crate::spec::variant::{VariantMetadata, VariantPath, VariantValue, push_json, push_text};

use sql_type::SqlType;

/// A function over variants.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct VariantFunction {
    kind: Kind,
    signature: Signature,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    /// `variant_to_json(v)`: the value as JSON text. A string alone comes without quotes, and the
    /// variant null as NULL, so that the text is what the value says; `variant_get(v, '$', 'json')`
    /// is JSON in these cases, too.
    ToJson,
    /// `variant_get(v, path [, type])`: a part of the value, as a variant or cast to a type. NULL
    /// where there is no such part, or it can't be cast.
    Get,
    /// `is_variant_null(v)`: whether the value is the variant null, which is not SQL's NULL.
    IsNull,
}

impl VariantFunction {
    /// All of them.
    pub(super) fn all() -> impl Iterator<Item = Arc<ScalarUDF>> {
        [Kind::ToJson, Kind::Get, Kind::IsNull].into_iter().map(|kind| {
            let arguments = match kind {
                Kind::Get => TypeSignature::OneOf(vec![TypeSignature::Any(2), TypeSignature::Any(3)]),
                _ => TypeSignature::Any(1),
            };
            let signature = Signature::new(arguments, Volatility::Immutable);
            Arc::new(ScalarUDF::from(Self { kind, signature }))
        })
    }

    fn return_field(&self, args: &ReturnFieldArgs<'_>) -> Result<Field> {
        match args.arg_fields.first().map(|f| f.data_type()) {
            Some(DataType::Null) => {}
            Some(data_type) if is_variant(data_type) => {}
            Some(other) => return Err(Error::invalid(format!("takes a variant, not {other}"))),
            None => return Err(Error::invalid("takes a variant")),
        }
        Ok(match self.kind {
            Kind::ToJson => Field::new(self.name(), DataType::Utf8, true),
            Kind::IsNull => Field::new(self.name(), DataType::Boolean, false),
            Kind::Get => {
                let wanted = match (args.arg_fields.get(2), args.scalar_arguments.get(2)) {
                    (None, _) => SqlType::Variant,
                    (Some(_), Some(Some(name))) => wanted_type(name)?,
                    (Some(_), _) => return Err(Error::invalid("the type must be a literal")),
                };
                match wanted {
                    SqlType::Variant => {
                        Field::new(self.name(), variant_type(), true).with_metadata(variant_metadata().into())
                    }
                    SqlType::Json | SqlType::Text => Field::new(self.name(), DataType::Utf8, true),
                    SqlType::Arrow(data_type) => Field::new(self.name(), data_type, true),
                }
            }
        })
    }

    fn invoke(&self, args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
        let variants = args.args.first().ok_or_else(|| Error::invalid("takes a variant"))?;
        let constant = args.args.iter().all(|a| matches!(a, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let failed = |e| Error::invalid("arguments").with_source(e);
        let variants = VariantColumn::new(&variants.to_array(rows).map_err(failed)?)?;
        let result: ArrayRef = match self.kind {
            Kind::ToJson => text_of_rows(rows, push_text, |row| not_null(variants.row(row)?))?,
            Kind::IsNull => {
                let nulls = (0..rows).map(|row| match variants.row(row)? {
                    Some((_, value)) => is_null(value),
                    None => Ok(false),
                });
                Arc::new(BooleanArray::from(nulls.collect::<Result<Vec<bool>>>()?))
            }
            Kind::Get => {
                let wanted = match args.args.get(2) {
                    None => SqlType::Variant,
                    Some(ColumnarValue::Scalar(name)) => wanted_type(name)?,
                    Some(ColumnarValue::Array(_)) => {
                        return Err(Error::invalid("the type must be a literal"));
                    }
                };
                let path = args.args.get(1).ok_or_else(|| Error::invalid("takes a path"))?;
                get(&variants, &Paths::new(path)?, &wanted)?
            }
        };
        if constant {
            return ScalarValue::try_from_array(&result, 0).map(ColumnarValue::Scalar).map_err(failed);
        }
        Ok(ColumnarValue::Array(result))
    }
}

impl ScalarUDFImpl for VariantFunction {
    fn name(&self) -> &str {
        match self.kind {
            Kind::ToJson => "variant_to_json",
            Kind::Get => "variant_get",
            Kind::IsNull => "is_variant_null",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DFResult<DataType> {
        Err(self.fail(Error::invalid("the result's type depends on the arguments")))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DFResult<FieldRef> {
        self.return_field(&args).map(Arc::new).map_err(|e| self.fail(e))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DFResult<ColumnarValue> {
        self.invoke(&args).map_err(|e| self.fail(e))
    }
}

impl VariantFunction {
    fn fail(&self, error: Error) -> datafusion::error::DataFusionError {
        error.context(format!("function `{}`", self.name())).into()
    }
}

fn is_null(value: &[u8]) -> Result<bool> {
    Ok(VariantValue::read(value)? == VariantValue::Null)
}

fn wanted_type(name: &ScalarValue) -> Result<SqlType> {
    match name.try_as_str() {
        Some(Some(name)) => SqlType::parse(name),
        _ => Err(Error::invalid("the type must be a text such as 'bigint'")),
    }
}

/// The path of each row.
enum Paths {
    Same(Option<VariantPath>),
    Rows(ArrayRef),
}

impl Paths {
    fn new(argument: &ColumnarValue) -> Result<Self> {
        let wrong = || Error::invalid("the path must be a text such as '$.a.b[0]'");
        match argument {
            ColumnarValue::Scalar(ScalarValue::Null) => Ok(Self::Same(None)),
            ColumnarValue::Scalar(scalar) => {
                let path = scalar.try_as_str().ok_or_else(wrong)?;
                Ok(Self::Same(path.map(VariantPath::parse).transpose()?))
            }
            ColumnarValue::Array(array) => {
                let text = datafusion::arrow::compute::cast(array, &DataType::Utf8);
                Ok(Self::Rows(text.map_err(|e| wrong().with_source(e))?))
            }
        }
    }

    fn find<'v>(
        &self,
        row: usize,
        metadata: &VariantMetadata<'_>,
        value: &'v [u8],
    ) -> Result<Option<&'v [u8]>> {
        match self {
            Self::Same(None) => Ok(None),
            Self::Same(Some(path)) => path.find(metadata, value),
            Self::Rows(paths) => match paths.as_string_opt::<i32>().filter(|p| p.is_valid(row)) {
                Some(paths) => VariantPath::parse(paths.value(row))?.find(metadata, value),
                None => Ok(None),
            },
        }
    }
}

fn get(variants: &VariantColumn, paths: &Paths, wanted: &SqlType) -> Result<ArrayRef> {
    let rows = variants.len();
    let part = |row: usize| match variants.row(row)? {
        Some((metadata, value)) => Ok(paths.find(row, &metadata, value)?.map(|part| (metadata, part))),
        None => Ok(None),
    };
    match wanted {
        SqlType::Variant => variants.with_values((0..rows).map(|row| Ok(part(row)?.map(|(_, part)| part)))),
        SqlType::Json => text_of_rows(rows, push_json, part),
        SqlType::Text => text_of_rows(rows, push_text, |row| not_null(part(row)?)),
        SqlType::Arrow(data_type) => {
            let values = (0..rows).map(|row| match part(row)? {
                Some((_, part)) => VariantValue::read(part).map(Some),
                None => Ok(None),
            });
            typed::cast_values(&values.collect::<Result<Vec<_>>>()?, data_type)
        }
    }
}

/// A value with the names of its fields.
type Named<'v> = (VariantMetadata<'v>, &'v [u8]);

/// Nothing for the variant null.
fn not_null(value: Option<Named<'_>>) -> Result<Option<Named<'_>>> {
    match value {
        Some((_, bytes)) if is_null(bytes)? => Ok(None),
        other => Ok(other),
    }
}

/// What is pushed of each row's value; null without a value.
fn text_of_rows<'v>(
    rows: usize,
    push: fn(&mut String, &VariantMetadata<'_>, &[u8]) -> Result<()>,
    row: impl Fn(usize) -> Result<Option<Named<'v>>>,
) -> Result<ArrayRef> {
    let mut out = StringBuilder::new();
    let (mut text, mut total) = (String::new(), 0_usize);
    for index in 0..rows {
        let Some((metadata, value)) = row(index)? else {
            out.append_null();
            continue;
        };
        text.clear();
        push(&mut text, &metadata, value)?;
        total = total.saturating_add(text.len());
        if i32::try_from(total).is_err() {
            return Err(Error::unsupported("more than 2 GiB of text in a batch"));
        }
        out.append_value(&text);
    }
    Ok(Arc::new(out.finish()))
}
