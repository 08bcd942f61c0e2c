//! Where files go: directories by the table's properties, names that nobody else uses.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use uuid::Uuid;

use crate::error::{Error, Result};
use crate::spec::{TableMetadata, murmur3};

/// The first format version whose paths may be relative to the table's location.
const RELATIVE_PATHS_SINCE: u8 = 4;
/// How many bits of a hash are in a path.
const HASH_BITS: usize = 20;
/// How many of them name a directory, three times; the rest names one more.
const DIRECTORY_BITS: usize = 4;
const DIRECTORIES: usize = 3;

/// The directories that a table's data and delete files go to.
#[derive(Debug, Clone)]
pub(super) struct DataLocation {
    /// Without a slash at its end.
    directory: String,
    layout: Layout,
    /// What is left out of paths: the table's location, if they are relative to it.
    base: Option<String>,
}

#[derive(Debug, Clone)]
enum Layout {
    /// `<directory>/<partition>/<file>`.
    Plain,
    /// Below directories of a hash, so that object stores spread the load.
    Hashed {
        /// The last two directories of the table's location, if the files lie elsewhere.
        context: Option<String>,
        with_partitions: bool,
    },
}

fn without_slash(location: &str) -> &str {
    let stripped = location.trim_end_matches('/');
    // The end of a scheme is no directory's.
    if stripped.ends_with(':') || stripped.is_empty() { location } else { stripped }
}

fn flag(properties: &BTreeMap<String, String>, name: &str, default: bool) -> Result<bool> {
    match properties.get(name).map(|text| text.trim().to_ascii_lowercase()) {
        None => Ok(default),
        Some(text) if text == "true" => Ok(true),
        Some(text) if text == "false" => Ok(false),
        Some(text) => {
            let message = format!("`{text}` is not true or false");
            Err(Error::invalid(message).context(format!("property `{name}`")))
        }
    }
}

impl DataLocation {
    /// By the table's location and properties (`write.data.path`, `write.object-storage.*`).
    ///
    /// # Errors
    /// `DataInvalid` for a property that can't be read.
    pub(super) fn new(metadata: &TableMetadata) -> Result<Self> {
        let properties = &metadata.properties;
        let location = without_slash(&metadata.location);
        let is_hashed = flag(properties, "write.object-storage.enabled", false)?;
        let names = ["write.data.path", "write.object-storage.path", "write.folder-storage.path"];
        let names = names.iter().filter(|name| is_hashed || **name != "write.object-storage.path");
        let given = names.filter_map(|name| properties.get(*name)).next();
        let directory = match given {
            Some(path) => without_slash(path).to_owned(),
            None => format!("{location}/data"),
        };
        let layout = match is_hashed {
            false => Layout::Plain,
            true => Layout::Hashed {
                context: (!directory.starts_with(location)).then(|| last_two(location)),
                with_partitions: flag(properties, "write.object-storage.partitioned-paths", true)?,
            },
        };
        let base = (metadata.format_version >= RELATIVE_PATHS_SINCE).then(|| format!("{location}/"));
        Ok(Self { directory, layout, base })
    }

    /// The path of a file, as metadata records it. `partition` is the partition's path, empty for a
    /// table without partitions.
    pub(super) fn path(&self, partition: &str, file: &str) -> String {
        let directory = &self.directory;
        let below = match partition {
            "" => file.to_owned(),
            partition => format!("{partition}/{file}"),
        };
        let path = match &self.layout {
            Layout::Plain => format!("{directory}/{below}"),
            Layout::Hashed { context, with_partitions } => {
                let below = if *with_partitions { below.as_str() } else { file };
                let hash = hash_directories(below);
                match (context, with_partitions) {
                    (Some(context), _) => format!("{directory}/{hash}/{context}/{below}"),
                    (None, true) => format!("{directory}/{hash}/{below}"),
                    (None, false) => format!("{directory}/{hash}-{below}"),
                }
            }
        };
        match self.base.as_deref().and_then(|base| path.strip_prefix(base)) {
            Some(relative) => relative.to_owned(),
            None => path,
        }
    }
}

/// The last two directories of a location.
fn last_two(location: &str) -> String {
    let path = location.split_once("://").map_or(location, |(_, rest)| rest);
    // A bucket is no directory.
    let path =
        if path.len() < location.len() { path.split_once('/').map_or("", |(_, rest)| rest) } else { path };
    let mut names = path.rsplit('/').filter(|name| !name.is_empty());
    match (names.next(), names.next()) {
        (Some(last), Some(parent)) => format!("{parent}/{last}"),
        (last, _) => last.unwrap_or_default().to_owned(),
    }
}

