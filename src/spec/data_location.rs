//! Where a table's new files go (`write.data.path`, `write.object-storage.enabled` and so on).

use crate::error::{Error, Result};

use super::murmur3;
use super::partition::PartitionSpec;
use super::table_properties::{TableProperties, without_slashes};
use super::value::Value;

/// Bits of a hashed path's prefix.
const HASH_BITS: usize = 20;
/// Length of each of the directories that the bits are divided into; the last takes the rest.
const DIRECTORY_BITS: usize = 4;
/// How many such directories there are before the rest.
const DIRECTORIES: usize = 3;

/// Names places for new data and delete files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataLocation {
    /// Without a slash at its end.
    root: String,
    layout: Layout,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Layout {
    /// A directory a partition.
    Directories,
    /// Directories by hash first, so that object stores can spread the load.
    Hashed {
        /// Database and table, where several tables share the root.
        context: Option<String>,
        partitions: bool,
    },
}

impl DataLocation {
    /// The places of a table's files, by its location and properties.
    ///
    /// # Errors
    /// `DataInvalid` for a property with a wrong value; `Unsupported` if the table wants a Java
    /// class to choose (`write.location-provider.impl`).
    pub fn new(table_location: &str, properties: &TableProperties<'_>) -> Result<Self> {
        if properties.get("write.location-provider.impl").is_some() {
            return Err(Error::unsupported(
                "icefloe can't load a class that chooses where files go; remove the property and set `write.data.path`",
            )
            .context("property `write.location-provider.impl`"));
        }
        let table_location = without_slashes(table_location);
        let hashed = properties.object_storage_enabled()?;
        let names: &[&str] = match hashed {
            true => &["write.data.path", "write.object-storage.path", "write.folder-storage.path"],
            false => &["write.data.path", "write.folder-storage.path"],
        };
        let root = match names.iter().find(|name| properties.get(name).is_some()) {
            Some(name) => properties.location(name)?,
            None => None,
        };
        let root = root.map_or_else(|| format!("{table_location}/data"), str::to_owned);
        let layout = if hashed {
            let context = (!root.starts_with(table_location)).then(|| last_two(table_location));
            Layout::Hashed { context, partitions: properties.object_storage_partitioned_paths()? }
        } else {
            Layout::Directories
        };
        Ok(Self { root, layout })
    }

    /// The full path of a new file called `file_name` in a partition.
    pub fn file(&self, spec: &PartitionSpec, partition: &[Option<Value>], file_name: &str) -> String {
        let with_partition = || match spec.partition_path(partition) {
            path if path.is_empty() => file_name.to_owned(),
            path => format!("{path}/{file_name}"),
        };
        let root = &self.root;
        match &self.layout {
            Layout::Directories => format!("{root}/{}", with_partition()),
            Layout::Hashed { context, partitions } => {
                let name = if *partitions { with_partition() } else { file_name.to_owned() };
                let hash = hash_directories(&name);
                match context {
                    Some(context) => format!("{root}/{hash}/{context}/{name}"),
                    None if *partitions => format!("{root}/{hash}/{name}"),
                    // One directory less to list.
                    None => format!("{root}/{hash}-{name}"),
                }
            }
        }
    }
}

/// The last two names of a location.
fn last_two(location: &str) -> String {
    let path = location.split_once("://").map_or(location, |(_, rest)| rest);
    let mut names = path.rsplit('/').filter(|name| !name.is_empty());
    match (names.next(), names.next()) {
        (Some(table), Some(database)) => format!("{database}/{table}"),
        (table, _) => table.unwrap_or_default().to_owned(),
    }
}

