//! What a snapshot adds and removes, and the checks that need no look at the table's files.

use std::collections::HashSet;

use super::removal::{FileKey, Removal};
use crate::error::{Error, ErrorKind, Result, ResultExt};
use crate::spec::{ContentFile, ContentType, FileFormat, PrimitiveType, SequenceNumber, Type};
use crate::table::Table;

/// The changes of one snapshot.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) data: Vec<ContentFile>,
    /// How old the added data is, if it is not new (compaction).
    pub(super) data_sequence_number: Option<SequenceNumber>,
    /// Delete files, with how old they are if they are not new.
    pub(super) deletes: Vec<(ContentFile, Option<SequenceNumber>)>,
    pub(super) removed_data: Removal,
    pub(super) removed_deletes: Removal,
    /// Whether added data files must not be in the table already.
    pub(super) refuse_live_files: bool,
}

impl Changes {
    /// Adds data files. Row ids are given to them as they are committed.
    pub(super) fn add_data(&mut self, files: impl IntoIterator<Item = ContentFile>) {
        self.data.extend(files.into_iter().map(|file| ContentFile { first_row_id: None, ..file }));
    }

    /// Adds delete files.
    pub(super) fn add_deletes(&mut self, files: impl IntoIterator<Item = ContentFile>) {
        self.deletes.extend(files.into_iter().map(|file| (file, None)));
    }

    /// The deletion vectors among the added delete files.
    pub(super) fn vectors(&self) -> impl Iterator<Item = &ContentFile> {
        self.deletes.iter().map(|(file, _)| file).filter(|file| file.is_deletion_vector())
    }

    /// Checks the added files against the table's format version and specs, and each other.
    ///
    /// # Errors
    /// `DataInvalid` for a file that can't be in the table, or is added twice; it names the file.
    pub(super) fn check(&self, table: &Table) -> Result<()> {
        let mut keys = HashSet::new();
        let deletes = self.deletes.iter().map(|(file, _)| (file, true));
        for (file, is_delete) in self.data.iter().map(|file| (file, false)).chain(deletes) {
            let place = || format!("file {}", file.file_path);
            check_file(file, table).context(place)?;
            match is_delete {
                true => check_delete_file(file, table).context(place)?,
                false => check_data_file(file).context(place)?,
            }
            if !keys.insert(FileKey::of(file)) {
                return Err(Error::invalid("it is added twice").context(place()));
            }
            if self.removed_data.names(file) || self.removed_deletes.names(file) {
                return Err(Error::invalid("it is both added and removed").context(place()));
            }
        }
        self.check_referenced(table)
    }

    /// Deletes of a data file that is removed would be lost with it, and two vectors of one would
    /// hide each other.
    fn check_referenced(&self, table: &Table) -> Result<()> {
        let removed = self.removed_data.files().map(FileKey::path);
        let removed: HashSet<String> = removed.map(|path| one_spelling(table, path)).collect();
        let mut with_vector = HashSet::new();
        for (file, _) in &self.deletes {
            let Some(data) = &file.referenced_data_file else { continue };
            let place = || format!("delete file {}", file.file_path);
            let spelled = one_spelling(table, data);
            if removed.contains(&spelled) {
                let message = format!("its data file {data} is removed by the same commit");
                return Err(Error::new(ErrorKind::ValidationFailed, message).context(place()));
            }
            if file.is_deletion_vector() && !with_vector.insert(spelled) {
                let message = format!("another deletion vector of data file {data} is added, too");
                return Err(Error::invalid(message).context(place()));
            }
        }
        Ok(())
    }
}

/// One spelling for all spellings of a path.
pub(super) fn one_spelling(table: &Table, path: &str) -> String {
    // Whoever reads the file will say what is wrong with its path.
    table.resolve(path).map_or_else(|_| path.to_owned(), |location| location.to_string())
}

fn check_file(file: &ContentFile, table: &Table) -> Result<()> {
    if file.file_path.is_empty() {
        return Err(Error::invalid("an empty path").context("field `file_path`"));
    }
    for (name, value) in
        [("record_count", file.record_count), ("file_size_in_bytes", file.file_size_in_bytes)]
    {
        if value < 0 {
            return Err(Error::invalid(format!("{value} is negative")).context(format!("field `{name}`")));
        }
    }
    let partition_type = table.partition_type(file.spec_id)?;
    let (expected, given) = (partition_type.fields.len(), file.partition.len());
    if expected != given {
        let message = format!("{given} values, but partition spec {} has {expected} fields", file.spec_id);
        return Err(Error::invalid(message).context("field `partition`"));
    }
    for (field, value) in partition_type.fields.iter().zip(&file.partition) {
        let is_known = field.field_type != Type::Primitive(PrimitiveType::Unknown);
        if let Some(value) = value.as_ref().filter(|value| is_known && !value.is_of(&field.field_type)) {
            let message = format!("{value:?} is not of type {}", field.field_type);
            return Err(Error::invalid(message).context(format!("field `partition.{}`", field.name)));
        }
    }
    Ok(())
}

fn check_data_file(file: &ContentFile) -> Result<()> {
    if file.content != ContentType::Data || file.file_format == FileFormat::Puffin {
        return Err(Error::invalid("it is a delete file, but added as a data file"));
    }
    Ok(())
}

fn check_delete_file(file: &ContentFile, table: &Table) -> Result<()> {
    let version = table.metadata().format_version;
    if version < 2 {
        return Err(Error::invalid("format version 1 has no delete files; upgrade the table"));
    }
    match file.content {
        ContentType::Data => return Err(Error::invalid("it is a data file, but added as a delete file")),
        ContentType::EqualityDeletes => {
            if file.file_format == FileFormat::Puffin {
                return Err(Error::invalid("equality deletes can't be in a Puffin file"));
            }
            if file.equality_ids.as_ref().is_none_or(Vec::is_empty) {
                return Err(Error::invalid("it has no key columns").context("field `equality_ids`"));
            }
        }
        ContentType::PositionDeletes if file.is_deletion_vector() => {
            if version < 3 {
                return Err(Error::invalid(format!("format version {version} has no deletion vectors")));
            }
            let missing = match (&file.referenced_data_file, file.content_offset, file.content_size_in_bytes)
            {
                (None, ..) => Some("referenced_data_file"),
                (_, None, _) => Some("content_offset"),
                (.., None) => Some("content_size_in_bytes"),
                _ => None,
            };
            if let Some(name) = missing {
                return Err(Error::invalid("a deletion vector needs it").context(format!("field `{name}`")));
            }
        }
        ContentType::PositionDeletes => {
            if version > 2 {
                let message = "since format version 3 positions are deleted by deletion vectors only";
                return Err(Error::invalid(message));
            }
        }
    }
    Ok(())
}
