//! Makes snapshots (spec, "Snapshots", "Manifests", "Row Lineage"): writes what is new once, and for
//! another attempt only what the commits of others changed.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::changes::Changes;
use super::commit_status::COMMIT_ID;
use super::live_files::{check_not_live, check_vectors, dangling};
use super::manifest_files::{Kind, ManifestFiles, Target};
use super::manifest_filter::{Dangling, ManifestFilter};
use super::manifest_merge::ManifestMerger;
use super::settings::{ManifestSettings, check_writable, now_ms};
use super::snapshot_base::{Base, assign_row_ids, complete};
use crate::error::{Error, ErrorKind, Result, ResultExt};
use crate::spec::{
    ContentFile, MAIN_BRANCH, ManifestContent, ManifestFile, ManifestListWriter, ManifestListWriterOptions,
    RefType, SequenceNumber, Snapshot, SnapshotId, SnapshotManifests, SnapshotRef, SnapshotSummary, SpecId,
    TableMetadata, TableProperties, TableUpdate,
};
use crate::table::Table;

/// Makes the snapshot of one action, again for each attempt.
#[derive(Debug)]
pub(super) struct SnapshotProducer {
    pub(super) branch: String,
    pub(super) properties: BTreeMap<String, String>,
    /// Whether no branch gets the snapshot.
    pub(super) stage_only: bool,
    files: ManifestFiles,
    snapshot_id: Option<SnapshotId>,
    attempts: Vec<Attempt>,
    /// The format version that the rest was written in.
    format_version: u8,
    new_data: Option<Vec<ManifestFile>>,
    new_deletes: Option<Vec<ManifestFile>>,
    data_filter: ManifestFilter,
    delete_filter: ManifestFilter,
    merger: ManifestMerger,
}

/// The files that a snapshot consists of.
#[derive(Debug)]
struct Attempt {
    list: String,
    manifests: Vec<String>,
}

impl SnapshotProducer {
    pub(super) fn new() -> Self {
        Self {
            branch: MAIN_BRANCH.to_owned(),
            properties: BTreeMap::new(),
            stage_only: false,
            files: ManifestFiles::new(),
            snapshot_id: None,
            attempts: Vec::new(),
            format_version: 0,
            new_data: None,
            new_deletes: None,
            data_filter: ManifestFilter::default(),
            delete_filter: ManifestFilter::default(),
            merger: ManifestMerger::default(),
        }
    }

