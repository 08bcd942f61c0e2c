//! Views that are created and replaced (view spec, "Versions").

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result, ResultExt};

use super::ids::{FieldId, SchemaId};
use super::metadata_builder::{assign_fresh_ids, without_trailing_slash};
use super::schema::Schema;
use super::view_metadata::{
    VIEW_FORMAT_VERSION, ViewLogEntry, ViewMetadata, ViewRepresentation, ViewVersion,
};

/// How many versions are kept.
const HISTORY_SIZE: &str = "version.history.num-entries";
const DEFAULT_HISTORY_SIZE: usize = 10;
/// Whether a new version may lack a dialect that the one before it has.
const DROP_DIALECT: &str = "replace.drop-dialect.allowed";

/// What a version of a view says.
#[derive(Debug, Clone)]
pub struct ViewDefinition {
    /// The schema of its result; new field ids are assigned.
    pub schema: Schema,
    /// The query, once a dialect.
    pub representations: Vec<ViewRepresentation>,
    /// The catalog of names in the query that have none.
    pub default_catalog: Option<String>,
    /// The namespace of names in the query that have none.
    pub default_namespace: Vec<String>,
    /// What made it, such as `engine-name`.
    pub summary: BTreeMap<String, String>,
}

impl ViewMetadata {
    /// A new view; `now_ms` (milliseconds since 1970 UTC) stamps it.
    ///
    /// # Errors
    /// `DataInvalid` without a query or location, for two queries of one dialect, and for
    /// properties with wrong values.
    pub fn create(
        definition: &ViewDefinition,
        location: &str,
        properties: &BTreeMap<String, String>,
        now_ms: i64,
    ) -> Result<Self> {
        let mut view = Self {
            format_version: VIEW_FORMAT_VERSION,
            view_uuid: Uuid::new_v4(),
            location: String::new(),
            current_version_id: 0,
            versions: BTreeMap::new(),
            version_log: Vec::new(),
            schemas: BTreeMap::new(),
            properties: properties.clone(),
        };
        view.set_location(location)?;
        view.add_version(definition, now_ms)?;
        view.expire_versions()?;
        Ok(view)
    }

    /// The view with a new version, and with these properties besides those that it has. A
    /// version that says the same as an earlier one takes its place again.
    ///
    /// # Errors
    /// As for [`ViewMetadata::create`]; `ValidationFailed` if the view would lose a dialect and
    /// `replace.drop-dialect.allowed` does not say that it may.
    pub fn replace(
        &self,
        definition: &ViewDefinition,
        location: Option<&str>,
        properties: &BTreeMap<String, String>,
        now_ms: i64,
    ) -> Result<Self> {
        let mut view = self.clone();
        view.properties.extend(properties.clone());
        if let Some(location) = location {
            view.set_location(location)?;
        }
        view.add_version(definition, now_ms)?;
        if let Some(before) = self.current_version()
            && let Some(now) = view.current_version()
            && !view.may_drop_dialects()?
            && let Some(lost) = dialects(before).difference(&dialects(now)).next()
        {
            return Err(Error::new(
                ErrorKind::ValidationFailed,
                format!(
                    "the view would lose its query in the dialect `{lost}`; the property `{DROP_DIALECT}` allows that"
                ),
            ));
        }
        view.expire_versions()?;
        Ok(view)
    }

    /// The current version. Metadata that was read or made here always has it.
    pub fn current_version(&self) -> Option<&Arc<ViewVersion>> {
        self.versions.get(&self.current_version_id)
    }

    /// The schema of the current version. Metadata that was read or made here always has it.
    pub fn current_schema(&self) -> Option<&Arc<Schema>> {
        self.schemas.get(&self.current_version()?.schema_id)
    }

    fn set_location(&mut self, location: &str) -> Result<()> {
        if location.is_empty() {
            return Err(Error::invalid("a view's location can't be empty"));
        }
        self.location = without_trailing_slash(location).to_owned();
        Ok(())
    }

