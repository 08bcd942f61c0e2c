//! Which delete files apply to a data file (spec, "Scan Planning": the scope rules). A pure
//! look-up by path, partition and sequence number.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::spec::{
    ContentFile, ContentType, DeleteFile, FieldId, PartitionValues, PrimitiveType, SequenceNumber, SpecId,
    Value,
};

/// The id of `file_path` in position delete files (spec, "Reserved Field IDs").
const DELETE_FILE_PATH_ID: FieldId = FieldId(i32::MAX - 101);

/// What the index has to know of the table.
pub(crate) trait DeleteScope {
    /// Whether all rows of that spec lie in one partition; its equality deletes are global.
    fn is_unpartitioned(&self, spec: SpecId) -> bool;
    /// The type of a field of any of the table's schemas, newest first.
    fn field_type(&self, id: FieldId) -> Option<PrimitiveType>;
    /// One spelling for all spellings of a path.
    fn canonical<'a>(&self, path: &'a str) -> Cow<'a, str>;
}

/// The live delete files of a snapshot.
#[derive(Debug, Default)]
pub(crate) struct DeleteIndex {
    /// Deletion vectors by the path of their data file.
    vectors: HashMap<String, DeleteFile>,
    /// Position delete files that name their only data file.
    by_path: HashMap<String, Aged>,
    /// Position delete files of a partition.
    positions: HashMap<Partition, Aged>,
    /// Equality delete files of a partition.
    equality: HashMap<Partition, Aged>,
    /// Equality delete files that apply everywhere.
    global: Aged,
}

/// A partition: its spec and its tuple, with NaNs made equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Partition(SpecId, PartitionValues);

impl Partition {
    fn of(file: &ContentFile) -> Self {
        let normal = |v: &Option<Value>| match v {
            Some(Value::Float(f)) if f.is_nan() => Some(Value::Float(f32::NAN)),
            Some(Value::Double(f)) if f.is_nan() => Some(Value::Double(f64::NAN)),
            v => v.clone(),
        };
        Self(file.spec_id, file.partition.iter().map(normal).collect())
    }
}

/// Delete files by ascending sequence number.
#[derive(Debug, Default)]
struct Aged(Vec<DeleteFile>);

impl Aged {
    fn sort(&mut self) {
        self.0.sort_by_key(|d| d.sequence_number);
    }

    fn at_least(&self, number: SequenceNumber) -> &[DeleteFile] {
        self.0.get(self.0.partition_point(|d| d.sequence_number < number)..).unwrap_or(&[])
    }

    fn above(&self, number: SequenceNumber) -> &[DeleteFile] {
        self.0.get(self.0.partition_point(|d| d.sequence_number <= number)..).unwrap_or(&[])
    }
}

impl DeleteIndex {
    /// Sorts delete files by what they apply to.
    ///
    /// # Errors
    /// `DataInvalid` for a deletion vector without its data file, or two for the same one.
    pub(crate) fn new(files: Vec<DeleteFile>, scope: &dyn DeleteScope) -> Result<Self> {
        let mut index = Self::default();
        for delete in files {
            let file = &delete.file;
            let place = |e: Error| e.context(format!("delete file {}", file.file_path));
            match file.content {
                ContentType::PositionDeletes if file.is_deletion_vector() => {
                    let path = file.referenced_data_file.as_deref().ok_or_else(|| {
                        place(Error::invalid("a deletion vector does not say which data file it belongs to"))
                    })?;
                    let path = scope.canonical(path).into_owned();
                    if let Some(other) = index.vectors.get(&path) {
                        return Err(place(Error::invalid(format!(
                            "data file {path} has two deletion vectors; the other is in {}",
                            other.file.file_path
                        ))));
                    }
                    index.vectors.insert(path, delete);
                }
                ContentType::PositionDeletes => match only_data_file(file) {
                    Some(path) => {
                        let path = scope.canonical(&path).into_owned();
                        index.by_path.entry(path).or_default().0.push(delete);
                    }
                    None => index.positions.entry(Partition::of(file)).or_default().0.push(delete),
                },
                ContentType::EqualityDeletes => {
                    // By the spec's fields: ids are no proof, an old writer may have reused one.
                    match scope.is_unpartitioned(file.spec_id) {
                        true => index.global.0.push(delete),
                        false => index.equality.entry(Partition::of(file)).or_default().0.push(delete),
                    }
                }
                ContentType::Data => {
                    return Err(place(Error::invalid("a delete manifest lists a data file")));
                }
            }
        }
        index.global.sort();
        index.by_path.values_mut().for_each(Aged::sort);
        index.positions.values_mut().for_each(Aged::sort);
        index.equality.values_mut().for_each(Aged::sort);
        Ok(index)
    }

    /// Whether there is nothing to apply.
    pub(crate) fn is_empty(&self) -> bool {
        self.vectors.is_empty()
            && self.by_path.is_empty()
            && self.positions.is_empty()
            && self.equality.is_empty()
            && self.global.0.is_empty()
    }

