//! The answers of a server that plans scans (REST spec, `ScanTasks`).

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value as Json;

use super::content_files::read_content_file;
use crate::error::{Error, Result, ResultExt};
use crate::spec::{ContentFile, ContentType, DeleteFile, FileScanTask};
use crate::table::Table;

/// How far a plan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlanStatus {
    Completed,
    Submitted,
    Cancelled,
    Failed,
}

impl PlanStatus {
    pub(super) fn read(reply: &Json) -> Result<Self> {
        let invalid = |message: &str| Err(Error::invalid(message).context("field `status`"));
        match reply.get("status").and_then(Json::as_str) {
            Some("completed") => Ok(Self::Completed),
            Some("submitted") => Ok(Self::Submitted),
            Some("cancelled") => Ok(Self::Cancelled),
            Some("failed") => Ok(Self::Failed),
            Some(_) => invalid("the server's plan has a status that there is not"),
            None => invalid("the server's plan has no status"),
        }
    }
}

/// The tasks of a plan, put together from several answers.
pub(super) struct ScanTasks<'a> {
    table: &'a Table,
    tasks: Vec<FileScanTask>,
    /// Their data files.
    seen: HashSet<String>,
}

impl<'a> ScanTasks<'a> {
    pub(super) fn new(table: &'a Table) -> Self {
        Self { table, tasks: Vec::new(), seen: HashSet::new() }
    }

    pub(super) fn finish(self) -> Vec<FileScanTask> {
        self.tasks
    }

    /// Takes the tasks of an answer. Gives the plan tasks that more are to be fetched by.
    ///
    /// # Errors
    /// `DataInvalid` for whatever is not as the protocol says: it could be rows that are missing, or
    /// there twice.
    pub(super) fn add(&mut self, reply: &Json) -> Result<Vec<String>> {
        let mut deletes = Vec::new();
        for (i, file) in array(reply, "delete-files")?.iter().enumerate() {
            let place = || format!("field `delete-files[{i}]`");
            let file = read_content_file(file, self.table).context(place)?;
            if file.content == ContentType::Data {
                return Err(Error::invalid("expected a delete file, found a data file").context(place()));
            }
            deletes.push(DeleteFile { file: Arc::new(file), sequence_number: DeleteFile::APPLIES });
        }
        for (i, task) in array(reply, "file-scan-tasks")?.iter().enumerate() {
            let task = self.task(task, &deletes).context(|| format!("field `file-scan-tasks[{i}]`"))?;
            self.tasks.push(task);
        }
        let plan_tasks = array(reply, "plan-tasks")?.iter().map(|task| task.as_str().map(str::to_owned));
        let plan_tasks: Option<Vec<String>> = plan_tasks.collect();
        plan_tasks.ok_or_else(|| Error::invalid("expected an array of strings").context("field `plan-tasks`"))
    }

    fn task(&mut self, task: &Json, deletes: &[DeleteFile]) -> Result<FileScanTask> {
        let file = task.get("data-file").ok_or_else(|| Error::invalid("the `data-file` is missing"))?;
        let place = || "field `data-file`".to_owned();
        let file = read_content_file(file, self.table).context(place)?;
        if file.content != ContentType::Data {
            return Err(Error::invalid("expected a data file, found a delete file").context(place()));
        }
        let mut own: Vec<DeleteFile> = Vec::new();
        let mut used = HashSet::new();
        let place = || "field `delete-file-references`".to_owned();
        for reference in array(task, "delete-file-references")? {
            let index = reference.as_u64().and_then(|i| usize::try_from(i).ok());
            let delete = index.and_then(|i| deletes.get(i)).ok_or_else(|| {
                let message = format!("there is no delete file {reference}; there are {}", deletes.len());
                Error::invalid(message).context(place())
            })?;
            if used.insert(index) {
                self.check_vector(&file, &delete.file, &own).context(place)?;
                own.push(delete.clone());
            }
        }
        let path = self.table.resolve(&file.file_path)?.to_string();
        if !self.seen.insert(path) {
            let message =
                format!("data file {} is planned twice, and there is no reading a part", file.file_path);
            return Err(Error::invalid(message));
        }
        Ok(FileScanTask { data_file: Arc::new(file), sequence_number: FileScanTask::UNKNOWN, deletes: own })
    }

    /// Fails for a deletion vector of another file, and for a second one.
    fn check_vector(&self, file: &ContentFile, delete: &ContentFile, own: &[DeleteFile]) -> Result<()> {
        if !delete.is_deletion_vector() {
            return Ok(());
        }
        if own.iter().any(|other| other.file.is_deletion_vector()) {
            return Err(Error::invalid(format!("data file {} has two deletion vectors", file.file_path)));
        }
        let Some(referenced) = &delete.referenced_data_file else { return Ok(()) };
        match self.table.resolve(referenced)? == self.table.resolve(&file.file_path)? {
            true => Ok(()),
            false => Err(Error::invalid(format!(
                "the deletion vector of {referenced} is no vector of data file {}",
                file.file_path
            ))),
        }
    }
}

/// A member that is an array; none is an empty one.
fn array<'a>(json: &'a Json, member: &str) -> Result<&'a [Json]> {
    match json.get(member) {
        None | Some(Json::Null) => Ok(&[]),
        Some(Json::Array(elements)) => Ok(elements),
        Some(_) => Err(Error::invalid("expected an array").context(format!("field `{member}`"))),
    }
}
