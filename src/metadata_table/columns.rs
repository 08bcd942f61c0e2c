//! Columns of a metadata table: how a row's values are found, and rows made into batches.

use std::fmt;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema as ArrowSchema, SchemaRef};

use crate::arrow::{to_arrow_field, values_to_array};
use crate::error::{Error, Result, ResultExt};
use crate::spec::{NestedField, PrimitiveType, StructType, Type, Value};

type Getter<R> = Arc<dyn Fn(&R) -> Result<Option<Value>> + Send + Sync>;

/// A column over rows of type `R`.
pub(super) struct Column<R> {
    pub(super) field: NestedField,
    value: Getter<R>,
}

impl<R: 'static> Column<R> {
    /// A column whose value is always found.
    pub(super) fn new(
        field: NestedField,
        value: impl Fn(&R) -> Option<Value> + Send + Sync + 'static,
    ) -> Self {
        Self::checked(field, move |row| Ok(value(row)))
    }

    /// A column whose values may be invalid.
    pub(super) fn checked(
        field: NestedField,
        value: impl Fn(&R) -> Result<Option<Value>> + Send + Sync + 'static,
    ) -> Self {
        Self { field, value: Arc::new(value) }
    }

    /// A long that is never null.
    pub(super) fn long(id: i32, name: &str, value: impl Fn(&R) -> i64 + Send + Sync + 'static) -> Self {
        let field = NestedField::required(id, name, PrimitiveType::Long);
        Self::new(field, move |row| Some(Value::Long(value(row))))
    }

    /// An int that is never null.
    pub(super) fn int(id: i32, name: &str, value: impl Fn(&R) -> i32 + Send + Sync + 'static) -> Self {
        let field = NestedField::required(id, name, PrimitiveType::Int);
        Self::new(field, move |row| Some(Value::Int(value(row))))
    }

    /// Text that is never null.
    pub(super) fn text(id: i32, name: &str, value: impl Fn(&R) -> String + Send + Sync + 'static) -> Self {
        let field = NestedField::required(id, name, PrimitiveType::String);
        Self::new(field, move |row| Some(Value::String(value(row))))
    }

    /// A long that may be null.
    pub(super) fn long_or_null(
        id: i32,
        name: &str,
        value: impl Fn(&R) -> Option<i64> + Send + Sync + 'static,
    ) -> Self {
        let field = NestedField::optional(id, name, PrimitiveType::Long);
        Self::new(field, move |row| value(row).map(Value::Long))
    }

    /// An int that may be null.
    pub(super) fn int_or_null(
        id: i32,
        name: &str,
        value: impl Fn(&R) -> Option<i32> + Send + Sync + 'static,
    ) -> Self {
        let field = NestedField::optional(id, name, PrimitiveType::Int);
        Self::new(field, move |row| value(row).map(Value::Int))
    }

    /// Text that may be null.
    pub(super) fn text_or_null(
        id: i32,
        name: &str,
        value: impl Fn(&R) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        let field = NestedField::optional(id, name, PrimitiveType::String);
        Self::new(field, move |row| value(row).map(Value::String))
    }

    /// A point in time that is never null, from milliseconds since 1970 UTC.
    pub(super) fn time(id: i32, name: &str, millis: impl Fn(&R) -> i64 + Send + Sync + 'static) -> Self {
        let field = NestedField::required(id, name, PrimitiveType::Timestamptz);
        Self::checked(field, move |row| timestamp(millis(row)).map(Some))
    }

    /// The same column over rows that have an `R` in them.
    pub(super) fn of<S: 'static>(self, part: fn(&S) -> &R) -> Column<S> {
        let value = self.value;
        Column { field: self.field, value: Arc::new(move |row| value(part(row))) }
    }

    pub(super) fn value(&self, row: &R) -> Result<Option<Value>> {
        (self.value)(row)
    }
}

/// Milliseconds since 1970 UTC as a value.
pub(super) fn timestamp(millis: i64) -> Result<Value> {
    let micros = millis.checked_mul(1000);
    let micros = micros.ok_or_else(|| Error::invalid(format!("{millis} ms since 1970 are out of range")))?;
    Ok(Value::Timestamptz(micros))
}

/// A column of structs that are made of columns.
pub(super) fn struct_column<R: 'static>(id: i32, name: &str, members: Vec<Column<R>>) -> Column<R> {
    let fields = members.iter().map(|m| m.field.clone()).collect();
    let field = NestedField::required(id, name, Type::Struct(StructType::new(fields)));
    Column::checked(field, move |row| {
        let values: Result<_> = members.iter().map(|m| m.value(row)).collect();
        Ok(Some(Value::Struct(values?)))
    })
}

/// The columns of a table, or those of them that a scan wants.
pub(super) struct Columns<R> {
    columns: Vec<Arc<Column<R>>>,
    schema: SchemaRef,
}

impl<R: 'static> Columns<R> {
    pub(super) fn try_new(columns: Vec<Column<R>>) -> Result<Self> {
        let fields: Result<Vec<_>> = columns.iter().map(|c| to_arrow_field(&c.field)).collect();
        let schema = Arc::new(ArrowSchema::new(fields?));
        Ok(Self { columns: columns.into_iter().map(Arc::new).collect(), schema })
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Only these columns, in this order.
    pub(super) fn project(&self, projection: &[usize]) -> Result<Self> {
        let columns = projection.iter().map(|i| self.columns.get(*i).cloned()).collect::<Option<_>>();
        let no_column = || Error::invalid(format!("a projection {projection:?} of other columns"));
        let schema = self.schema.project(projection).map_err(|e| no_column().with_source(e))?;
        Ok(Self { columns: columns.ok_or_else(no_column)?, schema: Arc::new(schema) })
    }

    pub(super) fn batch(&self, rows: &[R]) -> Result<RecordBatch> {
        let mut arrays = Vec::with_capacity(self.columns.len());
        for (column, field) in self.columns.iter().zip(self.schema.fields()) {
            let array = || {
                let values = rows.iter().map(|row| column.value(row)).collect::<Result<Vec<_>>>()?;
                let values: Vec<_> = values.iter().map(Option::as_ref).collect();
                values_to_array(&values, &column.field.field_type, field.data_type())
            };
            arrays.push(array().context(|| format!("column `{}`", field.name()))?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)
            .map_err(|e| Error::invalid("the rows don't fit the table's columns").with_source(e))
    }
}

impl<R> fmt::Debug for Columns<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.schema.fields().iter().map(|field| field.name()).collect::<Vec<_>>().fmt(f)
    }
}
