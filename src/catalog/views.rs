//! Views of catalogs that keep pointers to metadata files.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::Utc;

use super::commit::remove;
use super::metastore::{EntryKind, Metastore, Swap};
use super::placement::spelled;
use super::{TableIdent, View, ViewCreation};
use crate::error::{Error, ErrorKind, Result, ResultExt};
use crate::spec::{ViewDefinition, ViewMetadata};
use crate::storage::Location;
use crate::table::{MetadataCodec, next_metadata_location};

/// What a version of a view says of who made it.
const ENGINE: (&str, &str) = ("engine-name", "icefloe");

/// The error for a view that is not there.
pub(crate) fn missing(ident: &TableIdent) -> Error {
    Error::not_found(format!("there is no view `{ident}`"))
}

pub(crate) async fn load<M: Metastore>(store: &M, view: &TableIdent) -> Result<View> {
    store.check_views()?;
    let Some(location) = store.pointer(view, EntryKind::View).await? else { return Err(missing(view)) };
    let storage = store.placement().options.storage_or_new();
    let read = async {
        let bytes = storage.read(&Location::parse(&location)?).await?;
        ViewMetadata::from_json(&bytes).context(|| format!("metadata file `{location}`"))
    };
    let metadata = Arc::new(read.await.context(|| format!("view `{view}`"))?);
    Ok(View { ident: view.clone(), metadata, metadata_location: Some(location) })
}

pub(crate) async fn create<M: Metastore>(store: &M, view: &TableIdent, asked: ViewCreation) -> Result<View> {
    store.check_views()?;
    let namespace = store.existing_namespace(view.namespace()).await?;
    store.free_name(view).await?;
    let (definition, location, properties) = taken_apart(asked)?;
    let location = location.unwrap_or_else(|| store.placement().of_table(view, &namespace));
    let created = ViewMetadata::create(&definition, &location, &properties, Utc::now().timestamp_millis());
    write(store, view, created.context(|| format!("view `{view}`"))?, None).await
}

pub(crate) async fn replace<M: Metastore>(store: &M, view: &TableIdent, asked: ViewCreation) -> Result<View> {
    let current = load(store, view).await?;
    let (definition, location, properties) = taken_apart(asked)?;
    let now = Utc::now().timestamp_millis();
    let replaced = current.metadata.replace(&definition, location.as_deref(), &properties, now);
    write(store, view, replaced.context(|| format!("view `{view}`"))?, current.metadata_location).await
}

type Parts = (ViewDefinition, Option<String>, BTreeMap<String, String>);

fn taken_apart(asked: ViewCreation) -> Result<Parts> {
    let ViewCreation { schema, representations, default_catalog, default_namespace, location, properties } =
        asked;
    let summary = [(ENGINE.0.to_owned(), ENGINE.1.to_owned())].into();
    let definition = ViewDefinition { schema, representations, default_catalog, default_namespace, summary };
    Ok((definition, location.as_deref().map(spelled).transpose()?, properties))
}

/// Writes a new metadata file and makes it the view's.
async fn write<M: Metastore>(
    store: &M,
    view: &TableIdent,
    metadata: ViewMetadata,
    previous: Option<String>,
) -> Result<View> {
    let storage = store.placement().options.storage_or_new();
    let new = next_metadata_location(&metadata.location, &metadata.properties, previous.as_deref())?;
    let bytes = MetadataCodec::of(&metadata.properties)?.encode(metadata.to_json()?)?;
    let swapped = match storage.write(&Location::parse(&new)?, bytes).await {
        Ok(()) => {
            let swap =
                Swap { ident: view.clone(), kind: EntryKind::View, expected: previous, new: new.clone() };
            store.swap(vec![swap]).await
        }
        Err(e) => Err(e),
    };
    if let Err(e) = swapped {
        if e.kind() != ErrorKind::CommitStateUnknown {
            remove(&storage, &new).await;
        }
        return Err(e);
    }
    Ok(View { ident: view.clone(), metadata: Arc::new(metadata), metadata_location: Some(new) })
}
