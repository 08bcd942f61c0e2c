//! What a scan reads: a data file and what has to be known to read it right.

use std::sync::Arc;

use super::content_file::ContentFile;
use super::ids::SequenceNumber;

/// A data file to read, whole; execution splits it.
#[derive(Debug, Clone)]
pub struct FileScanTask {
    /// The data file.
    pub data_file: Arc<ContentFile>,
    /// Its data sequence number: what rows inherit as `_last_updated_sequence_number`; or
    /// [`FileScanTask::UNKNOWN`].
    pub sequence_number: SequenceNumber,
    /// The delete files that apply to it, with their data sequence numbers.
    pub deletes: Vec<DeleteFile>,
}

/// A delete file that applies to a data file.
#[derive(Debug, Clone)]
pub struct DeleteFile {
    /// The delete file.
    pub file: Arc<ContentFile>,
    /// Its data sequence number, or [`DeleteFile::APPLIES`].
    pub sequence_number: SequenceNumber,
}

impl FileScanTask {
    /// In place of a data sequence number: whoever planned the scan did not tell it. The deletes of
    /// the task have [`DeleteFile::APPLIES`] then.
    pub const UNKNOWN: SequenceNumber = SequenceNumber(-1);
}

impl DeleteFile {
    /// In place of a data sequence number: whoever planned the scan found that the file applies to
    /// the task that it is in, and that says nothing of other tasks.
    pub const APPLIES: SequenceNumber = SequenceNumber(i64::MAX);

    /// Whether it applies to its task without regard to sequence numbers.
    pub fn is_assigned(&self) -> bool {
        self.sequence_number == Self::APPLIES
    }
}
