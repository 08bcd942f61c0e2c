//! Avro object container files: what of them manifests and manifest lists need
//! (Avro specification 1.11; Iceberg spec, Appendix A, "Avro").
//!
//! Files are decoded by a plan that is made once from the schema in their header; nothing is
//! ever materialised as a generic Avro value.

mod container;
mod cursor;
mod encode;
mod schema;
mod schema_text;
mod slot;

pub use container::Codec;
pub(crate) use container::{Block, ContainerReader};
pub(crate) use cursor::{Cursor, Decoded, Malformed};
pub(crate) use encode::{ContainerWriter, Encoder};
pub(crate) use schema::{AvroSchema, Kind, Logical, NodeId, RecordField};
pub(crate) use schema_text::{decimal_length, record_schema};
pub(crate) use slot::{Slot, Want};
