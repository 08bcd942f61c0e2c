//! Where new tables and views lie, and what properties they get from their catalog.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::{Namespace, TableIdent};
use crate::error::{Error, Result};
use crate::storage::{Location, split_scheme};
use crate::table::OpenOptions;

/// The property of a namespace that says where it lies.
pub(crate) const LOCATION: &str = "location";

/// What a catalog that places tables itself was configured with.
#[derive(Debug, Clone)]
pub(crate) struct Placement {
    /// How its tables are opened; they share one storage and one cache.
    pub(crate) options: OpenOptions,
    /// The directory of all its namespaces, as the user spelled it, without a slash at its end.
    warehouse: String,
    defaults: TableDefaults,
    /// Whether no two tables get the same location, also if one was dropped or renamed.
    unique: bool,
}

impl Placement {
    /// Tables in `warehouse`, opened with `options`.
    ///
    /// # Errors
    /// Those of [`Location::parse`].
    pub(crate) fn new(warehouse: &str, options: OpenOptions) -> Result<Self> {
        Ok(Self {
            options: options.shared(),
            warehouse: spelled(warehouse)?,
            defaults: TableDefaults::default(),
            unique: false,
        })
    }

    /// Follows the catalog's properties `table-default.…`, `table-override.…` and
    /// `unique-table-location`.
    ///
    /// # Errors
    /// `DataInvalid` for a malformed one.
    pub(crate) fn with_properties(mut self, properties: &BTreeMap<String, String>) -> Result<Self> {
        self.defaults = TableDefaults::new(properties);
        self.unique = match properties.get("unique-table-location").map(String::as_str) {
            None | Some("false") => false,
            Some("true") => true,
            Some(other) => {
                return Err(Error::invalid(format!("`{other}` is neither true nor false"))
                    .context("property `unique-table-location`"));
            }
        };
        Ok(self)
    }

    /// Where a namespace lies that does not say so itself.
    pub(crate) fn of_namespace(&self, namespace: &Namespace) -> String {
        let mut location = self.warehouse.clone();
        for level in namespace.levels() {
            location.push('/');
            location.push_str(&directory_name(level));
        }
        location
    }

    /// Where a new table or view lies, in a namespace with these properties.
    pub(crate) fn of_table(&self, ident: &TableIdent, namespace: &BTreeMap<String, String>) -> String {
        let parent = match namespace.get(LOCATION).filter(|location| !location.is_empty()) {
            Some(location) => location.trim_end_matches('/').to_owned(),
            None => self.of_namespace(ident.namespace()),
        };
        let name = directory_name(ident.name());
        match self.unique {
            true => format!("{parent}/{name}-{}", Uuid::new_v4().simple()),
            false => format!("{parent}/{name}"),
        }
    }

    /// The properties of a new table.
    pub(crate) fn table_properties(&self, asked: BTreeMap<String, String>) -> BTreeMap<String, String> {
        self.defaults.apply(asked)
    }
}

/// The properties that a catalog gives to new tables.
#[derive(Debug, Clone, Default)]
pub(crate) struct TableDefaults {
    /// Where the table says nothing.
    defaults: BTreeMap<String, String>,
    /// Whatever the table says.
    overrides: BTreeMap<String, String>,
}

impl TableDefaults {
    pub(crate) fn new(properties: &BTreeMap<String, String>) -> Self {
        let with_prefix = |prefix: &str| {
            let named = properties.iter().filter_map(|(name, value)| {
                let name = name.strip_prefix(prefix)?;
                Some((name.to_owned(), value.clone()))
            });
            named.collect()
        };
        Self { defaults: with_prefix("table-default."), overrides: with_prefix("table-override.") }
    }

    pub(crate) fn apply(&self, asked: BTreeMap<String, String>) -> BTreeMap<String, String> {
        let mut properties = self.defaults.clone();
        properties.extend(asked);
        properties.extend(self.overrides.clone());
        properties
    }
}

