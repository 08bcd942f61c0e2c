//! Counts of values, nulls and NaNs of the columns of a file, and the bounds of its floats, from the
//! rows: footers don't know the one, and round the others.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::filter;
use arrow::datatypes::{Float32Type, Float64Type};

use crate::error::{Error, Result};
use crate::spec::{FieldId, NestedField, PrimitiveType, Type};

/// What was seen of one field.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FieldCounts {
    /// The field.
    pub(super) id: FieldId,
    /// Values, nulls and NaNs included: rows, or elements of lists and maps.
    pub(super) values: i64,
    /// Nulls, those in null structs included.
    pub(super) nulls: i64,
    /// NaNs and bounds of floats.
    pub(super) floats: Option<Floats>,
}

/// What was seen of a field of floats.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Floats {
    /// NaNs.
    pub(super) nans: i64,
    /// The smallest and the largest of the others in IEEE 754's total order.
    pub(super) bounds: Option<(f64, f64)>,
}

/// Counts the fields of batches: those of primitive types and variants, at any depth.
#[derive(Debug)]
pub(super) struct Counter {
    /// In the order of the schema, a field before those in it.
    counts: Vec<FieldCounts>,
}

impl Counter {
    /// Nothing was seen of these columns so far.
    pub(super) fn new(fields: &[NestedField]) -> Self {
        let mut counts = Vec::new();
        for field in fields {
            prepare(field, &mut counts);
        }
        Self { counts }
    }

    /// Counts more rows: the columns in the order and the types of the fields.
    ///
    /// # Errors
    /// `DataInvalid` for columns that are not of these types.
    pub(super) fn add(&mut self, fields: &[NestedField], columns: &[ArrayRef]) -> Result<()> {
        let mut slots = self.counts.iter_mut();
        for (field, column) in fields.iter().zip(columns) {
            visit(field, column, None, &mut slots)?;
        }
        Ok(())
    }

    /// What was seen.
    pub(super) fn finish(self) -> Vec<FieldCounts> {
        self.counts
    }
}

fn prepare(field: &NestedField, counts: &mut Vec<FieldCounts>) {
    let floats = match &field.field_type {
        Type::Primitive(PrimitiveType::Float | PrimitiveType::Double) => Some(Floats::default()),
        Type::Primitive(_) | Type::Variant => None,
        nested => {
            nested.children().into_iter().for_each(|child| prepare(child, counts));
            return;
        }
    };
    counts.push(FieldCounts { id: field.id, values: 0, nulls: 0, floats });
}

type Slots<'a> = std::slice::IterMut<'a, FieldCounts>;

/// `above` are the nulls of the structs that the field lies in.
fn visit(
    field: &NestedField,
    array: &ArrayRef,
    above: Option<&NullBuffer>,
    slots: &mut Slots<'_>,
) -> Result<()> {
    let mismatch = || {
        Error::invalid(format!("an array of {} does not hold {}", array.data_type(), field.field_type))
            .context(format!("field `{}`", field.name))
    };
    let nulls = NullBuffer::union(above, array.logical_nulls().as_ref());
    let mut element = |child: &NestedField, values: ArrayRef| visit(child, &values, None, slots);
    match &field.field_type {
        Type::Struct(s) => {
            let given = array.as_struct_opt().ok_or_else(mismatch)?;
            for (child, column) in s.fields.iter().zip(given.columns()) {
                visit(child, column, nulls.as_ref(), slots)?;
            }
        }
        Type::List(l) => {
            let compact = without_hidden(array, nulls.as_ref())?;
            let list = compact.as_list_opt::<i32>().ok_or_else(mismatch)?;
            element(&l.element, used(list.values(), list.offsets()))?;
        }
        Type::Map(m) => {
            let compact = without_hidden(array, nulls.as_ref())?;
            let map = compact.as_map_opt().ok_or_else(mismatch)?;
            element(&m.key, used(map.keys(), map.offsets()))?;
            element(&m.value, used(map.values(), map.offsets()))?;
        }
        Type::Primitive(_) | Type::Variant => {
            let slot = slots.next().ok_or_else(mismatch)?;
            slot.values += array.len() as i64;
            slot.nulls += nulls.as_ref().map_or(0, NullBuffer::null_count) as i64;
            if let Some(floats) = &mut slot.floats {
                let valid = |row: &usize| nulls.as_ref().is_none_or(|n| n.is_valid(*row));
                let rows = (0..array.len()).filter(valid);
                if let Some(array) = array.as_primitive_opt::<Float32Type>() {
                    floats.add(rows.filter_map(|i| array.values().get(i).copied().map(f64::from)));
                } else if let Some(array) = array.as_primitive_opt::<Float64Type>() {
                    floats.add(rows.filter_map(|i| array.values().get(i).copied()));
                } else {
                    return Err(mismatch());
                }
            }
        }
    }
    Ok(())
}

impl Floats {
    /// Floats as doubles: the order is the same, and nothing is lost.
    fn add(&mut self, values: impl Iterator<Item = f64>) {
        for v in values {
            if v.is_nan() {
                self.nans += 1;
                continue;
            }
            match &mut self.bounds {
                None => self.bounds = Some((v, v)),
                Some((lower, upper)) => {
                    if v.total_cmp(lower).is_lt() {
                        *lower = v;
                    } else if v.total_cmp(upper).is_gt() {
                        *upper = v;
                    }
                }
            }
        }
    }
}

/// The values that the lists or maps use.
fn used(values: &ArrayRef, offsets: &OffsetBuffer<i32>) -> ArrayRef {
    let bounds = (offsets.first(), offsets.last());
    let (Some(first), Some(last)) = bounds else { return values.slice(0, 0) };
    let first = usize::try_from(*first).unwrap_or_default().min(values.len());
    let last = usize::try_from(*last).unwrap_or_default().clamp(first, values.len());
    values.slice(first, last - first)
}

/// The lists or maps without the null ones, if these have something in them all the same.
fn without_hidden(array: &ArrayRef, nulls: Option<&NullBuffer>) -> Result<ArrayRef> {
    let Some(nulls) = nulls.filter(|n| n.null_count() > 0) else { return Ok(array.clone()) };
    let offsets = match (array.as_list_opt::<i32>(), array.as_map_opt()) {
        (Some(list), _) => list.offsets(),
        (_, Some(map)) => map.offsets(),
        _ => return Ok(array.clone()),
    };
    let lengths = offsets.lengths().enumerate();
    if !lengths.into_iter().any(|(row, length)| length > 0 && nulls.is_null(row)) {
        return Ok(array.clone());
    }
    let mask = arrow::array::BooleanArray::new(nulls.inner().clone(), None);
    filter(array, &mask).map_err(|e| Error::invalid("lists can't be counted").with_source(e))
}
