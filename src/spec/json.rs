//! Reading JSON objects member by member, so that every error names the place it is about.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value as Json};

use crate::error::{Error, Result};

/// The place of a value in a document, linked on the stack and written out only for an error.
#[derive(Debug, Clone, Copy)]
struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    Root,
    Member(&'a str),
    Index(usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The chain is as deep as the document, which serde_json limits to 128.
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Root => Ok(()),
            Step::Member(name) if self.parent.is_some_and(|p| matches!(p.step, Step::Root)) => {
                f.write_str(name)
            }
            Step::Member(name) => write!(f, ".{name}"),
            Step::Index(i) => write!(f, "[{i}]"),
        }
    }
}

/// A JSON value and where it lies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node<'a> {
    value: &'a Json,
    path: Path<'a>,
}

impl<'a> Node<'a> {
    /// The whole document.
    pub(crate) fn root(value: &'a Json) -> Self {
        Self { value, path: Path { parent: None, step: Step::Root } }
    }

    /// The value itself.
    pub(crate) fn json(&self) -> &'a Json {
        self.value
    }

    /// An error about this value.
    pub(crate) fn error(&self, message: impl Into<String>) -> Error {
        self.locate(Error::invalid(message))
    }

    /// Adds this value's place to an error.
    pub(crate) fn locate(&self, error: Error) -> Error {
        locate(&self.path, error)
    }

    fn expected(&self, what: &str) -> Error {
        self.error(format!("expected {what}, found {}", describe(self.value)))
    }

    pub(crate) fn i64(&self) -> Result<i64> {
        self.value.as_i64().ok_or_else(|| self.expected("a 64-bit integer"))
    }

    pub(crate) fn i32(&self) -> Result<i32> {
        let wide = self.value.as_i64().ok_or_else(|| self.expected("a 32-bit integer"))?;
        i32::try_from(wide).map_err(|_| self.expected("a 32-bit integer"))
    }

    pub(crate) fn bool(&self) -> Result<bool> {
        self.value.as_bool().ok_or_else(|| self.expected("true or false"))
    }

    pub(crate) fn str(&self) -> Result<&'a str> {
        self.value.as_str().ok_or_else(|| self.expected("a string"))
    }

    pub(crate) fn string(&self) -> Result<String> {
        self.str().map(str::to_owned)
    }

    /// An object, to be read member by member.
    pub(crate) fn object(&self) -> Result<Object<'_>> {
        let members = self.value.as_object().ok_or_else(|| self.expected("an object"))?;
        Ok(Object { members, path: &self.path, seen: RefCell::new(Vec::new()) })
    }

    /// All elements of an array.
    pub(crate) fn list<T>(&self, mut read: impl FnMut(&Node<'_>) -> Result<T>) -> Result<Vec<T>> {
        let elements = self.value.as_array().ok_or_else(|| self.expected("an array"))?;
        let node = |(i, value)| Node { value, path: Path { parent: Some(&self.path), step: Step::Index(i) } };
        elements.iter().enumerate().map(node).map(|n| read(&n)).collect()
    }

    /// All members of an object whose keys are data.
    pub(crate) fn map<T>(&self, mut read: impl FnMut(&Node<'_>) -> Result<T>) -> Result<BTreeMap<String, T>> {
        let members = self.value.as_object().ok_or_else(|| self.expected("an object"))?;
        members
            .iter()
            .map(|(key, value)| {
                let path = Path { parent: Some(&self.path), step: Step::Member(key) };
                Ok((key.clone(), read(&Node { value, path })?))
            })
            .collect()
    }

    /// An object from strings to strings; numbers and booleans are taken as their text, as some
    /// writers leave the quotes out.
    pub(crate) fn string_map(&self) -> Result<BTreeMap<String, String>> {
        self.map(|node| match node.value {
            Json::Number(n) => Ok(n.to_string()),
            Json::Bool(b) => Ok(b.to_string()),
            _ => node.string(),
        })
    }
}

/// A JSON object of which the members are read by name; the rest can be had as it is.
#[derive(Debug)]
pub(crate) struct Object<'a> {
    members: &'a Map<String, Json>,
    path: &'a Path<'a>,
    seen: RefCell<Vec<&'static str>>,
}

