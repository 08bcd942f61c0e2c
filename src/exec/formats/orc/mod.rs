//! ORC data and delete files (spec, Appendix A, "ORC").

use std::collections::HashSet;
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::path::Path;

use super::OpenedFile;
use crate::error::{Error, Result};
use crate::spec::{NameMapping, Schema};

/// Not yet.
pub(crate) async fn open_orc(
    _store: Arc<dyn ObjectStore>,
    _path: Path,
    _size: u64,
    _schema: &Schema,
    _mapping: Option<&NameMapping>,
    _columns: &HashSet<String>,
    _batch_size: usize,
) -> Result<OpenedFile> {
    Err(Error::unsupported("ORC files"))
}
