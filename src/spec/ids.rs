//! Newtypes for the numbers that identify things, so that they can't be confused.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl From<$inner> for $name {
            fn from(id: $inner) -> Self {
                Self(id)
            }
        }
    };
}

id! {
    /// The id of a field of a schema, or of a partition field (these start at 1000).
    FieldId(i32)
}
id! {
    /// The id of one of a table's schemas.
    SchemaId(i32)
}
id! {
    /// The id of one of a table's partition specs.
    SpecId(i32)
}
id! {
    /// The id of one of a table's sort orders; 0 is the unsorted order.
    SortOrderId(i32)
}
id! {
    /// The id of a snapshot.
    SnapshotId(i64)
}
id! {
    /// The relative age of a snapshot and of the files it added (spec, "Sequence Numbers").
    SequenceNumber(i64)
}
