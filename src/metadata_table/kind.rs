//! Which metadata tables there are.

use std::fmt;

/// A kind of metadata table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MetadataTableKind {
    /// The table's snapshots.
    Snapshots,
    /// Which snapshot was current when.
    History,
    /// The table's metadata files, the current one last.
    MetadataLogEntries,
    /// Branches and tags.
    Refs,
    /// Data and delete files of a snapshot.
    Files,
    /// Data files of a snapshot.
    DataFiles,
    /// Delete files of a snapshot.
    DeleteFiles,
    /// Data and delete files that any manifest of any snapshot lists.
    AllFiles,
    /// Data files that any manifest of any snapshot lists.
    AllDataFiles,
    /// Delete files that any manifest of any snapshot lists.
    AllDeleteFiles,
    /// Entries of a snapshot's manifests, deleted ones too.
    Entries,
    /// Entries of the manifests of all snapshots.
    AllEntries,
    /// Manifests of a snapshot.
    Manifests,
    /// Manifests of each snapshot.
    AllManifests,
    /// Partitions of a snapshot, with their sizes.
    Partitions,
    /// Deleted positions; not supported yet.
    PositionDeletes,
}

impl MetadataTableKind {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::Snapshots,
        Self::History,
        Self::MetadataLogEntries,
        Self::Refs,
        Self::Files,
        Self::DataFiles,
        Self::DeleteFiles,
        Self::AllFiles,
        Self::AllDataFiles,
        Self::AllDeleteFiles,
        Self::Entries,
        Self::AllEntries,
        Self::Manifests,
        Self::AllManifests,
        Self::Partitions,
        Self::PositionDeletes,
    ];

    /// What it is called in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Self::Snapshots => "snapshots",
            Self::History => "history",
            Self::MetadataLogEntries => "metadata_log_entries",
            Self::Refs => "refs",
            Self::Files => "files",
            Self::DataFiles => "data_files",
            Self::DeleteFiles => "delete_files",
            Self::AllFiles => "all_files",
            Self::AllDataFiles => "all_data_files",
            Self::AllDeleteFiles => "all_delete_files",
            Self::Entries => "entries",
            Self::AllEntries => "all_entries",
            Self::Manifests => "manifests",
            Self::AllManifests => "all_manifests",
            Self::Partitions => "partitions",
            Self::PositionDeletes => "position_deletes",
        }
    }

    /// The kind of that name, in any case.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(name))
    }

    /// Takes `table$kind` apart; `None` if there is no such kind.
    pub fn split(name: &str) -> Option<(&str, Self)> {
        let (table, kind) = name.rsplit_once('$')?;
        Some((table, Self::parse(kind)?)).filter(|(table, _)| !table.is_empty())
    }

    /// Whether it shows one snapshot, so that versions of it differ.
    pub fn has_versions(self) -> bool {
        matches!(
            self,
            Self::Files
                | Self::DataFiles
                | Self::DeleteFiles
                | Self::Entries
                | Self::Manifests
                | Self::Partitions
                | Self::PositionDeletes
        )
    }
}

impl fmt::Display for MetadataTableKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
