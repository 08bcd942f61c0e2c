//! A commit by metadata file: check what must hold, apply the changes, write a new metadata file,
//! and clean up behind it. The swap itself is the catalog's.

use std::sync::Arc;

use chrono::Utc;

use super::{TableCommit, TableIdent};
use crate::error::{Error, ErrorKind, Result};
use crate::spec::{MetadataLogEntry, TableMetadata, TableProperties, TableRequirement};
use crate::storage::{Location, Storage};
use crate::table::{MetadataCodec, next_metadata_location};

/// A table as a commit finds it.
#[derive(Debug, Clone)]
pub(crate) struct Base {
    pub(crate) metadata: Arc<TableMetadata>,
    /// Where its metadata file lies, as the catalog spells it.
    pub(crate) location: String,
}

/// What a commit makes of a table.
#[derive(Debug)]
pub(crate) struct Next {
    pub(crate) metadata: TableMetadata,
    /// The metadata files that are to be removed after the commit.
    pub(crate) expired: Vec<String>,
}

impl Next {
    /// The table after `commit`; `None` if the commit changes nothing.
    ///
    /// # Errors
    /// `NotFound` if there is no table and the commit does not create it; `AlreadyExists` if there
    /// is and it does; `CommitConflict` if a requirement does not hold.
    pub(crate) fn of(commit: &TableCommit, base: Option<&Base>) -> Result<Option<Self>> {
        let next = Self::of_inner(commit, base);
        next.map_err(|e| e.context(format!("table `{}`", commit.table)))
    }

    fn of_inner(commit: &TableCommit, base: Option<&Base>) -> Result<Option<Self>> {
        let creates = commit.requirements.contains(&TableRequirement::Create);
        match (base, creates) {
            (None, false) => return Err(missing(&commit.table)),
            (Some(_), true) => return Err(taken(&commit.table)),
            _ => {}
        }
        let metadata = base.map(|base| &*base.metadata);
        for requirement in &commit.requirements {
            requirement.check(metadata)?;
        }
        if commit.updates.is_empty() && base.is_some() {
            return Ok(None);
        }
        let mut next = TableMetadata::apply(metadata, &commit.updates, Utc::now().timestamp_millis())?;
        let mut expired = Vec::new();
        if let Some(base) = base {
            let previous = MetadataLogEntry {
                timestamp_ms: base.metadata.last_updated_ms,
                metadata_file: base.location.clone(),
            };
            let fallen = next.log_previous(previous)?;
            if TableProperties::new(&next.properties).metadata_delete_after_commit()? {
                expired = fallen.into_iter().map(|entry| entry.metadata_file).collect();
            }
        }
        Ok(Some(Self { metadata: next, expired }))
    }

    /// Writes it to a metadata file of its own, which follows the file `previous`.
    ///
    /// # Errors
    /// Those of writing; the file is then gone again, as far as that can be done.
    pub(crate) async fn write(self, storage: &Storage, previous: Option<&str>) -> Result<Written> {
        let Self { metadata, expired } = self;
        let location = next_metadata_location(&metadata.location, &metadata.properties, previous)?;
        let codec = MetadataCodec::of(&metadata.properties)?;
        let file = Location::parse(&location)?;
        if let Err(e) = storage.write(&file, codec.encode(metadata.to_json()?)?).await {
            remove(storage, &location).await;
            return Err(e);
        }
        Ok(Written { metadata: Arc::new(metadata), location, expired })
    }
}

/// What a commit makes of a table, in a metadata file that nothing names yet.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) metadata: Arc<TableMetadata>,
    pub(crate) location: String,
    expired: Vec<String>,
}

impl Written {
    /// Cleans up once the swap was tried.
    pub(crate) async fn settle<T>(&self, storage: &Storage, swapped: &Result<T>) {
        match swapped {
            Ok(_) => {
                for file in &self.expired {
                    remove(storage, file).await;
                }
            }
            // It may be the table's current metadata.
            Err(e) if e.kind() == ErrorKind::CommitStateUnknown => {}
            Err(_) => remove(storage, &self.location).await,
        }
    }
}

/// Removes a file that nobody needs any more; it may stay behind if that fails.
pub(crate) async fn remove(storage: &Storage, location: &str) {
    let removed = match Location::parse(location) {
        Ok(file) => storage.delete(&file).await,
        Err(e) => Err(e),
    };
    if let Err(error) = removed {
        tracing::warn!(%location, %error, "a metadata file that is not needed any more could not be removed");
    }
}

/// The error for a table that is not there.
pub(crate) fn missing(ident: &TableIdent) -> Error {
    Error::not_found(format!("there is no table `{ident}`"))
}

/// The error for a name that is taken.
pub(crate) fn taken(ident: &TableIdent) -> Error {
    Error::new(ErrorKind::AlreadyExists, format!("there is a table or view `{ident}` already"))
}
