//! CALL: Spark's procedures about snapshots, branches and registering.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::dataframe::DataFrame;
use datafusion::error::Result;
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::ast::Expr as SqlExpr;
use datafusion::sql::sqlparser::dialect::GenericDialect;

use super::places::{Place, ddl_catalog};
use super::values::constant;
use crate::catalog::TableIdent;
use crate::error::{Error, ErrorKind};
use crate::spec::{SnapshotId, SnapshotSelector};
use crate::sql::parse::tokens;
use crate::sql::statement::table_name;
use crate::table::Table;
use crate::transaction::{CherryPick, ManageSnapshots};

/// A procedure: its name, its parameters (those that may be left out last) with how many are needed, and
/// the columns of its result.
struct Procedure {
    name: &'static str,
    parameters: &'static [(&'static str, Kind)],
    needed: usize,
    columns: &'static [&'static str],
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Text,
    Long,
    Time,
}

const TABLE: (&str, Kind) = ("table", Kind::Text);
const SNAPSHOT: (&str, Kind) = ("snapshot_id", Kind::Long);
const MOVED: &[&str] = &["previous_snapshot_id", "current_snapshot_id"];

const PROCEDURES: &[Procedure] = &[
    Procedure { name: "rollback_to_snapshot", parameters: &[TABLE, SNAPSHOT], needed: 2, columns: MOVED },
    Procedure {
        name: "rollback_to_timestamp",
        parameters: &[TABLE, ("timestamp", Kind::Time)],
        needed: 2,
        columns: MOVED,
    },
    Procedure {
        name: "set_current_snapshot",
        parameters: &[TABLE, SNAPSHOT, ("ref", Kind::Text)],
        needed: 1,
        columns: MOVED,
    },
    Procedure {
        name: "cherrypick_snapshot",
        parameters: &[TABLE, SNAPSHOT],
        needed: 2,
        columns: &["source_snapshot_id", "current_snapshot_id"],
    },
    Procedure {
        name: "publish_changes",
        parameters: &[TABLE, ("wap_id", Kind::Text)],
        needed: 2,
        columns: &["source_snapshot_id", "current_snapshot_id"],
    },
    Procedure {
        name: "fast_forward",
        parameters: &[TABLE, ("branch", Kind::Text), ("to", Kind::Text)],
        needed: 3,
        columns: &["branch_updated", "previous_ref", "updated_ref"],
    },
    Procedure {
        name: "ancestors_of",
        parameters: &[TABLE, SNAPSHOT],
        needed: 1,
        columns: &["snapshot_id", "timestamp"],
    },
    Procedure {
        name: "register_table",
        parameters: &[TABLE, ("metadata_file", Kind::Text)],
        needed: 2,
        columns: &["current_snapshot_id"],
    },
    Procedure { name: "unregister_table", parameters: &[TABLE], needed: 1, columns: &["unregistered"] },
];

fn find(name: &[String]) -> Result<&'static Procedure> {
    let called = name.last().map(|name| name.to_ascii_lowercase()).unwrap_or_default();
    let found = PROCEDURES.iter().find(|procedure| procedure.name == called);
    found.ok_or_else(|| {
        let names: Vec<&str> = PROCEDURES.iter().map(|procedure| procedure.name).collect();
        Error::unsupported(format!("the procedure `{called}`; there are {}", names.join(", "))).into()
    })
}

/// The columns of a procedure's result.
pub(super) fn columns(name: &[String]) -> Result<Vec<Field>> {
    Ok(find(name)?.columns.iter().map(|column| field(column)).collect())
}

fn field(column: &str) -> Field {
    match column {
        "branch_updated" => Field::new(column, DataType::Utf8, false),
        "unregistered" => Field::new(column, DataType::Boolean, false),
        _ => Field::new(column, DataType::Int64, true),
    }
}

/// A value of a result.
enum Cell {
    Text(String),
    Flag(bool),
    Long(Option<i64>),
}

impl Cell {
    fn snapshot(id: Option<SnapshotId>) -> Self {
        Self::Long(id.map(|id| id.0))
    }
}

pub(super) async fn call(
    context: &SessionContext,
    name: &[String],
    arguments: &[(Option<String>, SqlExpr)],
) -> Result<DataFrame> {
    let procedure = find(name)?;
    let catalog = ddl_catalog(context, name)
        .ok_or_else(|| Error::not_found(format!("an Iceberg catalog for `{}`", name.join("."))))?;
    let call = Call { context, procedure, given: given(context, procedure, arguments)?, place: catalog };
    let rows = call.run().await.map_err(|e| within(e, procedure.name))?;
    let schema = Arc::new(Schema::new(columns(name)?));
    let column = |i: usize| -> ArrayRef {
        match rows.first().and_then(|row| row.get(i)) {
            Some(Cell::Text(_)) => {
                Arc::new(StringArray::from_iter(rows.iter().map(|row| match row.get(i) {
                    Some(Cell::Text(text)) => Some(text.clone()),
                    _ => None,
                })))
            }
            Some(Cell::Flag(_)) => {
                Arc::new(BooleanArray::from_iter(rows.iter().map(|row| match row.get(i) {
                    Some(Cell::Flag(flag)) => Some(*flag),
                    _ => None,
                })))
            }
            _ => Arc::new(Int64Array::from_iter(rows.iter().map(|row| match row.get(i) {
                Some(Cell::Long(long)) => *long,
                _ => None,
            }))),
        }
    };
    let arrays = (0..procedure.columns.len()).map(column).collect();
    context.read_batch(RecordBatch::try_new(schema, arrays)?)
}

