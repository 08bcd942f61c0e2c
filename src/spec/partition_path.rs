//! The directory of a partition, as engines name it: `day=2024-03-01/kind=a%2Fb`.

use std::fmt::Write;

use super::partition::PartitionSpec;
use super::partition_text::partition_text;
use super::value::Value;

impl PartitionSpec {
    /// The directory of the partition with these values, relative to the table's data; empty
    /// for a spec without fields. Nothing ever reads it: values come from manifests.
    pub fn partition_path(&self, values: &[Option<Value>]) -> String {
        let mut path = String::new();
        for (i, field) in self.fields.iter().enumerate() {
            let text = match values.get(i).and_then(Option::as_ref) {
                Some(value) => partition_text(&field.transform, value),
                None => "null".to_owned(),
            };
            if i > 0 {
                path.push('/');
            }
            push_escaped(&mut path, &field.name);
            path.push('=');
            push_escaped(&mut path, &text);
        }
        path
    }
}

/// Escapes as in the query of a URL, where a space is a `+`: so does Java.
fn push_escaped(path: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'*' | b'_' => {
                path.push(char::from(byte))
            }
            b' ' => path.push('+'),
            // Writing to a string never fails.
            _ => drop(write!(path, "%{byte:02X}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ids::{FieldId, SpecId};
    use super::super::partition::PartitionField;
    use super::super::transform::Transform;
    use super::*;

    fn spec(fields: &[(&str, Transform)]) -> PartitionSpec {
        let field = |(name, transform): &(&str, Transform)| PartitionField {
            source_ids: vec![FieldId(1)],
            field_id: FieldId(1000),
            name: (*name).to_owned(),
            transform: transform.clone(),
            extra: serde_json::Map::new(),
        };
        PartitionSpec { spec_id: SpecId(0), fields: fields.iter().map(field).collect() }
    }

    #[test]
    fn values_are_text_that_no_path_misreads() {
        let spec = spec(&[("ts day", Transform::Day), ("k", Transform::Identity), ("v", Transform::Void)]);
        let values = [Some(Value::Date(0)), Some(Value::String("a/b=ü %".into())), None];
        assert_eq!(spec.partition_path(&values), "ts+day=1970-01-01/k=a%2Fb%3D%C3%BC+%25/v=null");
    }

    #[test]
    fn no_fields_no_directory() {
        assert_eq!(spec(&[]).partition_path(&[]), "");
    }
}
