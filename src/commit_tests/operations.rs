//! What is committed.

use super::ident;
use super::prepared::{Prepared, creation};
use crate::catalog::Catalog;
use crate::error::Result;
use crate::spec::{PrimitiveType, SequenceNumber};
use crate::table::Table;
use crate::transaction::{
    Append, DeleteFiles, ExpireSnapshots, Overwrite, RewriteFiles, RowDelta, UpdateSchema, commit_all,
};

/// A kind of commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    FastAppend,
    MergingAppend,
    Overwrite,
    /// Rows are added, and others deleted by deletion vectors, one in the place of another.
    DeletionVectors,
    /// The same by position delete files.
    PositionDeletes,
    RewriteFiles,
    UpdateSchema,
    /// A schema update and an append.
    TwoActions,
    /// Two snapshots in one commit.
    TwoSnapshots,
    TwoTables,
    /// A table is created with rows in it.
    CreateStaged,
    ExpireSnapshots,
}

impl Operation {
    pub(super) const ALL: [Operation; 12] = [
        Operation::FastAppend,
        Operation::MergingAppend,
        Operation::Overwrite,
        Operation::DeletionVectors,
        Operation::PositionDeletes,
        Operation::RewriteFiles,
        Operation::UpdateSchema,
        Operation::TwoActions,
        Operation::TwoSnapshots,
        Operation::TwoTables,
        Operation::CreateStaged,
        Operation::ExpireSnapshots,
    ];

    /// The tables that it is about.
    pub(super) fn tables(self) -> &'static [&'static str] {
        if self == Self::TwoTables { &["t", "u"] } else { &["t"] }
    }

    pub(super) fn format_version(self) -> u8 {
        match self {
            Self::MergingAppend | Self::PositionDeletes | Self::RewriteFiles | Self::ExpireSnapshots => 2,
            _ => 3,
        }
    }

    /// Does it. The table as the commit gives it, if it gives one.
    pub(super) async fn run(self, prepared: &Prepared, catalog: &dyn Catalog) -> Result<Option<Table>> {
        let t = ident("t");
        let table = match self {
            Self::CreateStaged => catalog.stage_table(&t, creation(self.format_version())).await?,
            _ => catalog.load_table(&t).await?,
        };
        let file = |name: &str| prepared.file(name);
        let transaction = table.transaction();
        let transaction = match self {
            Self::FastAppend | Self::CreateStaged => {
                transaction.apply(Append::fast().files([file("c"), file("d")]))
            }
            Self::MergingAppend => transaction.apply(Append::merging().files([file("c")])),
            Self::Overwrite => {
                transaction.apply(Overwrite::new().remove_files([file("a")]).add_files([file("c")]))
            }
            Self::DeletionVectors | Self::PositionDeletes => {
                let delta = RowDelta::new()
                    .add_rows([file("c")])
                    .add_deletes(prepared.deletes.clone())
                    .validate_data_files_exist([file("a").file_path, file("b").file_path])
                    .validate_no_conflicting_deletes();
                let delta = match prepared.snapshot {
                    Some(snapshot) => delta.validate_from_snapshot(snapshot),
                    None => delta,
                };
                transaction.apply(delta.remove_deletes(&prepared.old_delete))
            }
            Self::RewriteFiles => {
                let rewrite = RewriteFiles::new()
                    .remove_data([file("a")])
                    .add_data([file("a again")])
                    .data_sequence_number(SequenceNumber(1));
                transaction.apply(match prepared.snapshot {
                    Some(snapshot) => rewrite.validate_from_snapshot(snapshot),
                    None => rewrite,
                })
            }
            Self::UpdateSchema => {
                transaction.apply(UpdateSchema::new().add_column("more", PrimitiveType::Int))
            }
            Self::TwoActions => transaction
                .apply(UpdateSchema::new().add_column("more", PrimitiveType::Int))
                .apply(Append::merging().files([file("c")])),
            Self::TwoSnapshots => transaction
                .apply(Append::fast().files([file("c")]))
                .apply(DeleteFiles::new().files([&file("a")])),
            Self::ExpireSnapshots => {
                transaction.apply(ExpireSnapshots::new().expire_older_than(i64::MAX).retain_last(1))
            }
            Self::TwoTables => {
                let other = catalog.load_table(&ident("u")).await?.transaction();
                let all = vec![
                    transaction.apply(Append::merging().files([file("c")])),
                    other.apply(Overwrite::new().remove_files([file("b")]).add_files([file("d")])),
                ];
                return commit_all(all, catalog).await.map(|()| None);
            }
        };
        transaction.commit(catalog).await.map(Some)
    }
}
