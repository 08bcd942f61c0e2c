//! Names of namespaces and tables.

use std::fmt;

use crate::error::{Error, Result};

/// The path of a namespace, of one or more levels.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Namespace(Vec<String>);

impl Namespace {
    /// A namespace of these levels, the outermost first.
    ///
    /// # Errors
    /// `DataInvalid` if there are none, or one is empty.
    pub fn new<S: Into<String>>(levels: impl IntoIterator<Item = S>) -> Result<Self> {
        let levels: Vec<String> = levels.into_iter().map(Into::into).collect();
        if levels.is_empty() || levels.iter().any(String::is_empty) {
            return Err(Error::invalid("a namespace needs at least one level, and none may be empty"));
        }
        Ok(Self(levels))
    }

    /// Its levels, the outermost first.
    pub fn levels(&self) -> &[String] {
        &self.0
    }

    /// The namespace that it is in; `None` for one of the top.
    pub fn parent(&self) -> Option<Self> {
        match self.0.split_last() {
            Some((_, above)) if !above.is_empty() => Some(Self(above.to_vec())),
            _ => None,
        }
    }

    /// A namespace in this one.
    ///
    /// # Errors
    /// `DataInvalid` if the name is empty.
    pub fn child(&self, name: impl Into<String>) -> Result<Self> {
        Self::new(self.0.iter().cloned().chain([name.into()]))
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("."))
    }
}

/// The name of a table with its namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableIdent {
    namespace: Namespace,
    name: String,
}

impl TableIdent {
    /// The table `name` in `namespace`.
    ///
    /// # Errors
    /// `DataInvalid` if the name is empty.
    pub fn new(namespace: Namespace, name: impl Into<String>) -> Result<Self> {
        let name = name.into();
        match name.is_empty() {
            true => Err(Error::invalid("a table's name may not be empty")),
            false => Ok(Self { namespace, name }),
        }
    }

    /// The namespace that it is in.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Its name in the namespace.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for TableIdent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let namespace = Namespace::new(["a"]).unwrap().child("b").unwrap();
        assert_eq!(namespace.levels(), ["a", "b"]);
        assert_eq!(namespace.parent().unwrap().levels(), ["a"]);
        assert_eq!(namespace.parent().unwrap().parent(), None);
        assert_eq!(TableIdent::new(namespace.clone(), "t").unwrap().to_string(), "a.b.t");
        assert!(Namespace::new(Vec::<String>::new()).is_err());
        assert!(Namespace::new(["a", ""]).is_err());
        assert!(namespace.child("").is_err());
        assert!(TableIdent::new(namespace, "").is_err());
    }
}