fn within(e: datafusion::error::DataFusionError, procedure: &str) -> datafusion::error::DataFusionError {
    e.context(format!("procedure {procedure}"))
}

/// The arguments in the order of the parameters.
fn given(
    context: &SessionContext,
    procedure: &Procedure,
    arguments: &[(Option<String>, SqlExpr)],
) -> Result<Vec<Option<ScalarValue>>> {
    let names = || procedure.parameters.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let wrong = |what: String| {
        Error::invalid(format!("procedure {}: {what}; its parameters are {}", procedure.name, names()))
    };
    let mut given = vec![None; procedure.parameters.len()];
    for (i, (name, expr)) in arguments.iter().enumerate() {
        let place = match name {
            Some(name) => procedure.parameters.iter().position(|(known, _)| known.eq_ignore_ascii_case(name)),
            None => Some(i).filter(|i| *i < given.len()),
        };
        let slot = place.and_then(|place| Some((given.get_mut(place)?, procedure.parameters.get(place)?)));
        let Some((slot, (_, kind))) = slot else {
            let what = name.clone().map_or_else(|| "too many arguments".to_owned(), |n| format!("no `{n}`"));
            return Err(wrong(what).into());
        };
        let target = match kind {
            Kind::Text => DataType::Utf8,
            Kind::Long => DataType::Int64,
            Kind::Time => DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
        };
        let value = match kind {
            // Not half a number.
            Kind::Long => {
                let value = constant(context, expr, None)?;
                match value.data_type() {
                    DataType::Null => ScalarValue::Int64(None),
                    given if given.is_integer() => value.cast_to(&target)?,
                    given => return Err(wrong(format!("{value} is of type {given}, not an id")).into()),
                }
            }
            Kind::Text | Kind::Time => constant(context, expr, Some(&target))?,
        };
        if slot.replace(value).is_some() {
            return Err(wrong("an argument is there twice".to_owned()).into());
        }
    }
    let missing = procedure.parameters.iter().zip(&given).take(procedure.needed);
    if let Some(((name, _), _)) = missing.into_iter().find(|(_, given)| given.is_none()) {
        return Err(wrong(format!("`{name}` is missing")).into());
    }
    Ok(given)
}

struct Call<'a> {
    context: &'a SessionContext,
    procedure: &'static Procedure,
    given: Vec<Option<ScalarValue>>,
    place: Place,
}

