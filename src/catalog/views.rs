//! Views of catalogs that keep pointers to metadata files.

use super::metastore::Metastore;
use super::{TableIdent, View, ViewCreation};
use crate::error::{Error, Result};

/// The error for a view that is not there.
pub(crate) fn missing(ident: &TableIdent) -> Error {
    Error::not_found(format!("there is no view `{ident}`"))
}

pub(crate) async fn load<M: Metastore>(_: &M, view: &TableIdent) -> Result<View> {
    Err(missing(view))
}

pub(crate) async fn create<M: Metastore>(_: &M, _: &TableIdent, _: ViewCreation) -> Result<View> {
    Err(Error::unsupported("views can't be written yet"))
}

pub(crate) async fn replace<M: Metastore>(_: &M, view: &TableIdent, _: ViewCreation) -> Result<View> {
    Err(missing(view))
}
