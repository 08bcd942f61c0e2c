//! Commits that are interrupted: whatever fails, and whenever, a table is in its old or its new state.
//!
//! `matrix` lets every call go wrong that a commit makes, in every way, one at a time; `killed` drops
//! writers wherever they are. Both look at the table afterwards as somebody who knows nothing of that.

mod fault_catalog;
mod fault_metastore;
mod killed;
mod matrix;
mod operations;
mod prepared;
mod rig;
mod state;

use crate::catalog::{Namespace, TableIdent};

fn namespace() -> Namespace {
    Namespace::new(["db"]).unwrap()
}

fn ident(name: &str) -> TableIdent {
    TableIdent::new(namespace(), name).unwrap()
}
