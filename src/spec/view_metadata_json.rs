//! View metadata as JSON (view spec, "View Metadata").

use std::sync::Arc;

use serde_json::{Map, Value as Json, json};

use crate::error::{Error, Result, ResultExt};

use super::ids::SchemaId;
use super::json::Node;
use super::metadata_json::inflated;
use super::schema::Schema;
use super::snapshot_json::string_map;
use super::table_update_json::read_uuid;
use super::view_metadata::{
    VIEW_FORMAT_VERSION, ViewLogEntry, ViewMetadata, ViewRepresentation, ViewVersion,
};

impl ViewMetadata {
    /// Reads a metadata file, compressed with gzip or not.
    ///
    /// # Errors
    /// `DataInvalid`, naming the member, for what is no view metadata or contradicts itself;
    /// `Unsupported` for a newer version, and for queries that are not in SQL.
    pub fn from_json(bytes: &[u8]) -> Result<Self> {
        let json: Json = serde_json::from_slice(&inflated(bytes, "view metadata")?)
            .map_err(|e| Error::invalid("view metadata is not JSON").with_source(e))?;
        Self::from_json_value(&json)
    }

    /// Reads metadata that was part of another document.
    ///
    /// # Errors
    /// As for [`ViewMetadata::from_json`].
    pub fn from_json_value(json: &Json) -> Result<Self> {
        let node = Node::root(json);
        let object = node.object()?;
        let format_version = object.req("format-version", |n| match n.i32()? {
            version if version == i32::from(VIEW_FORMAT_VERSION) => Ok(VIEW_FORMAT_VERSION),
            version if version > i32::from(VIEW_FORMAT_VERSION) => {
                let message = format!("icefloe doesn't know views of version {version}, only 1");
                Err(n.locate(Error::unsupported(message)))
            }
            version => Err(n.error(format!("there is no version {version}"))),
        })?;
        let schemas = object.req("schemas", |n| n.list(Schema::read))?;
        let schemas = schemas.into_iter().map(|schema| (schema.schema_id, Arc::new(schema)));
        let versions = object.req("versions", |n| n.list(ViewVersion::read))?;
        let count = versions.len();
        let versions = versions.into_iter().map(|version| (version.version_id, Arc::new(version)));
        let metadata = Self {
            format_version,
            view_uuid: object.req("view-uuid", read_uuid)?,
            location: object.req("location", Node::string)?,
            current_version_id: object.req("current-version-id", Node::i32)?,
            versions: versions.collect(),
            version_log: object.req("version-log", |n| n.list(ViewLogEntry::read))?,
            schemas: schemas.collect(),
            properties: object.opt("properties", Node::string_map)?.unwrap_or_default(),
        };
        if metadata.versions.len() != count {
            return Err(object.error("the id of a version occurs twice"));
        }
        let Some(current) = metadata.versions.get(&metadata.current_version_id) else {
            return Err(object.error(format!(
                "`current-version-id` is {}, which is none of the versions",
                metadata.current_version_id
            )));
        };
        if !metadata.schemas.contains_key(&current.schema_id) {
            return Err(
                object.error(format!("schema {} of the current version is missing", current.schema_id))
            );
        }
        Ok(metadata)
    }

    /// Writes the metadata file, not compressed.
    ///
    /// # Errors
    /// `DataInvalid` for a schema with a default that is not of its field's type.
    pub fn to_json(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(&self.to_json_value()?)
            .map_err(|e| Error::invalid("view metadata can't be written").with_source(e))
    }

    /// Writes the metadata as part of another document.
    ///
    /// # Errors
    /// As for [`ViewMetadata::to_json`].
    pub fn to_json_value(&self) -> Result<Json> {
        let schemas =
            self.schemas.values().map(|s| s.to_json().context(|| format!("schema {}", s.schema_id)));
        let mut members = Map::new();
        let mut insert = |name: &str, value: Json| members.insert(name.to_owned(), value);
        insert("view-uuid", self.view_uuid.hyphenated().to_string().into());
        insert("format-version", self.format_version.into());
        insert("location", self.location.as_str().into());
        insert("schemas", Json::Array(schemas.collect::<Result<_>>()?));
        insert("current-version-id", self.current_version_id.into());
        insert("versions", self.versions.values().map(|version| version.to_json()).collect());
        insert("version-log", self.version_log.iter().map(|entry| entry.to_json()).collect());
        if !self.properties.is_empty() {
            insert("properties", string_map(&self.properties));
        }
        Ok(Json::Object(members))
    }
}

impl ViewVersion {
    /// Reads a version of a view.
    ///
    /// # Errors
    /// `DataInvalid`, with the path of the member, for JSON that is none; `Unsupported` for queries
    /// that are not in SQL.
    pub fn from_json(json: &Json) -> Result<Self> {
        Self::read(&Node::root(json))
    }

    fn read(node: &Node<'_>) -> Result<Self> {
        let object = node.object()?;
        Ok(Self {
            version_id: object.req("version-id", Node::i32)?,
            schema_id: SchemaId(object.req("schema-id", Node::i32)?),
            timestamp_ms: object.req("timestamp-ms", Node::i64)?,
            summary: object.req("summary", Node::string_map)?,
            representations: object.req("representations", |n| n.list(read_representation))?,
            default_catalog: object.opt("default-catalog", Node::string)?,
            default_namespace: object.req("default-namespace", |n| n.list(|n| n.string()))?,
        })
    }

    /// Writes the version.
    pub fn to_json(&self) -> Json {
        let representation =
            |r: &ViewRepresentation| json!({"type": "sql", "sql": r.sql, "dialect": r.dialect});
        let mut members = Map::new();
        let mut insert = |name: &str, value: Json| members.insert(name.to_owned(), value);
        insert("version-id", self.version_id.into());
        insert("schema-id", self.schema_id.0.into());
        insert("timestamp-ms", self.timestamp_ms.into());
        insert("summary", string_map(&self.summary));
        insert("representations", self.representations.iter().map(representation).collect());
        if let Some(catalog) = &self.default_catalog {
            insert("default-catalog", catalog.as_str().into());
        }
        insert("default-namespace", self.default_namespace.as_slice().into());
        Json::Object(members)
    }
}

fn read_representation(node: &Node<'_>) -> Result<ViewRepresentation> {
    let object = node.object()?;
    match object.req("type", Node::string)? {
        kind if kind.eq_ignore_ascii_case("sql") => Ok(ViewRepresentation {
            sql: object.req("sql", Node::string)?,
            dialect: object.req("dialect", Node::string)?,
        }),
        kind => {
            let message = format!("icefloe doesn't know views of type `{kind}`, only `sql`");
            Err(node.locate(Error::unsupported(message)))
        }
    }
}

impl ViewLogEntry {
    fn read(node: &Node<'_>) -> Result<Self> {
        let object = node.object()?;
        Ok(Self {
            timestamp_ms: object.req("timestamp-ms", Node::i64)?,
            version_id: object.req("version-id", Node::i32)?,
        })
    }

    fn to_json(self) -> Json {
        json!({"timestamp-ms": self.timestamp_ms, "version-id": self.version_id})
    }
}
