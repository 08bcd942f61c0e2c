//! Columns of a Parquet file are found by field id, not by name (spec, "Column Projection").
//!
//! Everything in DataFusion's Parquet scan goes by name: type coercion, pruning, page index,
//! bloom filters, row filters. So the file's schema is rewritten once, as its footer is read:
//! each field gets the name that the table has for its id, and fields that the table does not
//! have get names that no table column has. From there on names mean ids, at any depth.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use parquet::errors::ParquetError;
use parquet::file::metadata::{FileMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::schema::types::{ColumnDescPtr, SchemaDescriptor, Type as ParquetType, TypePtr};

use crate::error::{Error, Result};
use crate::spec::{FieldId, MappedField, MappedFields, NameMapping, NestedField, Schema, Type};

/// The key under which Arrow writers embed their own schema. Its field metadata would replace
/// the file's field ids, and its names would not be rewritten: it is dropped.
const ARROW_SCHEMA_KEY: &str = "ARROW:schema";

/// What a file's fields are resolved against.
#[derive(Debug, Clone)]
pub(crate) struct FieldResolution {
    /// The schema that is read, with the row lineage columns.
    pub(crate) schema: Arc<Schema>,
    /// For files that hold no field ids.
    pub(crate) name_mapping: Option<Arc<NameMapping>>,
}

impl FieldResolution {
    /// Equal for resolutions that give a file's fields the same names.
    pub(crate) fn fingerprint(&self) -> u64 {
        fn hash_fields(fields: &[&NestedField], hasher: &mut DefaultHasher) {
            fields.len().hash(hasher);
            for field in fields {
                (field.id, &field.name, std::mem::discriminant(&field.field_type)).hash(hasher);
                hash_fields(&field.field_type.children(), hasher);
            }
        }
        let mut hasher = DefaultHasher::new();
        hash_fields(&self.schema.fields().iter().collect::<Vec<_>>(), &mut hasher);
        self.name_mapping.as_ref().map(|m| m.to_json().to_string()).hash(&mut hasher);
        hasher.finish()
    }

    /// The footer, with the names that the table has for the file's fields, and without statistics
    /// of floats: Parquet's leave NaN out, which is above all numbers here. `has_no_nan` tells the
    /// fields for which they can be kept.
    ///
    /// # Errors
    /// `DataInvalid` where two fields of a struct have the same id, or the schema can't be built.
    pub(crate) fn apply(
        &self,
        metadata: ParquetMetaData,
        has_no_nan: impl Fn(FieldId) -> bool,
    ) -> Result<ParquetMetaData> {
        let file = metadata.file_metadata();
        let root = file.schema_descr().root_schema_ptr();
        let ids = match (&self.name_mapping, has_field_ids(&root)) {
            (_, true) => FieldIds::InFile,
            (Some(mapping), false) => FieldIds::Mapped(Some(&mapping.root)),
            (None, false) => FieldIds::ByPosition,
        };
        let fields = rename_struct(root.get_fields(), self.schema.fields(), ids)?;
        let renamed = ParquetType::group_type_builder(root.name())
            .with_fields(fields)
            .build()
            .map_err(|e| Error::invalid("the file's schema can't be resolved").with_source(e))?;
        let key_values = file
            .key_value_metadata()
            .map(|all| all.iter().filter(|kv| kv.key != ARROW_SCHEMA_KEY).cloned().collect::<Vec<_>>());
        let file = FileMetaData::new(
            file.version(),
            file.num_rows(),
            file.created_by().map(str::to_owned),
            key_values,
            Arc::new(SchemaDescriptor::new(Arc::new(renamed))),
            file.column_orders().cloned(),
        );
        let is_float = |column: &ColumnDescPtr| match column.physical_type() {
            PhysicalType::FLOAT | PhysicalType::DOUBLE => true,
            _ => column.logical_type_ref() == Some(&LogicalType::Float16),
        };
        let may_be_nan: Vec<bool> = file
            .schema_descr()
            .columns()
            .iter()
            .map(|column| {
                let info = column.self_type().get_basic_info();
                is_float(column) && !(info.has_id() && has_no_nan(FieldId(info.id())))
            })
            .collect();
        let mut old = metadata.into_builder();
        let column_index = old.take_column_index().map(|mut groups| {
            for group in &mut groups {
                for (index, may_be_nan) in group.iter_mut().zip(&may_be_nan) {
                    if *may_be_nan {
                        *index = ColumnIndexMetaData::NONE;
                    }
                }
            }
            groups
        });
        let offset_index = old.take_offset_index();
        let row_groups = old.take_row_groups().into_iter();
        let row_groups = match may_be_nan.contains(&true) {
            false => row_groups.collect(),
            true => row_groups
                .map(|group| without_statistics(group, &may_be_nan))
                .collect::<Result<_, ParquetError>>()
                .map_err(|e| Error::invalid("the file's row groups can't be read").with_source(e))?,
        };
        Ok(ParquetMetaData::new(file, row_groups)
            .into_builder()
            .set_column_index(column_index)
            .set_offset_index(offset_index)
            .build())
    }
}

/// The row group without minima and maxima of these columns, in pages either.
fn without_statistics(group: RowGroupMetaData, columns: &[bool]) -> Result<RowGroupMetaData, ParquetError> {
    let mut group = group.into_builder();
    let stripped = group.take_columns().into_iter().enumerate().map(|(i, column)| {
        if columns.get(i) != Some(&true) {
            return Ok(column);
        }
        let column = column.into_builder().clear_statistics();
        column.set_column_index_offset(None).set_column_index_length(None).build()
    });
    let stripped = stripped.collect::<Result<Vec<_>, ParquetError>>()?;
    group.set_column_metadata(stripped).build()
}

/// Where the ids of a struct's fields come from.
#[derive(Clone, Copy)]
enum FieldIds<'a> {
    /// From the file itself.
    InFile,
    /// From a name mapping at this level; `None` below a field that it does not have.
    Mapped(Option<&'a MappedFields>),
    /// The file has no ids and the table no mapping: the n-th column is the field n, as the
    /// reference implementation reads such files. Only for columns; nested fields are unknown.
    ByPosition,
}

impl<'a> FieldIds<'a> {
    fn of(self, field: &ParquetType, position: usize) -> Option<FieldId> {
        match self {
            FieldIds::InFile => {
                let info = field.get_basic_info();
                info.has_id().then(|| FieldId(info.id()))
            }
            FieldIds::Mapped(fields) => fields?.get(field.name())?.field_id,
            FieldIds::ByPosition => i32::try_from(position + 1).ok().map(FieldId),
        }
    }

    /// The ids one level down, below the part that `find` picks.
    fn below(self, find: impl FnOnce(&'a MappedFields) -> Option<&'a MappedField>) -> FieldIds<'a> {
        match self {
            FieldIds::InFile => FieldIds::InFile,
            FieldIds::Mapped(fields) => FieldIds::Mapped(fields.and_then(find).map(|f| &f.children)),
            FieldIds::ByPosition => FieldIds::Mapped(None),
        }
    }
}

/// Whether any field of the file has an id; then name mapping is not asked.
fn has_field_ids(field: &ParquetType) -> bool {
    field.is_group() && field.get_fields().iter().any(|f| f.get_basic_info().has_id() || has_field_ids(f))
}

fn rename_struct(fields: &[TypePtr], expected: &[NestedField], ids: FieldIds<'_>) -> Result<Vec<TypePtr>> {
    let mut seen = HashSet::new();
    let mut renamed = Vec::with_capacity(fields.len());
    for (position, field) in fields.iter().enumerate() {
        let id = ids.of(field, position);
        let target = id.and_then(|id| expected.iter().find(|f| f.id == id));
        let field = match target {
            Some(target) => {
                if !seen.insert(target.id) {
                    return Err(Error::invalid(format!("field id {} occurs twice", target.id))
                        .context(format!("field `{}`", field.name())));
                }
                let name = field.name();
                rename(field, &target.name, Some(&target.field_type), ids.below(|m| m.get(name)))?
            }
            None => rename(field, &unmatched_name(position, expected), None, ids)?,
        };
        renamed.push(field);
    }
    Ok(renamed)
}

/// A name that no field of the struct has.
fn unmatched_name(position: usize, expected: &[NestedField]) -> String {
    let mut name = format!("_unmatched_{position}");
    while expected.iter().any(|f| f.name == name) {
        name.push('_');
    }
    name
}

/// Gives a field its name; goes down into the parts that the table's type has too.
fn rename(field: &TypePtr, name: &str, expected: Option<&Type>, ids: FieldIds<'_>) -> Result<TypePtr> {
    let children = match (expected, field.is_group()) {
        (_, false) => None,
        (Some(Type::Struct(s)), true) => Some(rename_struct(field.get_fields(), &s.fields, ids)?),
        (Some(Type::List(l)), true) => {
            Some(rename_list(field.get_fields(), &l.element, ids.below(element_of))?)
        }
        (Some(Type::Map(m)), true) => Some(rename_map(field.get_fields(), &m.key, &m.value, ids)?),
        (_, true) => Some(field.get_fields().to_vec()),
    };
    rebuild(field, name, children)
}

fn element_of(fields: &MappedFields) -> Option<&MappedField> {
    fields.get("element").or(match fields.fields() {
        [only] => Some(only),
        _ => None,
    })
}

/// The parts of a LIST group: one repeated field. It is the element itself in the old two-level
/// layout, else a group around the element (the Parquet format's rules for lists).
fn rename_list(fields: &[TypePtr], element: &NestedField, ids: FieldIds<'_>) -> Result<Vec<TypePtr>> {
    let [repeated] = fields else {
        return Ok(fields.to_vec());
    };
    let is_wrapper = repeated.is_group()
        && repeated.get_fields().len() == 1
        && repeated.name() != "array"
        && !repeated.name().ends_with("_tuple");
    if !is_wrapper {
        return Ok(vec![rename(repeated, repeated.name(), Some(&element.field_type), ids)?]);
    }
    let mut inner = Vec::with_capacity(1);
    for child in repeated.get_fields() {
        inner.push(rename(child, child.name(), Some(&element.field_type), ids)?);
    }
    // The name that INT96 coercion looks for.
    Ok(vec![rebuild(repeated, "list", Some(inner))?])
}

/// The parts of a MAP group: one repeated group of a key and a value.
fn rename_map(
    fields: &[TypePtr],
    key: &NestedField,
    value: &NestedField,
    ids: FieldIds<'_>,
) -> Result<Vec<TypePtr>> {
    let [pairs] = fields else {
        return Ok(fields.to_vec());
    };
    if !pairs.is_group() {
        return Ok(fields.to_vec());
    }
    let mut inner = Vec::with_capacity(2);
    for (i, child) in pairs.get_fields().iter().enumerate() {
        let (part, name) = if i == 0 { (key, "key") } else { (value, "value") };
        inner.push(rename(child, child.name(), Some(&part.field_type), ids.below(|m| m.get(name)))?);
    }
    Ok(vec![rebuild(pairs, pairs.name(), Some(inner))?])
}

fn rebuild(field: &TypePtr, name: &str, children: Option<Vec<TypePtr>>) -> Result<TypePtr> {
    let info = field.get_basic_info();
    let id = info.has_id().then(|| info.id());
    let repetition = if info.has_repetition() { info.repetition() } else { Repetition::REQUIRED };
    let built = match (field.as_ref(), children) {
        (ParquetType::GroupType { .. }, Some(children)) => ParquetType::group_type_builder(name)
            .with_repetition(repetition)
            .with_converted_type(info.converted_type())
            .with_logical_type(info.logical_type_ref().cloned())
            .with_id(id)
            .with_fields(children)
            .build(),
        (ParquetType::PrimitiveType { physical_type, type_length, scale, precision, .. }, _) => {
            ParquetType::primitive_type_builder(name, *physical_type)
                .with_repetition(repetition)
                .with_converted_type(info.converted_type())
                .with_logical_type(info.logical_type_ref().cloned())
                .with_length(*type_length)
                .with_precision(*precision)
                .with_scale(*scale)
                .with_id(id)
                .build()
        }
        (_, None) => return Ok(Arc::clone(field)),
    };
    built.map(Arc::new).map_err(|e| {
        Error::invalid("the field can't be resolved")
            .with_source(e)
            .context(format!("field `{}`", field.name()))
    })
}
