//! The Iceberg table format: bytes and JSON to structs and back, without I/O.

pub(crate) mod avro;
mod content_file;
mod data_location;
mod deletion_vector;
mod ids;
mod iso_time;
mod json;
mod manifest;
mod manifest_list;
mod manifest_list_read;
mod manifest_list_write;
mod manifest_partition;
mod manifest_read;
mod manifest_schema;
#[cfg(test)]
mod manifest_tests;
mod manifest_write;
mod metadata_builder;
mod metadata_json;
mod metadata_log;
mod metrics;
pub(crate) mod murmur3;
mod name_mapping;
mod partial_snapshots;
mod partition;
mod partition_json;
mod partition_path;
mod partition_text;
pub mod puffin;
mod requirement;
mod requirement_json;
mod scan_task;
mod schema;
mod schema_json;
mod snapshot;
mod snapshot_json;
mod snapshot_selector;
mod sort;
mod summary;
mod table_metadata;
mod table_properties;
mod table_update;
mod table_update_json;
mod transform;
pub(crate) mod transform_apply;
mod types;
mod value;
pub(crate) mod value_binary;
mod value_json;
pub(crate) mod variant;
mod view_metadata;
mod view_metadata_json;
mod view_versions;

pub use avro::Codec;
pub use content_file::{ContentFile, ContentType, FileFormat, ManifestEntry, ManifestStatus};
pub use data_location::DataLocation;
pub use deletion_vector::{DELETION_VECTOR_BLOB, DeletionVector};
pub use ids::{FieldId, SchemaId, SequenceNumber, SnapshotId, SortOrderId, SpecId};
pub use manifest::{Manifest, ManifestHeader};
pub use manifest_list::{
    FieldSummary, ManifestContent, ManifestFile, ManifestList, UNASSIGNED_SEQUENCE_NUMBER,
};
pub use manifest_list_write::{ManifestListWriter, ManifestListWriterOptions};
pub use manifest_write::{ManifestWriter, ManifestWriterOptions};
pub(crate) use metrics::MetricMap;
pub use metrics::{MetricMaps, Metrics};
pub use name_mapping::{MappedField, MappedFields, NameMapping};
pub use partition::{PartitionField, PartitionSpec, PartitionValues};
pub(crate) use partition_text::partition_text;
pub use requirement::{TableRequirement, requirements_for, requirements_for_replace};
pub use scan_task::{DeleteFile, FileScanTask};
pub use schema::{MAX_NESTING, Schema};
pub use snapshot::{MetadataLogEntry, RefType, Snapshot, SnapshotLogEntry, SnapshotManifests, SnapshotRef};
pub use snapshot_selector::{Selection, SnapshotSelector};
pub use sort::{NullOrder, SortDirection, SortField, SortOrder};
pub use summary::SnapshotSummary;
pub use table_metadata::{MAIN_BRANCH, TableMetadata};
pub use table_properties::{
    BloomFilter, DeleteGranularity, DistributionMode, IsolationLevel, MetricsConfig, MetricsMode,
    ParquetProperties, RetryPolicy, RowLevelMode, RowLevelOperation, TableProperties,
};
pub use table_update::{LAST_ADDED, TableUpdate};
pub use transform::Transform;
pub use types::{ListType, MAX_DECIMAL_PRECISION, MapType, NestedField, PrimitiveType, StructType, Type};
pub use value::Value;
pub(crate) use value_json::parse_decimal;
pub use view_metadata::{ViewLogEntry, ViewMetadata, ViewRepresentation, ViewVersion};
pub use view_versions::ViewDefinition;
