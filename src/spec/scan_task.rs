//! What a scan reads: a data file and what has to be known to read it right.

use std::sync::Arc;

use super::content_file::ContentFile;
use super::ids::SequenceNumber;

/// A data file to read, whole; execution splits it.
#[derive(Debug, Clone)]
pub struct FileScanTask {
    /// The data file.
    pub data_file: Arc<ContentFile>,
    /// Its data sequence number: what rows inherit as `_last_updated_sequence_number`.
    pub sequence_number: SequenceNumber,
    /// The delete files that apply to it, with their data sequence numbers.
    pub deletes: Vec<DeleteFile>,
}

/// A delete file that applies to a data file.
#[derive(Debug, Clone)]
pub struct DeleteFile {
    /// The delete file.
    pub file: Arc<ContentFile>,
    /// Its data sequence number.
    pub sequence_number: SequenceNumber,
}