    fn add_version(&mut self, definition: &ViewDefinition, now_ms: i64) -> Result<()> {
        if definition.representations.is_empty() {
            return Err(Error::invalid("a view needs a query"));
        }
        let mut seen = BTreeSet::new();
        for representation in &definition.representations {
            if !seen.insert(representation.dialect.to_lowercase()) {
                return Err(Error::invalid(format!(
                    "the view has two queries in the dialect `{}`",
                    representation.dialect
                )));
            }
        }
        let highest = self.versions.last_key_value().map_or(0, |(id, _)| *id);
        let last_time = self.version_log.last().map_or(i64::MIN, |entry| entry.timestamp_ms);
        let version = ViewVersion {
            version_id: highest
                .checked_add(1)
                .ok_or_else(|| Error::invalid("the view has used up its ids"))?,
            schema_id: self.add_schema(&definition.schema)?,
            timestamp_ms: now_ms.max(last_time),
            summary: definition.summary.clone(),
            representations: definition.representations.clone(),
            default_catalog: definition.default_catalog.clone(),
            default_namespace: definition.default_namespace.clone(),
        };
        let same = |known: &&Arc<ViewVersion>| {
            known.schema_id == version.schema_id
                && known.summary == version.summary
                && known.representations == version.representations
                && known.default_catalog == version.default_catalog
                && known.default_namespace == version.default_namespace
        };
        let id = match self.versions.values().find(same) {
            Some(known) => known.version_id,
            None => version.version_id,
        };
        if id == self.current_version_id && self.versions.contains_key(&id) {
            return Ok(());
        }
        self.version_log.push(ViewLogEntry { timestamp_ms: version.timestamp_ms, version_id: id });
        self.current_version_id = id;
        self.versions.entry(id).or_insert_with(|| Arc::new(version));
        Ok(())
    }

    fn add_schema(&mut self, schema: &Schema) -> Result<SchemaId> {
        let mut schema = assign_fresh_ids(schema, FieldId(0), None)?.schema;
        let same = |known: &&Arc<Schema>| {
            known.root == schema.root && known.identifier_field_ids == schema.identifier_field_ids
        };
        if let Some(known) = self.schemas.values().find(same) {
            return Ok(known.schema_id);
        }
        let highest = self.schemas.last_key_value().map_or(Some(0), |(id, _)| id.0.checked_add(1));
        schema.schema_id = SchemaId(highest.ok_or_else(|| Error::invalid("the view has used up its ids"))?);
        let id = schema.schema_id;
        self.schemas.insert(id, Arc::new(schema));
        Ok(id)
    }

    /// Keeps the current version and the newest ones. Schemas stay, as in Java.
    fn expire_versions(&mut self) -> Result<()> {
        let limit = match self.properties.get(HISTORY_SIZE).map(|text| text.trim().parse::<usize>()) {
            None => DEFAULT_HISTORY_SIZE,
            Some(Ok(limit)) if limit > 0 => limit,
            Some(_) => {
                return Err(Error::invalid("expected a number above 0"))
                    .context(|| format!("property `{HISTORY_SIZE}`"));
            }
        };
        if self.versions.len() <= limit {
            return Ok(());
        }
        let current = self.current_version_id;
        let others = self.versions.keys().rev().copied().filter(|id| *id != current);
        let keep: BTreeSet<i32> = others.take(limit - 1).chain([current]).collect();
        self.versions.retain(|id, _| keep.contains(id));
        // What came before a version that is gone would seem to have been current for longer.
        let gone = self.version_log.iter().rposition(|entry| !keep.contains(&entry.version_id));
        self.version_log.drain(..gone.map_or(0, |last| last + 1));
        Ok(())
    }

    fn may_drop_dialects(&self) -> Result<bool> {
        match self.properties.get(DROP_DIALECT).map(|text| text.trim().to_ascii_lowercase()).as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => {
                Err(Error::invalid("expected true or false")).context(|| format!("property `{DROP_DIALECT}`"))
            }
        }
    }
}

