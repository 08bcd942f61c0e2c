//! Columns by name, as people write them.

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::spec::{FieldId, NestedField, Schema, Type};

/// The fields of a schema by full name (`points.element.x`), and by the shorter one that leaves out
/// `element` and `value` in front of a struct's fields (`points.x`).
#[derive(Debug)]
pub(super) struct Columns {
    case_sensitive: bool,
    /// `None` where several fields have the name.
    ids: HashMap<String, Option<FieldId>>,
}

impl Columns {
    pub(super) fn new(schema: &Schema, case_sensitive: bool) -> Self {
        let mut names = Vec::new();
        for field in schema.fields() {
            collect(field, &field.name, &field.name, &mut names);
        }
        let mut ids = HashMap::new();
        let key = |name: &str| key(name, case_sensitive);
        for (full, _, id) in &names {
            ids.entry(key(full)).and_modify(|id| *id = None).or_insert(Some(*id));
        }
        // A full name takes precedence over a shortened one.
        let mut short_ids = HashMap::new();
        for (_, short, id) in &names {
            if let Some(short) = short.as_deref().map(key).filter(|short| !ids.contains_key(short)) {
                short_ids.entry(short).and_modify(|id| *id = None).or_insert(Some(*id));
            }
        }
        ids.extend(short_ids);
        Self { case_sensitive, ids }
    }

    /// The field of that name.
    ///
    /// # Errors
    /// `DataInvalid` if several fields have it.
    pub(super) fn find(&self, name: &str) -> Result<Option<FieldId>> {
        match self.ids.get(&self.key(name)) {
            Some(None) => Err(Error::invalid(format!("several columns are called `{name}`"))),
            Some(Some(id)) => Ok(Some(*id)),
            None => Ok(None),
        }
    }

    /// The field of that name.
    ///
    /// # Errors
    /// `DataInvalid` if there is none, or several.
    pub(super) fn get(&self, name: &str) -> Result<FieldId> {
        self.find(name)?.ok_or_else(|| Error::invalid(format!("there is no column `{name}`")))
    }

    /// What names are compared by.
    pub(super) fn key(&self, name: &str) -> String {
        key(name, self.case_sensitive)
    }
}

fn key(name: &str, case_sensitive: bool) -> String {
    if case_sensitive { name.to_owned() } else { name.to_lowercase() }
}

/// Full name, shorter name if there is one, and id of a field and those below it.
type Names = Vec<(String, Option<String>, FieldId)>;

fn collect(field: &NestedField, full: &str, short: &str, names: &mut Names) {
    names.push((full.to_owned(), (full != short).then(|| short.to_owned()), field.id));
    for child in field.field_type.children() {
        let child_full = format!("{full}.{}", child.name);
        let is_struct = matches!(child.field_type, Type::Struct(_));
        let is_part = matches!(field.field_type, Type::List(_) | Type::Map(_));
        if is_part && is_struct && child.name != "key" {
            // The shorter name is the list's or the map's own: only what is below gets one.
            names.push((child_full.clone(), None, child.id));
            for inner in child.field_type.children() {
                let (full, short) =
                    (format!("{child_full}.{}", inner.name), format!("{short}.{}", inner.name));
                collect(inner, &full, &short, names);
            }
        } else {
            collect(child, &child_full, &format!("{short}.{}", child.name), names);
        }
    }
}

/// The field that each field lies in.
pub(super) fn parents(schema: &Schema) -> HashMap<FieldId, FieldId> {
    let mut parents = HashMap::new();
    let mut open: Vec<&NestedField> = schema.fields().iter().collect();
    while let Some(field) = open.pop() {
        for child in field.field_type.children() {
            parents.insert(child.id, field.id);
            open.push(child);
        }
    }
    parents
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{ListType, MapType, PrimitiveType as P, SchemaId, StructType};

    fn schema() -> Schema {
        let point = |x: i32| StructType::new(vec![NestedField::required(x, "x", P::Double)]);
        let fields = vec![
            NestedField::optional(1, "points", ListType::new(2, point(3), false)),
            NestedField::optional(4, "m", MapType::new(5, point(6), 7, point(8), false)),
            NestedField::optional(9, "tags", ListType::new(10, P::String, false)),
            NestedField::optional(11, "Tags", P::Int),
        ];
        Schema::new(SchemaId(0), fields, vec![]).unwrap()
    }

    #[test]
    fn full_and_short_names() {
        let columns = Columns::new(&schema(), true);
        for (name, id) in [
            ("points", 1),
            ("points.element", 2),
            ("points.element.x", 3),
            ("points.x", 3),
            ("m.key", 5),
            ("m.key.x", 6),
            ("m.value.x", 8),
            ("m.x", 8),
            ("tags.element", 10),
            ("Tags", 11),
        ] {
            assert_eq!(columns.get(name).unwrap(), FieldId(id), "{name}");
        }
        assert!(columns.find("Points").unwrap().is_none());
        assert!(columns.get("points.y").unwrap_err().to_string().contains("`points.y`"));
    }

    #[test]
    fn without_case_names_may_be_ambiguous() {
        let columns = Columns::new(&schema(), false);
        assert_eq!(columns.get("POINTS.X").unwrap(), FieldId(3));
        assert!(columns.find("tags").unwrap_err().to_string().contains("several columns"));
    }

    #[test]
    fn parents_of_all() {
        let parents = parents(&schema());
        assert_eq!(parents.get(&FieldId(3)), Some(&FieldId(2)));
        assert_eq!(parents.get(&FieldId(2)), Some(&FieldId(1)));
        assert_eq!(parents.get(&FieldId(1)), None);
    }
}
