//! Another order for writers to sort by (spec, "Sorting").

use std::sync::Arc;

use async_trait::async_trait;

use super::columns::Columns;
use crate::error::{Error, Result, ResultExt};
use crate::spec::{
    LAST_ADDED, NullOrder, SortDirection, SortField, SortOrder, SortOrderId, TableMetadata, TableUpdate,
    Transform,
};
use crate::table::Table;
use crate::transaction::Action;

/// Replaces the order that writers sort by; without any key, they don't.
#[derive(Debug, Clone, Default)]
#[must_use = "an action does nothing until it is part of a transaction that is committed"]
pub struct ReplaceSortOrder {
    case_insensitive: bool,
    keys: Vec<Key>,
}

#[derive(Debug, Clone)]
struct Key {
    source: String,
    transform: Transform,
    direction: SortDirection,
    null_order: NullOrder,
}

impl ReplaceSortOrder {
    /// Unsorted.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether names of columns must match in case; they must unless told otherwise.
    pub fn case_sensitive(mut self, case_sensitive: bool) -> Self {
        self.case_insensitive = !case_sensitive;
        self
    }

    /// Sorts by a column next, smallest first and nulls before all.
    pub fn asc(self, source: impl Into<String>) -> Self {
        self.key(source, Transform::Identity, SortDirection::Ascending, NullOrder::First)
    }

    /// Sorts by a column next, largest first and nulls after all.
    pub fn desc(self, source: impl Into<String>) -> Self {
        self.key(source, Transform::Identity, SortDirection::Descending, NullOrder::Last)
    }

    /// Sorts by what a transform makes of a column next.
    pub fn key(
        mut self,
        source: impl Into<String>,
        transform: Transform,
        direction: SortDirection,
        null_order: NullOrder,
    ) -> Self {
        self.keys.push(Key { source: source.into(), transform, direction, null_order });
        self
    }

    /// The order, by the columns of the current schema of `metadata`.
    ///
    /// # Errors
    /// `DataInvalid` for columns that don't exist or that can't be sorted by.
    pub fn apply(&self, metadata: &TableMetadata) -> Result<SortOrder> {
        let schema = metadata.current_schema();
        let columns = Columns::new(schema, !self.case_insensitive);
        let mut fields = Vec::new();
        for key in &self.keys {
            let place = || format!("sort key {} of `{}`", key.transform, key.source);
            let id = columns.get(&key.source).context(place)?;
            let field_type = schema.field_by_id(id).map(|field| &field.field_type);
            let is_sortable = field_type
                .is_some_and(|t| t.as_primitive().is_some() && key.transform.result_type(t).is_some());
            if let (false, Some(field_type)) = (is_sortable, field_type) {
                let message = format!("rows can't be sorted by that of type {field_type}");
                return Err(Error::invalid(message).context(place()));
            }
            fields.push(SortField {
                source_ids: vec![id],
                transform: key.transform.clone(),
                direction: key.direction,
                null_order: key.null_order,
                extra: serde_json::Map::new(),
            });
        }
        let order = SortOrder { order_id: SortOrderId(0), fields };
        let order_id = match metadata.sort_order_like(&order) {
            Some(id) => id,
            None if order.fields.is_empty() => SortOrderId(0),
            None => {
                let last = metadata.sort_orders.last_key_value().map_or(0, |(id, _)| id.0.max(0));
                SortOrderId(last.checked_add(1).ok_or_else(|| Error::invalid("no sort order id is left"))?)
            }
        };
        Ok(SortOrder { order_id, ..order })
    }

    fn updates_of(&self, metadata: &TableMetadata) -> Result<Vec<TableUpdate>> {
        let order = self.apply(metadata)?;
        let id = order.order_id;
        Ok(if id == metadata.default_sort_order_id {
            Vec::new()
        } else if metadata.sort_orders.contains_key(&id) {
            vec![TableUpdate::SetDefaultSortOrder(id)]
        } else {
            vec![
                TableUpdate::AddSortOrder(Arc::new(order)),
                TableUpdate::SetDefaultSortOrder(SortOrderId(LAST_ADDED)),
            ]
        })
    }
}

#[async_trait]
impl Action for ReplaceSortOrder {
    async fn updates(&mut self, table: &Table) -> Result<Vec<TableUpdate>> {
        self.updates_of(table.metadata()).context(|| "replacement of the sort order".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_tables::{apply, table};
    use super::*;

    #[test]
    fn orders_are_numbered_and_used_again() {
        let base = table(2);
        let order = ReplaceSortOrder::new().asc("id").key(
            "ts",
            Transform::Day,
            SortDirection::Descending,
            NullOrder::Last,
        );
        let sorted = apply(&base, &order.updates_of(&base).unwrap());
        assert_eq!(sorted.default_sort_order_id, SortOrderId(1));
        let fields = &sorted.default_sort_order().fields;
        assert_eq!(fields[0].null_order, NullOrder::First);
        assert_eq!(fields[1].transform, Transform::Day);
        assert!(order.updates_of(&sorted).unwrap().is_empty());

        let unsorted = ReplaceSortOrder::new().updates_of(&sorted).unwrap();
        assert_eq!(unsorted, [TableUpdate::SetDefaultSortOrder(SortOrderId(0))]);
        let unsorted = apply(&sorted, &unsorted);
        let again = order.updates_of(&unsorted).unwrap();
        assert_eq!(again, [TableUpdate::SetDefaultSortOrder(SortOrderId(1))]);
    }

    #[test]
    fn only_what_has_an_order() {
        let base = table(2);
        for (order, part) in [
            (ReplaceSortOrder::new().asc("nope"), "no column `nope`"),
            (ReplaceSortOrder::new().asc("point"), "can't be sorted by"),
            (ReplaceSortOrder::new().asc("ID"), "no column `ID`"),
            (
                ReplaceSortOrder::new().key(
                    "name",
                    Transform::Day,
                    SortDirection::Ascending,
                    NullOrder::First,
                ),
                "sort key day of `name`",
            ),
        ] {
            let e = order.updates_of(&base).unwrap_err().to_string();
            assert!(e.contains(part), "{e}");
        }
        assert!(ReplaceSortOrder::new().case_sensitive(false).asc("ID").updates_of(&base).is_ok());
    }
}
