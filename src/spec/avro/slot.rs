//! Fields that may be null: how a plan reads one value.

use super::cursor::{Cursor, Decoded, Malformed};
use super::schema::{AvroSchema, Kind, NodeId};
use crate::error::{Error, Result};

/// What a plan needs of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    /// `int` or `long`: both are encoded alike.
    Integer,
    /// `string`.
    Text,
    /// `bytes` or `string`: both are encoded alike.
    Bytes,
    /// `boolean`.
    Boolean,
    /// An array of `int` or `long`.
    Integers,
    /// An array of records.
    Records,
    /// Whatever the caller checks itself.
    Anything,
}

/// A value, perhaps within a union with null in either order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    null: Null,
    node: NodeId,
}

#[derive(Debug, Clone, Copy)]
enum Null {
    Never,
    Always,
    Branch { null: i64, branches: i64 },
}

impl Slot {
    /// How to read a field of type `node`.
    ///
    /// # Errors
    /// `DataInvalid` where it is not what the plan wants.
    pub(crate) fn new(schema: &AvroSchema, node: NodeId, want: Want) -> Result<Self> {
        let slot = Self::of(schema, node)?;
        let is_integer = |n| matches!(schema.kind(n), Kind::Int | Kind::Long);
        let fits = matches!(slot.null, Null::Always)
            || match (want, schema.kind(slot.node)) {
                (Want::Integer, _) => is_integer(slot.node),
                (Want::Text, Kind::String) | (Want::Bytes, Kind::Bytes | Kind::String) => true,
                (Want::Boolean, Kind::Boolean) | (Want::Anything, _) => true,
                (Want::Integers, Kind::Array(item)) => is_integer(*item),
                (Want::Records, Kind::Array(item)) => matches!(schema.kind(*item), Kind::Record(_)),
                _ => false,
            };
        if fits { Ok(slot) } else { Err(Error::invalid(format!("its avro type is not {}", want.name()))) }
    }

    fn of(schema: &AvroSchema, node: NodeId) -> Result<Self> {
        match schema.kind(node) {
            Kind::Null => Ok(Self { null: Null::Always, node }),
            Kind::Union(branches) => {
                let is_null = |n: &NodeId| matches!(schema.kind(*n), Kind::Null);
                match branches.as_slice() {
                    [a, b] if is_null(a) && !is_null(b) => {
                        Ok(Self { null: Null::Branch { null: 0, branches: 2 }, node: *b })
                    }
                    [a, b] if is_null(b) && !is_null(a) => {
                        Ok(Self { null: Null::Branch { null: 1, branches: 2 }, node: *a })
                    }
                    [a] if is_null(a) => Ok(Self { null: Null::Branch { null: 0, branches: 1 }, node: *a }),
                    [a] => Ok(Self { null: Null::Branch { null: -1, branches: 1 }, node: *a }),
                    _ => Err(Error::invalid("its avro type is a union other than of null and one type")),
                }
            }
            _ => Ok(Self { null: Null::Never, node }),
        }
    }

    /// A value that is never null, for what has no type of its own: the keys of Avro's maps.
    pub(crate) fn plain(node: NodeId) -> Self {
        Self { null: Null::Never, node }
    }

    /// The type of the values that are not null.
    pub(crate) fn node(&self) -> NodeId {
        self.node
    }

    /// Whether no value is ever wrapped in a union.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.null, Null::Never)
    }

    /// Whether a value follows, else null was read.
    #[inline]
    pub(crate) fn is_present(&self, cursor: &mut Cursor<'_>) -> Decoded<bool> {
        match self.null {
            Null::Never => Ok(true),
            Null::Always => Ok(false),
            Null::Branch { null, branches } => {
                let branch = cursor.long()?;
                if (0..branches).contains(&branch) {
                    Ok(branch != null)
                } else {
                    Err(Malformed("avro union has no such branch"))
                }
            }
        }
    }

    /// Reads a [`Want::Integer`].
    #[inline]
    pub(crate) fn long(&self, cursor: &mut Cursor<'_>) -> Decoded<Option<i64>> {
        if self.is_present(cursor)? { Ok(Some(cursor.long()?)) } else { Ok(None) }
    }

    /// Reads a [`Want::Integer`] that must be an `int`.
    #[inline]
    pub(crate) fn int(&self, cursor: &mut Cursor<'_>) -> Decoded<Option<i32>> {
        if self.is_present(cursor)? { Ok(Some(cursor.int()?)) } else { Ok(None) }
    }

    /// Reads a [`Want::Boolean`].
    pub(crate) fn boolean(&self, cursor: &mut Cursor<'_>) -> Decoded<Option<bool>> {
        if self.is_present(cursor)? { Ok(Some(cursor.boolean()?)) } else { Ok(None) }
    }

    /// Reads a [`Want::Bytes`].
    pub(crate) fn bytes<'a>(&self, cursor: &mut Cursor<'a>) -> Decoded<Option<&'a [u8]>> {
        if self.is_present(cursor)? { Ok(Some(cursor.bytes()?)) } else { Ok(None) }
    }

    /// Reads a [`Want::Text`].
    #[inline]
    pub(crate) fn string<'a>(&self, cursor: &mut Cursor<'a>) -> Decoded<Option<&'a str>> {
        if self.is_present(cursor)? { Ok(Some(cursor.string()?)) } else { Ok(None) }
    }

    /// Reads [`Want::Integers`].
    pub(crate) fn longs(&self, cursor: &mut Cursor<'_>) -> Decoded<Option<Vec<i64>>> {
        if !self.is_present(cursor)? {
            return Ok(None);
        }
        let mut values = Vec::new();
        loop {
            let (count, _) = cursor.block()?;
            if count == 0 {
                return Ok(Some(values));
            }
            // The count is no more than the bytes left, but the memory would be eight times that.
            values.reserve(count.min(1024));
            for _ in 0..count {
                values.push(cursor.long()?);
            }
        }
    }
}

impl Want {
    fn name(self) -> &'static str {
        match self {
            Want::Integer => "int or long",
            Want::Text => "string",
            Want::Bytes => "bytes",
            Want::Boolean => "boolean",
            Want::Integers => "an array of int or long",
            Want::Records => "an array of records",
            Want::Anything => "known",
        }
    }
}
