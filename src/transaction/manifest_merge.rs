//! Merges small manifests, so that there don't get too many.

use std::collections::{BTreeMap, HashMap};

use super::manifest_files::{Kind, Target};
use super::manifest_filter::ManifestKey;
use crate::error::Result;
use crate::spec::{ManifestFile, ManifestStatus, SpecId, UNASSIGNED_SEQUENCE_NUMBER};

/// Merges manifests, and remembers the results for the next attempt.
#[derive(Debug, Default)]
pub(super) struct ManifestMerger {
    results: HashMap<Vec<ManifestKey>, ManifestFile>,
}

/// What became of manifests.
#[derive(Debug, Default)]
pub(super) struct Merged {
    pub(super) manifests: Vec<ManifestFile>,
    /// How many of earlier snapshots are not among them any more.
    pub(super) replaced: usize,
}

impl ManifestMerger {
    /// Forgets all results: they are of another snapshot or format version.
    pub(super) fn clear(&mut self) {
        self.results.clear();
    }

    /// Merges manifests of one content, the newest first. Those that are merged follow each other
    /// and have one spec; the one that gets too short is the newest, which is merged next time.
    pub(super) async fn merge(&mut self, target: Target<'_>, manifests: Vec<ManifestFile>) -> Result<Merged> {
        let Some(first) = manifests.first().map(ManifestKey::of).filter(|_| target.settings.merge) else {
            return Ok(Merged { manifests, replaced: 0 });
        };
        let mut of_specs: BTreeMap<SpecId, Vec<ManifestFile>> = BTreeMap::new();
        for manifest in manifests {
            of_specs.entry(manifest.partition_spec_id).or_default().push(manifest);
        }
        let mut merged = Merged::default();
        for group in of_specs.into_values().rev() {
            for bin in pack_from_the_end(group, target.settings.target_size) {
                let has_first = bin.iter().any(|manifest| ManifestKey::of(manifest) == first);
                if bin.len() == 1 || has_first && bin.len() < target.settings.min_count_to_merge {
                    merged.manifests.extend(bin);
                    continue;
                }
                let old = bin.iter().filter(|m| m.added_snapshot_id != Some(target.snapshot_id)).count();
                merged.replaced = merged.replaced.saturating_add(old);
                merged.manifests.push(self.merge_all(target, bin).await?);
            }
        }
        Ok(merged)
    }

    async fn merge_all(&mut self, target: Target<'_>, bin: Vec<ManifestFile>) -> Result<ManifestFile> {
        let key: Vec<ManifestKey> = bin.iter().map(ManifestKey::of).collect();
        if let Some(known) = self.results.get(&key) {
            return Ok(known.clone());
        }
        let mut writer = None;
        for file in &bin {
            let manifest = target.table.manifest(file).await?;
            let writer = match &mut writer {
                Some(writer) => writer,
                none => none.insert(target.manifest(Kind {
                    content: manifest.content,
                    spec_id: manifest.spec_id,
                    partition_type: &manifest.partition_type,
                })?),
            };
            for entry in &manifest.entries {
                let is_own = entry.snapshot_id == Some(target.snapshot_id);
                match entry.status {
                    ManifestStatus::Deleted if is_own => writer.delete(entry)?,
                    // Of interest to the snapshot that removed the file only.
                    ManifestStatus::Deleted => {}
                    ManifestStatus::Added if is_own => {
                        let given = entry.sequence_number.filter(|n| *n != UNASSIGNED_SEQUENCE_NUMBER);
                        writer.add(&entry.data_file, given)?;
                    }
                    _ => writer.existing(entry)?,
                }
            }
        }
        let Some(writer) = writer else {
            return Err(crate::error::Error::invalid("no manifests to merge"));
        };
        let merged = target.store(writer).await?;
        self.results.insert(key, merged.clone());
        Ok(merged)
    }
}

/// Puts manifests that follow each other together, up to a length, beginning with the last.
fn pack_from_the_end(manifests: Vec<ManifestFile>, target_size: u64) -> Vec<Vec<ManifestFile>> {
    let mut bins: Vec<Vec<ManifestFile>> = Vec::new();
    let mut length = 0_u64;
    for manifest in manifests.into_iter().rev() {
        let own = u64::try_from(manifest.manifest_length).unwrap_or(0);
        match bins.last_mut() {
            Some(bin) if length.saturating_add(own) <= target_size => {
                length = length.saturating_add(own);
                bin.push(manifest);
            }
            _ => {
                length = own;
                bins.push(vec![manifest]);
            }
        }
    }
    bins.iter_mut().for_each(|bin| bin.reverse());
    bins.reverse();
    bins
}
