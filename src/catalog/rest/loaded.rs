//! A table as the server describes it (REST spec, `LoadTableResult`).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value as Json;

use super::config::strings;
use super::properties::storage_properties;
use crate::error::{Error, Result, ResultExt};
use crate::spec::TableMetadata;
use crate::storage::{PrefixCredentials, StorageProperties, expires_at};

/// A table with its metadata and what opens its files.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) metadata: Arc<TableMetadata>,
    /// Where the metadata file is, or would be if there were one already.
    pub(super) location: String,
    /// Everything that the server configures for the table.
    pub(super) config: BTreeMap<String, String>,
    pub(super) credentials: Vec<PrefixCredentials>,
    /// What requests that the server signs have to bring, as it is.
    pub(super) signing: Json,
}

/// What a table's credentials go with.
#[derive(Debug, Clone, Default)]
pub(super) struct Grant {
    pub(super) config: BTreeMap<String, String>,
    pub(super) signing: Json,
}

/// A table's metadata and where it is, which is all that a commit's reply has.
pub(super) fn metadata(json: &Json) -> Result<(Arc<TableMetadata>, String)> {
    let metadata = json.get("metadata").ok_or_else(|| Error::invalid("the reply has no `metadata`"))?;
    let metadata = TableMetadata::from_json_value(metadata).context(|| "field `metadata`".into())?;
    let location = match json.get("metadata-location") {
        Some(Json::String(location)) if !location.is_empty() => location.clone(),
        // Staged: there is no file yet.
        _ => format!("{}/metadata/staged.metadata.json", metadata.location.trim_end_matches('/')),
    };
    Ok((Arc::new(metadata), location))
}

impl Loaded {
    pub(super) fn grant(&self) -> Grant {
        Grant { config: self.config.clone(), signing: self.signing.clone() }
    }

    pub(super) fn read(json: &Json) -> Result<Self> {
        let (metadata, location) = metadata(json)?;
        let config = strings(json, "config")?;
        let credentials = credentials(json, &config)?;
        let signing = json.get("remote-signing-config").cloned().unwrap_or_default();
        Ok(Self { metadata, location, config, credentials, signing })
    }
}

/// The credentials of a reply; those of the table's configuration are for all files that no other
/// ones are for.
pub(super) fn credentials(json: &Json, config: &BTreeMap<String, String>) -> Result<Vec<PrefixCredentials>> {
    let mut all = Vec::new();
    let given = storage_properties(config);
    if !given.is_empty() {
        all.push(PrefixCredentials { prefix: String::new(), properties: with_expiry(given, config) });
    }
    let place = || "field `storage-credentials`".to_owned();
    let listed = match json.get("storage-credentials") {
        None | Some(Json::Null) => return Ok(all),
        Some(Json::Array(listed)) => listed,
        Some(_) => return Err(Error::invalid("expected an array").context(place())),
    };
    for credential in listed {
        let prefix = credential.get("prefix").and_then(Json::as_str);
        let prefix = prefix.ok_or_else(|| Error::invalid("the `prefix` is missing").context(place()))?;
        let own = strings(credential, "config").context(place)?;
        // What is set for the table holds for each of its prefixes.
        let mut merged = config.clone();
        merged.extend(own.clone());
        let mut properties = storage_properties(&merged);
        if credential_of(&own) {
            // But not the table's keys beside the prefix's.
            let keep = |name: &str| own.contains_key(name) || !is_credential(name);
            let merged = merged.iter().filter(|(name, _)| keep(name));
            properties = storage_properties(&merged.map(|(n, v)| (n.clone(), v.clone())).collect());
        }
        all.push(PrefixCredentials { prefix: prefix.to_owned(), properties: with_expiry(properties, &own) });
    }
    Ok(all)
}

/// A table's configuration without what opens its files, which expires.
pub(super) fn settings(config: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let kept = config.iter().filter(|(name, _)| !is_credential(name) && !name.contains("expires-at"));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn is_credential(name: &str) -> bool {
    let names = ["s3.access-key-id", "s3.secret-access-key", "s3.session-token", "gcs.oauth2.token"];
    names.contains(&name) || name.starts_with("adls.sas-token") || name == "adls.token"
}

fn credential_of(config: &BTreeMap<String, String>) -> bool {
    config.keys().any(|name| is_credential(name))
}

/// The properties with what is said of when they expire: no store needs it, so one name will do.
fn with_expiry(mut properties: StorageProperties, config: &BTreeMap<String, String>) -> StorageProperties {
    let all: StorageProperties = config.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    if let Some(at) = expires_at(&all) {
        properties.insert("s3.session-token-expires-at-ms", at.to_string());
    }
    properties
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn config(list: &[(&str, &str)]) -> BTreeMap<String, String> {
        list.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect()
    }

    #[test]
    fn credentials_by_prefix() {
        let table = config(&[
            ("s3.endpoint", "https://h"),
            ("s3.access-key-id", "table"),
            ("s3.secret-access-key", "s"),
            ("s3.session-token", "t"),
            ("owner", "me"),
        ]);
        let reply = json!({"storage-credentials": [
            {"prefix": "s3://b/t", "config": {"s3.access-key-id": "prefix", "s3.secret-access-key": "p",
                "s3.session-token-expires-at-ms": "17"}},
            {"prefix": "gs", "config": {"gcs.oauth2.token": "g", "gcs.oauth2.token-expires-at": "5"}},
        ]});
        let all = credentials(&reply, &table).unwrap();
        let [base, s3, gcs] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!((base.prefix.as_str(), base.properties.get("s3.session-token")), ("", Some("t")));
        assert_eq!(base.properties.get("owner"), None);
        assert_eq!(s3.prefix, "s3://b/t");
        assert_eq!(s3.properties.get("s3.access-key-id"), Some("prefix"));
        assert_eq!(s3.properties.get("s3.session-token"), None);
        assert_eq!(s3.properties.get("s3.endpoint"), Some("https://h"));
        assert_eq!(expires_at(&s3.properties), Some(17));
        assert_eq!(expires_at(&gcs.properties), Some(5));
        assert_eq!(credentials(&json!({}), &BTreeMap::new()).unwrap(), []);
        for bad in [json!({"storage-credentials": {}}), json!({"storage-credentials": [{"config": {}}]})] {
            assert!(credentials(&bad, &table).is_err(), "{bad}");
        }
        let text = format!("{all:?}");
        assert!(
            !text.contains("prefix\"}") && !text.contains("\"p\"") && !text.contains("\"table\""),
            "{text}"
        );
    }

    #[test]
    fn replies_without_metadata_are_errors() {
        for bad in [json!({}), json!({"metadata": null}), json!({"metadata": {}}), json!([])] {
            assert!(Loaded::read(&bad).is_err(), "{bad}");
        }
    }
}