impl<'a> Object<'a> {
    /// The member of that name; a null is the same as none.
    pub(crate) fn get(&self, name: &'static str) -> Option<Node<'a>> {
        self.seen.borrow_mut().push(name);
        let value = self.members.get(name).filter(|v| !v.is_null())?;
        Some(Node { value, path: Path { parent: Some(self.path), step: Step::Member(name) } })
    }

    /// The member of that name, read, if there is one.
    pub(crate) fn opt<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&Node<'a>) -> Result<T>,
    ) -> Result<Option<T>> {
        self.get(name).map(|node| read(&node)).transpose()
    }

    /// The member of that name, read; an error if there is none.
    pub(crate) fn req<T>(&self, name: &'static str, read: impl FnOnce(&Node<'a>) -> Result<T>) -> Result<T> {
        match self.get(name) {
            Some(node) => read(&node),
            None => {
                let path = Path { parent: Some(self.path), step: Step::Member(name) };
                Err(locate(&path, Error::invalid("is missing")))
            }
        }
    }

    /// The elements of an array, none if there is no such member.
    pub(crate) fn list<T>(
        &self,
        name: &'static str,
        read: impl FnMut(&Node<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        Ok(self.opt(name, |node| node.list(read))?.unwrap_or_default())
    }

    /// An error about the object as a whole.
    pub(crate) fn error(&self, message: impl Into<String>) -> Error {
        locate(self.path, Error::invalid(message))
    }

    /// The members that were not asked for.
    pub(crate) fn extra(&self) -> Map<String, Json> {
        let seen = self.seen.borrow();
        let rest = self.members.iter().filter(|(name, _)| !seen.contains(&name.as_str()));
        rest.map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}

fn locate(path: &Path<'_>, error: Error) -> Error {
    match path.step {
        Step::Root => error,
        _ => error.context(format!("field `{path}`")),
    }
}

/// A short description of a value for an error message.
fn describe(value: &Json) -> String {
    match value {
        Json::Null => "null".into(),
        Json::Bool(b) => b.to_string(),
        Json::Number(n) => n.to_string(),
        Json::String(s) => {
            let cut: String = s.chars().take(40).collect();
            let more = if cut.len() < s.len() { "…" } else { "" };
            format!("the string {cut:?}{more}")
        }
        Json::Array(_) => "an array".into(),
        Json::Object(_) => "an object".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn message(json: &Json, read: impl Fn(&Object<'_>) -> Result<()>) -> String {
        let node = Node::root(json);
        read(&node.object().unwrap()).unwrap_err().to_string()
    }

    #[test]
    fn errors_name_the_path() {
        let json = json!({"a": [{"b": {"c": "1"}}, {"b": {"c": 1.5}}], "n": 4_000_000_000_u64});
        let found = message(&json, |o| {
            o.list("a", |n| n.object()?.req("b", |n| n.object()?.req("c", Node::i32)).map(drop)).map(drop)
        });
        assert_eq!(
            found,
            "field `a[0].b.c`: invalid data: expected a 32-bit integer, found the string \"1\""
        );
        let json = json!({"a": [{"b": {"c": 1.0}}]});
        let found = message(&json, |o| {
            o.list("a", |n| n.object()?.req("b", |n| n.object()?.req("c", Node::i64)).map(drop)).map(drop)
        });
        assert_eq!(found, "field `a[0].b.c`: invalid data: expected a 64-bit integer, found 1.0");
        let json = json!({"n": 4_000_000_000_u64});
        assert!(message(&json, |o| o.req("n", Node::i32).map(drop)).contains("field `n`"));
        assert!(message(&json, |o| o.req("m", Node::i32).map(drop)).contains("field `m`: invalid data: is"));
    }

    #[test]
    fn the_rest_is_what_nobody_asked_for() {
        let json = json!({"a": 1, "b": null, "x": {"y": 1}});
        let node = Node::root(&json);
        let o = node.object().unwrap();
        assert_eq!(o.req("a", Node::i32).unwrap(), 1);
        assert_eq!(o.opt("b", Node::i32).unwrap(), None);
        assert_eq!(Json::Object(o.extra()), json!({"x": {"y": 1}}));
    }

    #[test]
    fn string_maps_take_numbers_as_text() {
        let json = json!({"a": "x", "b": 3, "c": true});
        let map = Node::root(&json).string_map().unwrap();
        assert_eq!(map.values().collect::<Vec<_>>(), ["x", "3", "true"]);
        assert!(Node::root(&json!({"a": null})).string_map().is_err());
        assert!(Node::root(&json!({"a": []})).string_map().is_err());
    }
}
