//! Changes of a table's properties, location and format version.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;

use super::columns::Columns;
use super::schema::COLUMN_PREFIXES;
use crate::error::{Error, Result, ResultExt};
use crate::spec::{TableMetadata, TableProperties, TableUpdate};
use crate::storage::Location;
use crate::table::Table;
use crate::transaction::Action;

const FORMAT_VERSION: &str = "format-version";

/// Names that stand for other parts of the metadata and are no properties.
const RESERVED: [&str; 8] = [
    "uuid",
    "snapshot-count",
    "current-snapshot-summary",
    "current-snapshot-id",
    "current-snapshot-timestamp-ms",
    "current-schema",
    "default-partition-spec",
    "default-sort-order",
];

/// The format version that tables can be upgraded to at most.
const MAX_FORMAT_VERSION: u8 = 3;

/// Sets and removes properties. Setting `format-version` upgrades the table.
#[derive(Debug, Clone, Default)]
#[must_use = "an action does nothing until it is part of a transaction that is committed"]
pub struct UpdateProperties {
    set: BTreeMap<String, String>,
    remove: BTreeSet<String>,
}

impl UpdateProperties {
    /// No change yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a property.
    pub fn set(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.set.insert(key.into(), value.into());
        self
    }

    /// Removes a property; one that is not set is no error.
    pub fn remove(mut self, key: impl Into<String>) -> Self {
        self.remove.insert(key.into());
        self
    }

    fn updates_of(&self, metadata: &TableMetadata) -> Result<Vec<TableUpdate>> {
        if let Some(key) = self.remove.iter().find(|key| self.set.contains_key(*key)) {
            return Err(Error::invalid(format!("property `{key}` can't be both set and removed")));
        }
        let mut names = self.set.keys().chain(&self.remove);
        if let Some(key) = names.find(|key| RESERVED.contains(&key.as_str())) {
            return Err(Error::invalid(format!("`{key}` is reserved and can't be set or removed")));
        }
        if self.remove.contains(FORMAT_VERSION) {
            return Err(Error::invalid("the format version can't be removed"));
        }
        let columns = Columns::new(metadata.current_schema(), true);
        for key in self.set.keys() {
            // Java refuses such metadata only when it is set, and so do we.
            if let Some(column) = COLUMN_PREFIXES.first().and_then(|prefix| key.strip_prefix(prefix)) {
                columns.get(column).context(|| format!("property `{key}`"))?;
            }
        }
        TableProperties::new(&self.set).check_commits()?;
        let mut updates = Vec::new();
        let mut set = self.set.clone();
        if let Some(version) = set.remove(FORMAT_VERSION) {
            let version = version.trim().parse().map_err(|_| {
                Error::invalid(format!("`{version}` is no format version"))
                    .context(format!("property `{FORMAT_VERSION}`"))
            })?;
            updates.extend(upgrade(metadata, version)?);
        }
        set.retain(|key, value| metadata.properties.get(key) != Some(value));
        let remove: Vec<String> =
            self.remove.iter().filter(|key| metadata.properties.contains_key(*key)).cloned().collect();
        if !set.is_empty() {
            updates.push(TableUpdate::SetProperties(set));
        }
        if !remove.is_empty() {
            updates.push(TableUpdate::RemoveProperties(remove));
        }
        Ok(updates)
    }
}

#[async_trait]
impl Action for UpdateProperties {
    async fn updates(&mut self, table: &Table) -> Result<Vec<TableUpdate>> {
        self.updates_of(table.metadata()).context(|| "update of properties".to_owned())
    }
}

/// Upgrades a table to a later format version.
#[derive(Debug, Clone)]
#[must_use = "an action does nothing until it is part of a transaction that is committed"]
pub struct UpgradeFormatVersion(u8);

impl UpgradeFormatVersion {
    /// To this version, 3 at most. A table that has it already stays as it is.
    pub fn to(version: u8) -> Self {
        Self(version)
    }
}

#[async_trait]
impl Action for UpgradeFormatVersion {
    async fn updates(&mut self, table: &Table) -> Result<Vec<TableUpdate>> {
        upgrade(table.metadata(), self.0)
    }
}

fn upgrade(metadata: &TableMetadata, version: u8) -> Result<Vec<TableUpdate>> {
    let current = metadata.format_version;
    if version == current {
        return Ok(Vec::new());
    }
    if version < current {
        let message = format!("a table of format version {current} can't go back to {version}");
        return Err(Error::invalid(message));
    }
    if version > MAX_FORMAT_VERSION {
        let message =
            format!("format version {version}: tables can be upgraded to {MAX_FORMAT_VERSION} at most");
        return Err(Error::unsupported(message));
    }
    Ok(vec![TableUpdate::UpgradeFormatVersion(version)])
}