/// Such as `0101/0110/1001/10110010`.
fn hash_directories(name: &str) -> String {
    let hash = murmur3::hash_bytes(name.as_bytes()) as u32 & ((1 << HASH_BITS) - 1);
    let mut path = String::with_capacity(HASH_BITS + DIRECTORIES);
    for bit in 0..HASH_BITS {
        if bit > 0 && bit % DIRECTORY_BITS == 0 && bit <= DIRECTORIES * DIRECTORY_BITS {
            path.push('/');
        }
        path.push(if hash >> (HASH_BITS - 1 - bit) & 1 == 1 { '1' } else { '0' });
    }
    path
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::ids::{FieldId, SpecId};
    use super::super::partition::PartitionField;
    use super::super::transform::Transform;
    use super::*;

    fn file(location: &str, properties: &[(&str, &str)], partitioned: bool) -> String {
        let properties: BTreeMap<String, String> =
            properties.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let field = PartitionField {
            source_ids: vec![FieldId(1)],
            field_id: FieldId(1000),
            name: "p".to_owned(),
            transform: Transform::Identity,
            extra: serde_json::Map::new(),
        };
        let fields = if partitioned { vec![field] } else { vec![] };
        let values = if partitioned { vec![Some(Value::Int(1))] } else { vec![] };
        let spec = PartitionSpec { spec_id: SpecId(0), fields };
        DataLocation::new(location, &TableProperties::new(&properties)).unwrap().file(&spec, &values, "a")
    }

    #[test]
    fn a_directory_a_partition() {
        assert_eq!(file("s3://b/db/t/", &[], false), "s3://b/db/t/data/a");
        assert_eq!(file("s3://b/db/t", &[], true), "s3://b/db/t/data/p=1/a");
        assert_eq!(file("s3://b/db/t", &[("write.data.path", "s3://c/x/")], true), "s3://c/x/p=1/a");
        let old = [("write.folder-storage.path", "s3://c/y")];
        assert_eq!(file("s3://b/db/t", &old, false), "s3://c/y/a");
        assert_eq!(file("s3://b/db/t", &[("write.data.path", "file:///")], false), "file:///a");
        assert_eq!(file("s3://b/db/t", &[("write.data.path", "/")], false), "/a");
        let other = [("write.object-storage.path", "s3://c/z")];
        assert_eq!(file("s3://b/db/t", &other, false), "s3://b/db/t/data/a", "only of hashed directories");
    }

    #[test]
    fn hashed_directories() {
        let on = ("write.object-storage.enabled", "true");
        // The hash is that of Java's tests.
        assert_eq!(file("s3://b/db/t", &[on], false), "s3://b/db/t/data/0101/0110/1001/10110010/a");
        let elsewhere = [on, ("write.data.path", "s3://c/x")];
        assert_eq!(file("s3://b/db/t", &elsewhere, false), "s3://c/x/0101/0110/1001/10110010/db/t/a");
        let short = [on, ("write.object-storage.partitioned-paths", "false")];
        assert_eq!(file("s3://b/db/t", &short, true), "s3://b/db/t/data/0101/0110/1001/10110010-a");
        let path = file("s3://b/db/t", &[on], true);
        assert!(path.starts_with("s3://b/db/t/data/") && path.ends_with("/p=1/a"), "{path}");
        let old = [on, ("write.object-storage.path", "s3://c/z"), ("write.folder-storage.path", "s3://c/y")];
        assert!(file("s3://b/db/t", &old, false).starts_with("s3://c/z/0101/"));
    }

    #[test]
    fn an_empty_path_is_not_the_root() {
        for name in ["write.data.path", "write.folder-storage.path", "write.object-storage.path"] {
            for path in ["", " "] {
                let on = ("write.object-storage.enabled".to_owned(), "true".to_owned());
                let set = BTreeMap::from([on, (name.to_owned(), path.to_owned())]);
                let error = DataLocation::new("s3://b/t", &TableProperties::new(&set)).unwrap_err();
                assert!(error.to_string().contains(&format!("property `{name}`")), "{error}");
            }
        }
    }

    #[test]
    fn what_java_would_load_is_an_error() {
        let set = BTreeMap::from([("write.location-provider.impl".to_owned(), "x.Y".to_owned())]);
        let error = DataLocation::new("s3://b/t", &TableProperties::new(&set)).unwrap_err();
        assert!(error.to_string().contains("write.location-provider.impl"), "{error}");
    }
}