impl Call<'_> {
    fn value(&self, name: &str) -> Option<&ScalarValue> {
        let place = self.procedure.parameters.iter().position(|(known, _)| *known == name)?;
        self.given.get(place)?.as_ref().filter(|value| !value.is_null())
    }

    fn text(&self, name: &str) -> Result<&str> {
        match self.value(name) {
            Some(ScalarValue::Utf8(Some(text))) => Ok(text),
            _ => Err(Error::invalid(format!("`{name}` is NULL")).into()),
        }
    }

    fn long(&self, name: &str) -> Result<i64> {
        match self.value(name) {
            Some(ScalarValue::Int64(Some(long)) | ScalarValue::TimestampMillisecond(Some(long), _)) => {
                Ok(*long)
            }
            _ => Err(Error::invalid(format!("`{name}` is NULL")).into()),
        }
    }

    async fn ident(&self) -> Result<(Place, TableIdent)> {
        let text = self.text("table")?;
        let state = self.context.state();
        let dialect = GenericDialect {};
        let name = table_name(tokens(text, &dialect)?, &dialect, state.config_options())?;
        let place = self.place.table_in(self.context, &name)?;
        let ident = place.ident().await?;
        Ok((place, ident))
    }

    async fn commit(&self, change: impl FnOnce(&Table) -> Result<ManageSnapshots>) -> Result<(Table, Table)> {
        let (place, ident) = self.ident().await?;
        let catalog = place.catalog()?;
        let before = catalog.load_table(&ident).await?.with_all_snapshots().await?;
        let after = before.transaction().apply(change(&before)?).commit(catalog.as_ref()).await?;
        place.provider()?.invalidate(&ident);
        Ok((before, after))
    }

    async fn moved(&self, change: impl FnOnce(&Table) -> Result<ManageSnapshots>) -> Result<Vec<Vec<Cell>>> {
        let (before, after) = self.commit(change).await?;
        let current = |table: &Table| Cell::snapshot(table.metadata().current_snapshot_id);
        Ok(vec![vec![current(&before), current(&after)]])
    }

    async fn run(&self) -> Result<Vec<Vec<Cell>>> {
        match self.procedure.name {
            "rollback_to_snapshot" => {
                let id = SnapshotId(self.long("snapshot_id")?);
                self.moved(|_| Ok(ManageSnapshots::new().rollback_to(id))).await
            }
            "rollback_to_timestamp" => {
                let time = self.long("timestamp")?;
                self.moved(|_| Ok(ManageSnapshots::new().rollback_to_time(time))).await
            }
            "set_current_snapshot" => {
                let id = match (self.value("snapshot_id").is_some(), self.value("ref").is_some()) {
                    (true, false) => Some(SnapshotId(self.long("snapshot_id")?)),
                    (false, true) => None,
                    _ => return Err(Error::invalid("give either `snapshot_id` or `ref`").into()),
                };
                self.moved(|table| {
                    let id = match id {
                        Some(id) => id,
                        None => self.of_ref(table, self.text("ref")?)?,
                    };
                    Ok(ManageSnapshots::new().set_current_snapshot(id))
                })
                .await
            }
            "cherrypick_snapshot" => self.cherry_pick(|_| Ok(SnapshotId(self.long("snapshot_id")?))).await,
            "publish_changes" => {
                let wanted = self.text("wap_id")?;
                self.cherry_pick(|table| {
                    let staged = |id: &str| id == wanted;
                    let snapshots = &table.metadata().snapshots;
                    let found =
                        snapshots.iter().find(|s| s.summary.get("wap.id").is_some_and(|id| staged(id)));
                    found
                        .map(|snapshot| snapshot.snapshot_id)
                        .ok_or_else(|| Error::not_found(format!("a snapshot with wap.id `{wanted}`")).into())
                })
                .await
            }
            "fast_forward" => {
                let (branch, to) = (self.text("branch")?, self.text("to")?);
                let (before, after) =
                    self.commit(|_| Ok(ManageSnapshots::new().fast_forward(branch, to))).await?;
                let head = |table: &Table| {
                    Cell::snapshot(table.metadata().refs.get(branch).map(|reference| reference.snapshot_id))
                };
                Ok(vec![vec![Cell::Text(branch.to_owned()), head(&before), head(&after)]])
            }
            "ancestors_of" => self.ancestors().await,
            "register_table" => {
                let (place, ident) = self.ident().await?;
                let table = place.catalog()?.register_table(&ident, self.text("metadata_file")?).await?;
                place.provider()?.invalidate(&ident);
                Ok(vec![vec![Cell::snapshot(table.metadata().current_snapshot_id)]])
            }
            "unregister_table" => {
                let (place, ident) = self.ident().await?;
                place.catalog()?.drop_table(&ident, false).await?;
                place.provider()?.invalidate(&ident);
                Ok(vec![vec![Cell::Flag(true)]])
            }
            other => Err(Error::unsupported(format!("the procedure `{other}`")).into()),
        }
    }

    fn of_ref(&self, table: &Table, name: &str) -> Result<SnapshotId> {
        let selected = table.metadata().select(&SnapshotSelector::Ref(name.to_owned()))?;
        let snapshot = selected.snapshot.as_ref().map(|snapshot| snapshot.snapshot_id);
        snapshot.ok_or_else(|| Error::not_found(format!("a snapshot of `{name}`")).into())
    }

    async fn cherry_pick(&self, which: impl FnOnce(&Table) -> Result<SnapshotId>) -> Result<Vec<Vec<Cell>>> {
        let (place, ident) = self.ident().await?;
        let catalog = place.catalog()?;
        let table = catalog.load_table(&ident).await?.with_all_snapshots().await?;
        let source = which(&table)?;
        let after = table.transaction().apply(CherryPick::new(source)).commit(catalog.as_ref()).await?;
        place.provider()?.invalidate(&ident);
        let current = after.metadata().current_snapshot_id;
        Ok(vec![vec![Cell::snapshot(Some(source)), Cell::snapshot(current)]])
    }

    async fn ancestors(&self) -> Result<Vec<Vec<Cell>>> {
        let (place, ident) = self.ident().await?;
        let table = place.catalog()?.load_table(&ident).await?.with_all_snapshots().await?;
        let metadata = table.metadata();
        let mut next = match self.value("snapshot_id") {
            Some(_) => Some(SnapshotId(self.long("snapshot_id")?)),
            None => metadata.current_snapshot_id,
        };
        let mut rows = Vec::new();
        while let Some(id) = next {
            let Some(snapshot) = metadata.snapshots.iter().find(|snapshot| snapshot.snapshot_id == id) else {
                if rows.is_empty() {
                    return Err(Error::new(ErrorKind::NotFound, format!("snapshot {}", id.0)).into());
                }
                break;
            };
            // Broken metadata may go in circles.
            if rows.len() > metadata.snapshots.len() {
                break;
            }
            rows.push(vec![Cell::Long(Some(id.0)), Cell::Long(Some(snapshot.timestamp_ms))]);
            next = snapshot.parent_snapshot_id;
        }
        Ok(rows)
    }
}
