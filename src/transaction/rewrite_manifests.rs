//! Puts the entries of manifests into other manifests.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use super::Action;
use super::manifest_files::Kind;
use super::manifest_filter::ManifestKey;
use super::snapshot_base::Base;
use super::snapshot_options::snapshot_options;
use super::snapshot_producer::SnapshotProducer;
use crate::error::{Error, ErrorKind, Result};
use crate::spec::{ContentFile, Manifest, ManifestContent, ManifestEntry, ManifestFile, SpecId, TableUpdate};
use crate::table::Table;

type ClusterBy = Box<dyn Fn(&ContentFile) -> String + Send + Sync>;
type Choose = Box<dyn Fn(&ManifestFile) -> bool + Send + Sync>;

/// Writes manifests anew, so that files which are read together are listed together. The table's
/// files stay as they are.
#[must_use = "nothing happens until it is applied to a transaction"]
pub struct RewriteManifests {
    producer: SnapshotProducer,
    content: ManifestContent,
    cluster_by: Option<ClusterBy>,
    choose: Option<Choose>,
    /// What the last attempt wrote.
    rewritten: Option<Rewritten>,
}

/// Manifests, and what is listed in their place.
#[derive(Debug, Clone, Default)]
struct Rewritten {
    old: HashSet<ManifestKey>,
    new: Vec<ManifestFile>,
    entries: usize,
}

impl Default for RewriteManifests {
    fn default() -> Self {
        Self::new()
    }
}

impl RewriteManifests {
    /// Rewrites all manifests of data files.
    pub fn new() -> Self {
        Self {
            producer: SnapshotProducer::new(),
            content: ManifestContent::Data,
            cluster_by: None,
            choose: None,
            rewritten: None,
        }
    }

    /// Rewrites the manifests of delete files instead.
    pub fn of_deletes(mut self) -> Self {
        self.content = ManifestContent::Deletes;
        self
    }

    /// Lists files with the same key together, in the order of the keys. Without it, the order of
    /// the files stays as it is. Files of different specs are never listed together.
    pub fn cluster_by(mut self, key: impl Fn(&ContentFile) -> String + Send + Sync + 'static) -> Self {
        self.cluster_by = Some(Box::new(key));
        self
    }

    /// Rewrites only the manifests for which this holds.
    pub fn rewrite_if(mut self, choose: impl Fn(&ManifestFile) -> bool + Send + Sync + 'static) -> Self {
        self.choose = Some(Box::new(choose));
        self
    }

    snapshot_options!();

    fn is_chosen(&self, manifest: &ManifestFile) -> bool {
        manifest.content == self.content && self.choose.as_ref().is_none_or(|choose| choose(manifest))
    }

    /// What to list in the place of which manifests; the same as at the last attempt, if all that it
    /// read is still there.
    async fn rewrite(&mut self, base: &Base<'_>) -> Result<Rewritten> {
        let there: HashSet<ManifestKey> = base.manifests.iter().map(ManifestKey::of).collect();
        if let Some(known) = self.rewritten.as_ref().filter(|known| known.old.is_subset(&there)) {
            return Ok(known.clone());
        }
        let mut rewritten = Rewritten::default();
        let mut groups: BTreeMap<(SpecId, String), Group> = BTreeMap::new();
        for file in base.manifests.iter().filter(|file| self.is_chosen(file)) {
            let manifest = base.table.manifest(file).await?;
            rewritten.old.insert(ManifestKey::of(file));
            for (i, entry) in manifest.entries.iter().enumerate().filter(|(_, entry)| entry.is_live()) {
                let key = self.cluster_by.as_ref().map(|key| key(&entry.data_file)).unwrap_or_default();
                let group = groups.entry((manifest.spec_id, key)).or_default();
                let manifest = group.hold(&manifest);
                group.entries.push((manifest, i));
                rewritten.entries = rewritten.entries.saturating_add(1);
            }
        }
        for ((spec_id, _), group) in groups {
            rewritten.new.extend(self.write(base, spec_id, &group).await?);
        }
        let written: i64 = rewritten.new.iter().filter_map(|m| m.existing_files_count).map(i64::from).sum();
        if usize::try_from(written).ok() != Some(rewritten.entries) {
            let message = format!("{} files would become {written}", rewritten.entries);
            return Err(Error::new(ErrorKind::ValidationFailed, message));
        }
        self.rewritten = Some(rewritten.clone());
        Ok(rewritten)
    }

    async fn write(&self, base: &Base<'_>, spec_id: SpecId, group: &Group) -> Result<Vec<ManifestFile>> {
        let target = self.producer.target(base);
        let mut manifests = Vec::new();
        let mut writer = None;
        for (manifest, entry) in group.entries() {
            let kind = Kind { content: manifest.content, spec_id, partition_type: &manifest.partition_type };
            let mut open = match writer.take() {
                Some(open) => open,
                None => target.manifest(kind)?,
            };
            open.existing(entry)?;
            match target.is_full(&open) {
                true => manifests.push(target.store(open).await?),
                false => writer = Some(open),
            }
        }
        if let Some(open) = writer {
            manifests.push(target.store(open).await?);
        }
        Ok(manifests)
    }
}

/// Entries that are listed together.
#[derive(Default)]
struct Group {
    manifests: Vec<Arc<Manifest>>,
    /// Positions of a manifest here, and of an entry in it.
    entries: Vec<(usize, usize)>,
}

impl Group {
    /// The position of a manifest, which is the last that was added or a new one.
    fn hold(&mut self, manifest: &Arc<Manifest>) -> usize {
        if !self.manifests.last().is_some_and(|last| Arc::ptr_eq(last, manifest)) {
            self.manifests.push(Arc::clone(manifest));
        }
        self.manifests.len().saturating_sub(1)
    }

    fn entries(&self) -> impl Iterator<Item = (&Manifest, &ManifestEntry)> {
        self.entries.iter().filter_map(|(manifest, entry)| {
            let manifest = self.manifests.get(*manifest)?;
            Some((manifest.as_ref(), manifest.entries.get(*entry)?))
        })
    }
}

#[async_trait]
impl Action for RewriteManifests {
    async fn updates(&mut self, table: &Table) -> Result<Vec<TableUpdate>> {
        let base = self.producer.begin(table).await?;
        let rewritten = self.rewrite(&base).await?;
        if rewritten.old.is_empty() {
            return Ok(Vec::new());
        }
        let kept = base.manifests.iter().filter(|m| !rewritten.old.contains(&ManifestKey::of(m)));
        let manifests: Vec<ManifestFile> = rewritten.new.iter().chain(kept).cloned().collect();
        let mut summary = base.summary();
        summary.set("entries-processed", rewritten.entries.to_string());
        self.producer.snapshot(&base, "replace", manifests, rewritten.old.len(), summary).await
    }

    async fn committed(&mut self, table: &Table) {
        self.producer.committed(table).await;
    }

    async fn failed(&mut self, table: &Table) {
        self.producer.failed(table).await;
    }
}

impl fmt::Debug for RewriteManifests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RewriteManifests")
            .field("producer", &self.producer)
            .field("content", &self.content)
            .finish_non_exhaustive()
    }
}