    /// Reads what the snapshot is built on.
    pub(super) async fn begin<'a>(&mut self, table: &'a Table) -> Result<Base<'a>> {
        let metadata = table.metadata();
        check_writable(metadata)?;
        let is_audited = self.properties.contains_key("wap.id");
        if is_audited && !TableProperties::new(&metadata.properties).wap_enabled()? {
            let message = "it must be true for a snapshot to be staged for an audit";
            return Err(Error::invalid(message).context("table property `write.wap.enabled`"));
        }
        let parent = self.parent(metadata)?;
        let snapshot_id = self.choose_id(metadata);
        let mut manifests = match &parent {
            Some(parent) => table.manifest_list(parent).await?.as_ref().clone(),
            None => Vec::new(),
        };
        if metadata.format_version > 1 {
            for manifest in &mut manifests {
                complete(manifest, table).await?;
            }
        }
        let settings = ManifestSettings::new(metadata)?;
        Ok(Base { table, parent, manifests, snapshot_id, settings })
    }

    fn parent(&self, metadata: &TableMetadata) -> Result<Option<Arc<Snapshot>>> {
        let Some(reference) = metadata.refs.get(&self.branch) else {
            return Ok(metadata.current_snapshot().cloned());
        };
        if reference.ref_type == RefType::Tag {
            return Err(Error::invalid(format!(
                "`{}` is a tag; only branches can be written to",
                self.branch
            )));
        }
        match metadata.snapshot(reference.snapshot_id) {
            Some(snapshot) => Ok(Some(Arc::clone(snapshot))),
            None => Err(Error::invalid(format!(
                "branch `{}` names snapshot {}, which does not exist",
                self.branch, reference.snapshot_id
            ))),
        }
    }

    /// The id of the snapshot, the same for all attempts. What was written for another id or format
    /// version is of no use.
    fn choose_id(&mut self, metadata: &TableMetadata) -> SnapshotId {
        let kept = self.snapshot_id.filter(|id| metadata.snapshot(*id).is_none());
        if kept.is_none() || self.format_version != metadata.format_version {
            self.new_data = None;
            self.new_deletes = None;
            self.data_filter.clear();
            self.delete_filter.clear();
            self.merger.clear();
        }
        self.format_version = metadata.format_version;
        let id = kept.unwrap_or_else(|| {
            loop {
                let id = SnapshotId(rand::random::<i64>() & i64::MAX);
                if id.0 > 0 && metadata.snapshot(id).is_none() {
                    break id;
                }
            }
        });
        self.snapshot_id = Some(id);
        id
    }

    /// A snapshot that only adds data files; manifests stay as they are.
    pub(super) async fn fast_append(
        &mut self,
        base: &Base<'_>,
        changes: &Changes,
    ) -> Result<Vec<TableUpdate>> {
        self.check(base, changes).await?;
        let mut summary = base.summary();
        let mut manifests = self.write_new_data(base, changes, &mut summary).await?;
        manifests.extend(base.manifests.iter().cloned());
        self.snapshot(base, "append", manifests, 0, summary).await
    }

    /// A snapshot that adds and removes files; manifests are merged.
    pub(super) async fn merge(
        &mut self,
        base: &Base<'_>,
        changes: &Changes,
        operation: &str,
    ) -> Result<Vec<TableUpdate>> {
        self.check(base, changes).await?;
        let mut summary = base.summary();
        let new_data = self.write_new_data(base, changes, &mut summary).await?;
        let new_deletes = self.write_new_deletes(base, changes, &mut summary).await?;

        let target = Target {
            table: base.table,
            snapshot_id: base.snapshot_id,
            settings: &base.settings,
            files: &self.files,
        };
        let data = base.of_content(ManifestContent::Data);
        let old_data =
            self.data_filter.filter(target, data, &changes.removed_data, &Dangling::default()).await?;
        let dangling = dangling(base, changes, &old_data);
        let deletes = base.of_content(ManifestContent::Deletes);
        let old_deletes =
            self.delete_filter.filter(target, deletes.clone(), &changes.removed_deletes, &dangling).await?;
        check_vectors(base, changes, &deletes, &old_deletes).await?;

        let mut replaced = 0_usize;
        for filtered in old_data.iter().chain(&old_deletes) {
            filtered.removed.iter().for_each(|file| base.count(file, &mut summary, false));
            (0..filtered.duplicates).for_each(|_| summary.count_duplicate_delete());
            replaced = replaced.saturating_add(usize::from(!filtered.removed.is_empty()));
        }
        let mut manifests = Vec::new();
        for (new, old) in [(new_data, old_data), (new_deletes, old_deletes)] {
            let all = new.into_iter().chain(old.into_iter().map(|filtered| filtered.manifest));
            // What was removed by earlier snapshots is of no interest to this one.
            let kept =
                all.filter(|m| !m.has_no_live_files() || m.added_snapshot_id == Some(base.snapshot_id));
            let merged = self.merger.merge(target, kept.collect()).await?;
            replaced = replaced.saturating_add(merged.replaced);
            manifests.extend(merged.manifests);
        }
        let (added, removed) = summary.record_changes();
        if operation == "replace" && added > removed {
            let message = format!("{added} rows would take the place of {removed}: rewriting can't add rows");
            return Err(Error::new(ErrorKind::ValidationFailed, message));
        }
        self.snapshot(base, operation, manifests, replaced, summary).await
    }

    async fn check(&self, base: &Base<'_>, changes: &Changes) -> Result<()> {
        changes.check(base.table)?;
        if changes.refuse_live_files {
            check_not_live(base, changes).await?;
        }
        Ok(())
    }

    async fn write_new_data(
        &mut self,
        base: &Base<'_>,
        changes: &Changes,
        summary: &mut SnapshotSummary,
    ) -> Result<Vec<ManifestFile>> {
        changes.data.iter().for_each(|file| base.count(file, summary, true));
        if let Some(written) = &self.new_data {
            return Ok(written.clone());
        }
        let files = changes.data.iter().map(|file| (file, changes.data_sequence_number));
        let written = self.write_new(base, ManifestContent::Data, files).await?;
        self.new_data = Some(written.clone());
        Ok(written)
    }

    async fn write_new_deletes(
        &mut self,
        base: &Base<'_>,
        changes: &Changes,
        summary: &mut SnapshotSummary,
    ) -> Result<Vec<ManifestFile>> {
        changes.deletes.iter().for_each(|(file, _)| base.count(file, summary, true));
        if let Some(written) = &self.new_deletes {
            return Ok(written.clone());
        }
        let files = changes.deletes.iter().map(|(file, number)| (file, *number));
        let written = self.write_new(base, ManifestContent::Deletes, files).await?;
        self.new_deletes = Some(written.clone());
        Ok(written)
    }

    /// Writes manifests of added files, those of each spec on their own.
    async fn write_new(
        &self,
        base: &Base<'_>,
        content: ManifestContent,
        files: impl Iterator<Item = (&ContentFile, Option<SequenceNumber>)>,
    ) -> Result<Vec<ManifestFile>> {
        let mut of_specs: BTreeMap<SpecId, Vec<_>> = BTreeMap::new();
        for (file, number) in files {
            of_specs.entry(file.spec_id).or_default().push((file, number));
        }
        let mut manifests = Vec::new();
        for (spec_id, files) in of_specs {
            let kind = Kind { content, spec_id, partition_type: base.table.partition_type(spec_id)? };
            manifests.extend(self.target(base).added(kind, files.into_iter()).await?);
        }
        Ok(manifests)
    }

    /// Where the snapshot's manifests go.
    pub(super) fn target<'a>(&'a self, base: &'a Base<'_>) -> Target<'a> {
        Target {
            table: base.table,
            snapshot_id: base.snapshot_id,
            settings: &base.settings,
            files: &self.files,
        }
    }

    /// Writes the list of a snapshot's manifests: the updates that add the snapshot. `replaced` of its
    /// parent's manifests have others in their place.
    pub(super) async fn snapshot(
        &mut self,
        base: &Base<'_>,
        operation: &str,
        mut manifests: Vec<ManifestFile>,
        replaced: usize,
        mut summary: SnapshotSummary,
    ) -> Result<Vec<TableUpdate>> {
        let metadata = base.table.metadata();
        let sequence_number = match metadata.format_version {
            1 => SequenceNumber(0),
            _ => SequenceNumber(metadata.last_sequence_number.0.checked_add(1).ok_or_else(|| {
                Error::invalid("the sequence numbers are used up").context("field `last-sequence-number`")
            })?),
        };
        let row_ids = match metadata.format_version {
            ..3 => None,
            _ => Some((metadata.next_row_id, assign_row_ids(&mut manifests, metadata.next_row_id)?)),
        };
        let parent_snapshot_id = base.parent.as_ref().map(|parent| parent.snapshot_id);
        let mut writer = ManifestListWriter::new(ManifestListWriterOptions {
            format_version: metadata.format_version,
            snapshot_id: base.snapshot_id,
            parent_snapshot_id,
            sequence_number,
            first_row_id: row_ids.map(|(first, _)| first),
            codec: base.settings.codec,
        })?;
        for manifest in &manifests {
            writer.add(manifest)?;
        }
        let list = self.files.next_list(base.table, base.snapshot_id)?;
        let written = self.files.write(base.table, &list, writer.finish()?).await;
        written.context(|| format!("manifest list {list}"))?;

        let created = manifests.iter().filter(|m| m.added_snapshot_id == Some(base.snapshot_id)).count();
        let kept = manifests.len().saturating_sub(created);
        for (name, n) in [("created", created), ("kept", kept), ("replaced", replaced)] {
            summary.set(format!("manifests-{name}"), n.to_string());
        }
        self.properties.iter().for_each(|(name, value)| summary.set(name, value));
        summary.set(COMMIT_ID, self.files.commit_id().to_string());
        self.attempts.push(Attempt {
            list: list.clone(),
            manifests: manifests.into_iter().map(|m| m.manifest_path).collect(),
        });
        let snapshot = Snapshot {
            snapshot_id: base.snapshot_id,
            parent_snapshot_id,
            sequence_number,
            // Clocks differ, but the log of snapshots should not go back in time.
            timestamp_ms: now_ms().max(metadata.last_updated_ms),
            manifests: SnapshotManifests::List(list),
            summary: summary.build(operation, base.parent.as_deref()),
            schema_id: Some(metadata.current_schema_id),
            first_row_id: row_ids.map(|(first, _)| first),
            added_rows: row_ids.map(|(first, next)| next.saturating_sub(first)),
            key_id: None,
            extra: serde_json::Map::new(),
        };
        let mut updates = vec![TableUpdate::AddSnapshot(Arc::new(snapshot))];
        if !self.stage_only {
            let before = metadata.refs.get(&self.branch).cloned();
            let reference = before.unwrap_or_else(|| SnapshotRef::new(base.snapshot_id, RefType::Branch));
            let reference = SnapshotRef { snapshot_id: base.snapshot_id, ..reference };
            updates.push(TableUpdate::SetSnapshotRef { name: self.branch.clone(), reference });
        }
        Ok(updates)
    }

    /// Removes what was written for other attempts than the one that was committed.
    pub(super) async fn committed(&mut self, table: &Table) {
        let snapshot = self.snapshot_id.and_then(|id| table.metadata().snapshot(id));
        // Without the snapshot it can't be told which attempt it was.
        let Some(SnapshotManifests::List(list)) = snapshot.map(|s| &s.manifests) else { return };
        let Some(attempt) = self.attempts.iter().find(|attempt| attempt.list == *list) else { return };
        let keep = attempt.manifests.iter().chain([&attempt.list]).map(String::as_str).collect();
        self.files.remove_all_but(table, &keep).await;
    }

    /// Removes all that was written.
    pub(super) async fn failed(&mut self, table: &Table) {
        self.files.remove_all_but(table, &HashSet::new()).await;
    }
}
