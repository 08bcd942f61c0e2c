//! Names of new files, that nobody else uses.

use std::sync::atomic::{AtomicU64, Ordering};

use uuid::Uuid;

use crate::error::Result;
use crate::spec::{DataLocation, PartitionSpec, TableMetadata, TableProperties, Value};

/// The first format version whose paths may be relative to the table's location.
const RELATIVE_PATHS_SINCE: u8 = 4;

/// Makes up the paths of the files of one writer.
#[derive(Debug)]
pub(super) struct FileNames {
    location: DataLocation,
    /// What is left out of paths, if they are relative to it.
    base: Option<String>,
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
        let location = &metadata.location;
        let base = (metadata.format_version >= RELATIVE_PATHS_SINCE)
            .then(|| format!("{}/", location.strip_suffix('/').unwrap_or(location)));
        Ok(Self {
            location: DataLocation::new(location, &TableProperties::new(&metadata.properties))?,
            base,
            prefix: format!("{partition:05}-{task}-{operation}"),
            suffix,
            count: AtomicU64::new(0),
        })
    }

    /// The path of the next file in that partition, as metadata records it.
    pub(super) fn next(&self, spec: &PartitionSpec, partition: &[Option<Value>]) -> String {
        let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let path =
            self.location.file(spec, partition, &format!("{}-{number:05}{}", self.prefix, self.suffix));
        match self.base.as_deref().and_then(|base| path.strip_prefix(base)) {
            Some(relative) => relative.to_owned(),
            None => path,
        }
    }
}
