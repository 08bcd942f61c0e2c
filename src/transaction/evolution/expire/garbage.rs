//! Which files of expired snapshots no other snapshot reaches. Nothing is read or removed here.

use std::collections::{BTreeMap, BTreeSet};

use crate::spec::{ManifestFile, TableMetadata};
use crate::transaction::evolution::statistics::path_of;

/// Files that may go, unless a snapshot turns up that reaches them. Each is known by its location,
/// as the same file may be recorded under several spellings.
#[derive(Debug, Default)]
pub(super) struct Garbage {
    pub(super) manifest_lists: BTreeSet<String>,
    pub(super) manifests: BTreeMap<String, ManifestFile>,
    /// Data and delete files.
    pub(super) files: BTreeSet<String>,
    pub(super) statistics: BTreeSet<String>,
}

impl Garbage {
    /// A manifest list of an expired snapshot, with its manifests.
    pub(super) fn suspect_list(
        &mut self,
        location: Option<String>,
        manifests: impl IntoIterator<Item = (String, ManifestFile)>,
    ) {
        self.manifest_lists.extend(location);
        self.manifests.extend(manifests);
    }

    /// The live files of a manifest that no snapshot lists.
    pub(super) fn suspect_files(&mut self, locations: impl IntoIterator<Item = String>) {
        self.files.extend(locations);
    }

    /// The statistics files that expired snapshots had.
    pub(super) fn suspect_statistics(&mut self, locations: impl IntoIterator<Item = String>) {
        self.statistics.extend(locations);
    }

    /// A manifest list of a snapshot that stays, with its manifests.
    pub(super) fn spare_list<'a>(
        &mut self,
        location: Option<&str>,
        manifests: impl IntoIterator<Item = &'a str>,
    ) {
        if let Some(location) = location {
            self.manifest_lists.remove(location);
        }
        for manifest in manifests {
            self.manifests.remove(manifest);
        }
    }

    /// The live files of a manifest of a snapshot that stays.
    pub(super) fn spare_files<'a>(&mut self, locations: impl IntoIterator<Item = &'a str>) {
        for location in locations {
            self.files.remove(location);
        }
    }

    /// The statistics files that the table still has.
    pub(super) fn spare_statistics<'a>(&mut self, locations: impl IntoIterator<Item = &'a str>) {
        for location in locations {
            self.statistics.remove(location);
        }
    }
}

/// The paths of all statistics files that metadata names.
pub(super) fn statistics_of(metadata: &TableMetadata) -> impl Iterator<Item = &str> {
    metadata.statistics.iter().chain(&metadata.partition_statistics).filter_map(path_of)
}