/// Such as `1001/1001/1001/10011001`.
fn hash_directories(path: &str) -> String {
    let hash = murmur3::hash_bytes(path.as_bytes()) as u32;
    let bits: Vec<char> =
        (0..HASH_BITS).rev().map(|bit| if hash >> bit & 1 == 1 { '1' } else { '0' }).collect();
    let mut result = String::new();
    for (i, bit) in bits.into_iter().enumerate() {
        if i > 0 && i % DIRECTORY_BITS == 0 && i / DIRECTORY_BITS <= DIRECTORIES {
            result.push('/');
        }
        result.push(bit);
    }
    result
}

/// Makes up the paths of the files of one writer.
#[derive(Debug)]
pub(super) struct FileNames {
    location: DataLocation,
    /// All of a name but its number and what follows.
    prefix: String,
    suffix: &'static str,
    count: AtomicU64,
}

impl FileNames {
    /// Names such as `00003-1-<operation>-00001.parquet`, which `partition`, `task` and `operation`
    /// make unique. The files of one operation can be told by it.
    pub(super) fn new(
        metadata: &TableMetadata,
        partition: usize,
        task: u64,
        operation: Uuid,
        suffix: &'static str,
    ) -> Result<Self> {
        Ok(Self {
            location: DataLocation::new(metadata)?,
            prefix: format!("{partition:05}-{task}-{operation}"),
            suffix,
            count: AtomicU64::new(0),
        })
    }

    /// The path of the next file in the partition with that path.
    pub(super) fn next(&self, partition_path: &str) -> String {
        let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        self.location.path(partition_path, &format!("{}-{number:05}{}", self.prefix, self.suffix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(table: &str, format_version: u8, properties: &[(&str, &str)]) -> DataLocation {
        let mut json = serde_json::json!({
            "format-version": format_version, "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
            "location": table, "last-updated-ms": 0, "last-sequence-number": 0, "last-column-id": 1,
            "current-schema-id": 0, "default-spec-id": 0, "last-partition-id": 999,
            "default-sort-order-id": 0, "next-row-id": 0,
            "schemas": [{"type": "struct", "schema-id": 0, "fields": [
                {"id": 1, "name": "x", "required": false, "type": "int"}]}],
            "partition-specs": [{"spec-id": 0, "fields": []}],
            "sort-orders": [{"order-id": 0, "fields": []}],
        });
        json["properties"] = properties.iter().map(|(k, v)| ((*k).to_owned(), (*v).into())).collect();
        DataLocation::new(&TableMetadata::from_json(&json.to_string().into_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn plain_paths() {
        let plain = location("s3://b/db/t/", 2, &[]);
        assert_eq!(plain.path("", "f.parquet"), "s3://b/db/t/data/f.parquet");
        assert_eq!(plain.path("p=a%2Fb", "f"), "s3://b/db/t/data/p=a%2Fb/f");
        let elsewhere = location("s3://b/t", 2, &[("write.data.path", "gs://c/x/")]);
        assert_eq!(elsewhere.path("p=1", "f"), "gs://c/x/p=1/f");
        let old = [("write.folder-storage.path", "s3://o"), ("write.object-storage.path", "s3://n")];
        assert_eq!(location("s3://b/t", 1, &old).path("", "f"), "s3://o/f");
    }

    #[test]
    fn version_four_has_relative_paths() {
        assert_eq!(location("s3://b/t", 4, &[]).path("p=1", "f"), "data/p=1/f");
        assert_eq!(location("s3://b/t", 4, &[("write.data.path", "s3://c/t")]).path("", "f"), "s3://c/t/f");
    }

    #[test]
    fn hashed_paths_are_those_of_java() {
        // The hashes are from Java's own tests of its location provider.
        let on = ("write.object-storage.enabled", "true");
        let hashed = location("s3://b/db/t", 2, &[on]);
        for (file, hash) in [
            ("a", "0101/0110/1001/10110010"),
            ("b", "1110/0111/1110/00000011"),
            ("c", "0010/1101/0110/01011111"),
            ("d", "1001/0001/0100/01110011"),
        ] {
            assert_eq!(hashed.path("", file), format!("s3://b/db/t/data/{hash}/{file}"));
        }
        let partitioned = hashed.path("p=1", "f");
        assert!(
            partitioned.ends_with("/p=1/f")
                && partitioned.len() == "s3://b/db/t/data/0101/0110/1001/10110010/p=1/f".len()
        );
        let flat = location("s3://b/db/t", 2, &[on, ("write.object-storage.partitioned-paths", "false")]);
        assert_eq!(flat.path("p=1", "a"), "s3://b/db/t/data/0101/0110/1001/10110010-a");
        let elsewhere = location("s3://b/db/t", 2, &[on, ("write.data.path", "s3://c")]);
        assert_eq!(elsewhere.path("", "a"), "s3://c/0101/0110/1001/10110010/db/t/a");
        assert_eq!(last_two("s3://b/t"), "t");
        assert_eq!(last_two("/wh/db/t"), "db/t");
    }
}