fn dialects(version: &ViewVersion) -> BTreeSet<String> {
    version.representations.iter().map(|r| r.dialect.to_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::types::{NestedField, PrimitiveType};
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn definition(sql: &str) -> ViewDefinition {
        let field = NestedField::optional(7, "a", PrimitiveType::Int);
        ViewDefinition {
            schema: Schema::new(SchemaId(3), vec![field], vec![]).unwrap(),
            representations: vec![ViewRepresentation { sql: sql.into(), dialect: "datafusion".into() }],
            default_catalog: Some("ice".into()),
            default_namespace: vec!["a".into(), "b".into()],
            summary: BTreeMap::from([("engine-name".into(), "icefloe".into())]),
        }
    }

    fn view() -> ViewMetadata {
        ViewMetadata::create(&definition("select 1"), "s3://b/v/", &BTreeMap::new(), 100).unwrap()
    }

    fn replace(view: &ViewMetadata, sql: &str, now: i64) -> ViewMetadata {
        view.replace(&definition(sql), None, &BTreeMap::new(), now).unwrap()
    }

    #[test]
    fn a_new_view() {
        let view = view();
        assert_eq!(view.location, "s3://b/v");
        assert_eq!(view.current_version().unwrap().version_id, 1);
        assert_eq!(view.current_schema().unwrap().fields()[0].id, FieldId(1));
        assert_eq!(view.current_schema().unwrap().schema_id, SchemaId(0));
        assert_eq!(view.version_log, [ViewLogEntry { timestamp_ms: 100, version_id: 1 }]);
        let json = view.to_json().unwrap();
        assert_eq!(ViewMetadata::from_json(&json).unwrap(), view);
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(&json).unwrap();
        assert_eq!(ViewMetadata::from_json(&gzip.finish().unwrap()).unwrap(), view);
    }

    #[test]
    fn equal_versions_and_schemas_are_used_again() {
        let first = view();
        assert_eq!(replace(&first, "select 1", 200), first);
        let second = replace(&first, "select 2", 200);
        assert_eq!(second.current_version_id, 2);
        assert_eq!(second.schemas.len(), 1);
        let third = replace(&second, "select 1", 150);
        assert_eq!((third.current_version_id, third.versions.len()), (1, 2));
        let times: Vec<_> = third.version_log.iter().map(|e| (e.version_id, e.timestamp_ms)).collect();
        assert_eq!(times, [(1, 100), (2, 200), (1, 200)]);
        let mut other = definition("select 3");
        let field = NestedField::optional(1, "b", PrimitiveType::Int);
        other.schema = Schema::new(SchemaId(0), vec![field], vec![]).unwrap();
        let fourth = third.replace(&other, Some("s3://c/v"), &BTreeMap::new(), 300).unwrap();
        assert_eq!(fourth.current_schema().unwrap().schema_id, SchemaId(1));
        assert_eq!(fourth.location, "s3://c/v");
    }

    #[test]
    fn old_versions_go() {
        let limit = BTreeMap::from([(HISTORY_SIZE.to_owned(), "2".to_owned())]);
        let mut view = ViewMetadata::create(&definition("select 1"), "s3://b/v", &limit, 1).unwrap();
        view = replace(&view, "select 2", 2);
        view = replace(&view, "select 1", 3);
        view = replace(&view, "select 3", 4);
        assert_eq!(view.versions.keys().copied().collect::<Vec<_>>(), [2, 3]);
        let log: Vec<_> = view.version_log.iter().map(|entry| entry.version_id).collect();
        assert_eq!(log, [3], "what was current before the version that is gone is not known");
        assert_eq!(ViewMetadata::from_json(&view.to_json().unwrap()).unwrap(), view);
        for (name, value) in [(HISTORY_SIZE, "0"), (HISTORY_SIZE, "x"), (DROP_DIALECT, "x")] {
            let bad = BTreeMap::from([(name.to_owned(), value.to_owned())]);
            let error = view.replace(&definition("select 9"), None, &bad, 5).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
    }

    #[test]
    fn dialects_are_not_lost_by_accident() {
        let mut spark = definition("select 1");
        spark.representations[0].dialect = "spark".into();
        let error = view().replace(&spark, None, &BTreeMap::new(), 200).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ValidationFailed);
        let allowed = BTreeMap::from([(DROP_DIALECT.to_owned(), "true".to_owned())]);
        assert!(view().replace(&spark, None, &allowed, 200).is_ok());
        let mut twice = definition("select 1");
        twice.representations.push(ViewRepresentation { sql: "x".into(), dialect: "DataFusion".into() });
        assert!(view().replace(&twice, None, &allowed, 200).is_err());
        twice.representations.clear();
        assert!(view().replace(&twice, None, &allowed, 200).is_err());
    }

    #[test]
    fn metadata_that_contradicts_itself_is_an_error() {
        let json: serde_json::Value = serde_json::from_slice(&view().to_json().unwrap()).unwrap();
        for (pointer, value, part) in [
            ("/current-version-id", 9.into(), "current-version-id"),
            ("/versions/0/schema-id", 9.into(), "schema 9"),
            ("/format-version", 2.into(), "version 2"),
            ("/format-version", 0.into(), "version 0"),
            ("/versions/0/representations/0/type", "java".into(), "`java`"),
            ("/view-uuid", "x".into(), "view-uuid"),
        ] {
            let mut wrong = json.clone();
            *wrong.pointer_mut(pointer).unwrap() = value;
            let error = ViewMetadata::from_json_value(&wrong).unwrap_err();
            assert!(error.to_string().contains(part), "{pointer}: {error}");
        }
    }
}