    /// The delete files that apply to a data file with that data sequence number.
    ///
    /// # Errors
    /// `DataInvalid` for a deletion vector that is older than its data file.
    pub(crate) fn for_file(
        &self,
        file: &ContentFile,
        number: SequenceNumber,
        scope: &dyn DeleteScope,
    ) -> Result<Vec<DeleteFile>> {
        let mut applied = Vec::new();
        if self.is_empty() {
            return Ok(applied);
        }
        let path = scope.canonical(&file.file_path);
        let partition = Partition::of(file);
        match self.vectors.get(path.as_ref()) {
            Some(vector) if vector.sequence_number < number => {
                return Err(Error::invalid(format!(
                    "the deletion vector in {} has sequence number {}, below its data file's {number}",
                    vector.file.file_path, vector.sequence_number
                ))
                .context(format!("data file {}", file.file_path)));
            }
            // A vector holds all deletes of the position delete files before it.
            Some(vector) => applied.push(vector.clone()),
            None => {
                if let Some(deletes) = self.by_path.get(path.as_ref()) {
                    applied.extend_from_slice(deletes.at_least(number));
                }
                if let Some(deletes) = self.positions.get(&partition) {
                    let near = deletes.at_least(number).iter();
                    applied.extend(near.filter(|d| may_name(&d.file, &file.file_path)).cloned());
                }
            }
        }
        let of_partition = self.equality.get(&partition).map_or(&[][..], |d| d.above(number));
        let equality = self.global.above(number).iter().chain(of_partition);
        applied.extend(equality.filter(|d| may_share_keys(&d.file, file, scope)).cloned());
        Ok(applied)
    }
}

/// The only data file that a position delete file names, if it is known.
fn only_data_file(file: &ContentFile) -> Option<String> {
    if let Some(path) = &file.referenced_data_file {
        return Some(path.clone());
    }
    let lower = file.metrics.lower_bound(DELETE_FILE_PATH_ID)?;
    let upper = file.metrics.upper_bound(DELETE_FILE_PATH_ID)?;
    // A bound that was cut is never equal to the other one: the upper was rounded up.
    if lower != upper {
        return None;
    }
    String::from_utf8(lower.to_vec()).ok()
}

/// Whether a position delete file can name that data file, by the bounds of its paths.
fn may_name(delete: &ContentFile, path: &str) -> bool {
    let bounds =
        (delete.metrics.lower_bound(DELETE_FILE_PATH_ID), delete.metrics.upper_bound(DELETE_FILE_PATH_ID));
    let (Some(lower), Some(upper)) = bounds else { return true };
    let path = path.as_bytes();
    // Bounds are of the spelling that the delete file uses: `file:/x` is `file:///x`.
    let same_spelling = |bound: &[u8]| bound.len() >= 8 && path.get(..8) == bound.get(..8);
    if !same_spelling(lower) || !same_spelling(upper) {
        return true;
    }
    lower <= path && path <= upper
}

/// Whether a row of the data file can have a key of the equality delete file, by their metrics.
fn may_share_keys(delete: &ContentFile, data: &ContentFile, scope: &dyn DeleteScope) -> bool {
    let Some(keys) = &delete.equality_ids else { return true };
    keys.iter().all(|id| may_share_key(*id, delete, data, scope).unwrap_or(true))
}

/// `None`: not known.
fn may_share_key(
    id: FieldId,
    delete: &ContentFile,
    data: &ContentFile,
    scope: &dyn DeleteScope,
) -> Option<bool> {
    let field_type = scope.field_type(id)?;
    // Bounds leave NaN out, and are not told by the sign of zero; those of UUIDs may be of signed
    // halves.
    if matches!(field_type, PrimitiveType::Float | PrimitiveType::Double | PrimitiveType::Uuid)
        || field_type.is_opaque()
    {
        return None;
    }
    let nulls = |f: &ContentFile| f.metrics.null_value_count(id);
    let only_nulls = |f: &ContentFile| Some(nulls(f)? == f.metrics.value_count(id)?);
    // A file that lacks the column has no counts: nothing is known then.
    let delete_has_null = nulls(delete).map(|n| n > 0);
    let data_has_null = nulls(data).map(|n| n > 0);
    if delete_has_null != Some(false) && data_has_null != Some(false) {
        return None;
    }
    if only_nulls(delete) == Some(true) && data_has_null == Some(false)
        || only_nulls(data) == Some(true) && delete_has_null == Some(false)
    {
        return Some(false);
    }
    let bound = |bytes: Option<&[u8]>| Value::from_bytes(&field_type, bytes?).ok();
    let (delete_lower, delete_upper) =
        (bound(delete.metrics.lower_bound(id))?, bound(delete.metrics.upper_bound(id))?);
    let (data_lower, data_upper) =
        (bound(data.metrics.lower_bound(id))?, bound(data.metrics.upper_bound(id))?);
    let contradict = |lower: &Value, upper: &Value| lower.compare(upper) == Some(Ordering::Greater);
    if contradict(&delete_lower, &delete_upper) || contradict(&data_lower, &data_upper) {
        return None;
    }
    let apart = delete_upper.compare(&data_lower)? == Ordering::Less
        || data_upper.compare(&delete_lower)? == Ordering::Less;
    Some(!apart)
}
