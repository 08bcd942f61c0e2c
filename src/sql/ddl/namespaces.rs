//! Namespaces, which are schemas or databases in SQL.

use std::collections::BTreeMap;

use datafusion::error::Result;
use datafusion::prelude::SessionContext;

use super::places::{Place, namespace_of};
use crate::catalog::Namespace;
use crate::error::{Error, ErrorKind};

fn place(context: &SessionContext, name: &[String]) -> Result<Place> {
    let place = namespace_of(context, name);
    place.ok_or_else(|| Error::not_found(format!("an Iceberg catalog for `{}`", name.join("."))).into())
}

fn missing(place: &Place) -> Result<Error> {
    Ok(Error::not_found(format!("namespace `{}.{}`", place.catalog()?.name(), place.schema())))
}

/// Asks the catalog itself whether there is such a namespace: that it can't be asked, or that another
/// dropped it, is not "it exists".
pub(super) async fn create(
    context: &SessionContext,
    name: &[String],
    if_not_exists: bool,
    properties: &BTreeMap<String, String>,
) -> Result<()> {
    let place = place(context, name)?;
    let namespace = Namespace::new(place.schema().split('.'))?;
    match place.catalog()?.create_namespace(&namespace, properties.clone()).await {
        Err(e) if e.kind() == ErrorKind::AlreadyExists && if_not_exists => Ok(()),
        created => Ok(created?),
    }
}

pub(super) async fn drop(
    context: &SessionContext,
    name: &[String],
    if_exists: bool,
    cascade: bool,
) -> Result<()> {
    let place = place(context, name)?;
    let dropped = match place.namespace().await? {
        Some(namespace) => place.catalog()?.drop_namespace(&namespace).await,
        None => Err(missing(&place)?),
    };
    place.provider()?.forget_namespace(place.schema());
    match dropped {
        Err(e) if e.kind() == ErrorKind::NotFound && if_exists => Ok(()),
        Err(e) if e.kind() == ErrorKind::ValidationFailed && cascade => {
            let message =
                "DROP SCHEMA … CASCADE: drop what is in it first, each of which may have files to keep";
            Err(Error::unsupported(message).with_source(e).into())
        }
        dropped => Ok(dropped?),
    }
}

pub(super) async fn alter(
    context: &SessionContext,
    name: &[String],
    set: &BTreeMap<String, String>,
    unset: &[String],
) -> Result<()> {
    let place = place(context, name)?;
    let Some(namespace) = place.namespace().await? else { return Err(missing(&place)?.into()) };
    place.catalog()?.update_namespace(&namespace, set.clone(), unset.to_vec()).await?;
    Ok(())
}