/// Changes where new files of a table are written; those that are there stay.
#[derive(Debug, Clone)]
#[must_use = "an action does nothing until it is part of a transaction that is committed"]
pub struct UpdateLocation(String);

impl UpdateLocation {
    /// To this location, such as `s3://bucket/path`.
    pub fn to(location: impl Into<String>) -> Self {
        Self(location.into())
    }
}

#[async_trait]
impl Action for UpdateLocation {
    async fn updates(&mut self, table: &Table) -> Result<Vec<TableUpdate>> {
        let location = self.0.trim_end_matches('/');
        if location.is_empty() {
            return Err(Error::invalid("the new location of the table is empty"));
        }
        Location::parse(location).context(|| "new location of the table".to_owned())?;
        Ok(match location == table.metadata().location {
            true => Vec::new(),
            false => vec![TableUpdate::SetLocation(location.to_owned())],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_tables::{apply, opened, table};
    use super::*;

    fn fails(update: UpdateProperties) -> String {
        update.updates_of(&table(2)).unwrap_err().to_string()
    }

    #[test]
    fn only_what_changes_is_said() {
        let base = table(2);
        let update = UpdateProperties::new().set("a", "1").set("b", "2").remove("c");
        let after = apply(&base, &update.updates_of(&base).unwrap());
        assert_eq!(after.properties.get("a").map(String::as_str), Some("1"));
        assert!(update.updates_of(&after).unwrap().is_empty());
        let update = UpdateProperties::new().set("a", "1").set("b", "3").remove("a2");
        let expected = TableUpdate::SetProperties([("b".to_owned(), "3".to_owned())].into());
        assert_eq!(update.updates_of(&after).unwrap(), [expected]);
        let update = UpdateProperties::new().remove("a");
        assert_eq!(update.updates_of(&after).unwrap(), [TableUpdate::RemoveProperties(vec!["a".into()])]);
    }

    #[test]
    fn the_format_version_is_a_property_to_set() {
        let base = table(1);
        let update = UpdateProperties::new().set("format-version", "2").set("a", "1");
        let after = apply(&base, &update.updates_of(&base).unwrap());
        assert_eq!(after.format_version, 2);
        assert!(!after.properties.contains_key("format-version"));
    }

    #[test]
    fn what_is_no_property_is_refused() {
        let new = UpdateProperties::new;
        assert!(fails(new().set("a", "1").remove("a")).contains("both set and removed"));
        assert!(fails(new().set("current-snapshot-id", "1")).contains("is reserved"));
        assert!(fails(new().remove("uuid")).contains("is reserved"));
        assert!(fails(new().remove("format-version")).contains("can't be removed"));
        assert!(fails(new().set("format-version", "1")).contains("can't go back to 1"));
        assert!(fails(new().set("format-version", "9")).contains("at most"));
        assert!(fails(new().set("format-version", "x")).contains("`x` is no format version"));
        assert!(fails(new().set("write.metadata.metrics.column.nope", "full")).contains("no column `nope`"));
        for (name, value) in [
            ("commit.retry.num-retries", "x"),
            ("commit.status-check.min-wait-ms", "-1"),
            ("commit.manifest.target-size-bytes", "0"),
            ("commit.manifest-merge.enabled", "perhaps"),
            ("write.metadata.previous-versions-max", "many"),
            ("write.metadata.compression-codec", "lzo"),
        ] {
            assert!(fails(new().set(name, value)).contains(name), "{name}");
        }
        let column = new().set("write.metadata.metrics.column.point.x", "full");
        assert_eq!(column.updates_of(&table(2)).unwrap().len(), 1);
    }

    #[tokio::test]
    async fn location_and_version() {
        let table = opened(table(2));
        let updates = UpdateLocation::to("s3://other/place/").updates(&table).await.unwrap();
        assert_eq!(updates, [TableUpdate::SetLocation("s3://other/place".into())]);
        assert!(
            UpdateLocation::to(table.metadata().location.clone()).updates(&table).await.unwrap().is_empty()
        );
        assert!(UpdateLocation::to("").updates(&table).await.is_err());
        let updates = UpgradeFormatVersion::to(3).updates(&table).await.unwrap();
        assert_eq!(updates, [TableUpdate::UpgradeFormatVersion(3)]);
        assert!(UpgradeFormatVersion::to(2).updates(&table).await.unwrap().is_empty());
        assert!(UpgradeFormatVersion::to(1).updates(&table).await.is_err());
    }
}