/// A location as it is recorded: as the user spelled it, but absolute, with a scheme, and without a
/// slash at its end. Other engines may not know our canonical spelling (`s3a:`).
pub(crate) fn spelled(location: &str) -> Result<String> {
    let parsed = Location::parse(location)?;
    Ok(match split_scheme(location) {
        Some((scheme, _)) if !matches!(scheme, "file" | "memory") => {
            location.trim_end_matches('/').to_owned()
        }
        _ => {
            let canonical = parsed.to_string();
            canonical.strip_suffix('/').unwrap_or(&canonical).to_owned()
        }
    })
}

/// The name of a level, table or view as one segment of a path: what would be taken for something
/// else by a store or by other tools is percent-encoded, and `%` too, so that no two are the same.
fn directory_name(name: &str) -> String {
    if matches!(name, "." | "..") {
        return name.replace('.', "%2E");
    }
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '%' | '/' | '\\' | '?' | '#' => out.push_str(&format!("%{:02X}", u32::from(c))),
            c if c.is_control() => {
                c.encode_utf8(&mut [0; 4]).bytes().for_each(|b| out.push_str(&format!("%{b:02X}")));
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ident(levels: &[&str], name: &str) -> TableIdent {
        TableIdent::new(Namespace::new(levels.iter().copied()).unwrap(), name).unwrap()
    }

    fn map(list: &[(&str, &str)]) -> BTreeMap<String, String> {
        list.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn tables_lie_in_their_namespace() {
        let placement = Placement::new("s3a://b/wh/", OpenOptions::new()).unwrap();
        let none = BTreeMap::new();
        assert_eq!(placement.of_table(&ident(&["a", "b"], "t"), &none), "s3a://b/wh/a/b/t");
        let there = map(&[("location", "s3://c/x/")]);
        assert_eq!(placement.of_table(&ident(&["a", "b"], "t"), &there), "s3://c/x/t");
        let local = Placement::new("/tmp/wh/", OpenOptions::new()).unwrap();
        assert_eq!(local.of_table(&ident(&["a"], "t"), &none), "file:///tmp/wh/a/t");
        let memory = Placement::new("memory:///", OpenOptions::new()).unwrap();
        let location = memory.of_table(&ident(&["a"], "t"), &none);
        assert_eq!(location, "memory:///a/t");
        let unique = local.with_properties(&map(&[("unique-table-location", "true")])).unwrap();
        let of = |ident: &TableIdent| unique.of_table(ident, &none);
        assert_ne!(of(&ident(&["a"], "t")), of(&ident(&["a"], "t")));
    }

    #[test]
    fn no_two_names_share_a_place_or_leave_it() {
        let placement = Placement::new("/wh", OpenOptions::new()).unwrap();
        let names =
            ["..", ".", "%2E", "a/b", "a%2Fb", "a\\b", "a?b", "a#1", "a b", "ü", "a.b", "\u{1}", "'\""];
        let locations: std::collections::BTreeSet<_> = names
            .iter()
            .map(|name| {
                let location = placement.of_table(&ident(&["n"], name), &BTreeMap::new());
                let parsed = Location::parse(&location).unwrap();
                assert_eq!(parsed.to_string(), location);
                assert_eq!(parsed.parent().unwrap().to_string(), "file:///wh/n", "{name}");
                parsed.object_path().unwrap();
                location
            })
            .collect();
        assert_eq!(locations.len(), names.len());
    }

    #[test]
    fn defaults_and_overrides() {
        let properties =
            map(&[("table-default.a", "1"), ("table-default.b", "1"), ("table-override.c", "1")]);
        let applied = TableDefaults::new(&properties).apply(map(&[("b", "2"), ("c", "2"), ("d", "2")]));
        assert_eq!(applied, map(&[("a", "1"), ("b", "2"), ("c", "1"), ("d", "2")]));
    }
}
