//! ALTER TABLE.

use std::collections::BTreeMap;

use datafusion::error::Result;
use datafusion::sql::sqlparser::ast::Expr as SqlExpr;
use datafusion::sql::sqlparser::tokenizer::Token;

use super::cursor::{Cursor, error};
use super::table::{Column, PartitionTerm, described, term};
use super::types::parse_type;
use crate::spec::{NullOrder, SortDirection, Transform, Type};

/// One change of a table. Columns have their full names.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::sql) enum Alteration {
    Rename(Vec<String>),
    SetProperties(BTreeMap<String, String>),
    UnsetProperties {
        names: Vec<String>,
        if_exists: bool,
    },
    SetLocation(String),
    AddColumns {
        columns: Vec<(Column, Option<At>)>,
        if_not_exists: bool,
    },
    DropColumns {
        names: Vec<String>,
        if_exists: bool,
    },
    RenameColumn {
        name: String,
        new_name: String,
    },
    SetType {
        name: String,
        new_type: Type,
    },
    SetDoc {
        name: String,
        doc: Option<String>,
    },
    SetRequired {
        name: String,
        required: bool,
    },
    /// `None`: no default any more.
    SetDefault {
        name: String,
        default: Option<Box<SqlExpr>>,
    },
    Move {
        name: String,
        at: At,
    },
    AddPartitionField {
        term: PartitionTerm,
        name: Option<String>,
    },
    DropPartitionField(Dropped),
    ReplacePartitionField {
        old: Dropped,
        term: PartitionTerm,
        name: Option<String>,
    },
    /// Unsorted if there are none.
    OrderBy(Vec<(PartitionTerm, SortDirection, NullOrder)>),
    /// `write.distribution-mode`.
    Distribute(&'static str),
    SetIdentifier(Vec<String>),
    DropIdentifier(Vec<String>),
    CreateRef(Reference),
    DropRef {
        branch: bool,
        name: String,
        if_exists: bool,
    },
}

/// A branch or tag to make.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::sql) struct Reference {
    pub(in crate::sql) branch: bool,
    pub(in crate::sql) name: String,
    /// Whether there may be none of that name yet.
    pub(in crate::sql) create: bool,
    /// Whether there may be one of that name.
    pub(in crate::sql) replace: bool,
    /// Whether one of that name stays as it is.
    pub(in crate::sql) if_not_exists: bool,
    /// The current one if `None`.
    pub(in crate::sql) snapshot: Option<i64>,
    pub(in crate::sql) retention: Retention,
}

/// Where a column goes.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::sql) enum At {
    First,
    After(String),
}

/// A partition field by its name, or by what it is made of.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::sql) struct Dropped(pub(in crate::sql) PartitionTerm);

/// How long a branch or tag, and the snapshots of a branch, are kept.
#[derive(Debug, Clone, PartialEq, Default)]
pub(in crate::sql) struct Retention {
    pub(in crate::sql) max_ref_age_ms: Option<i64>,
    pub(in crate::sql) min_snapshots_to_keep: Option<i32>,
    pub(in crate::sql) max_snapshot_age_ms: Option<i64>,
}

/// The words that begin a change.
const VERBS: &[&str] =
    &["add", "drop", "alter", "change", "rename", "set", "unset", "write", "replace", "create"];

/// Everything behind the table's name.
pub(super) fn alterations(c: &mut Cursor<'_>) -> Result<Vec<Alteration>> {
    let mut all = alteration(c)?;
    while c.token(&Token::Comma) {
        all.extend(alteration(c)?);
    }
    Ok(all)
}

fn alteration(c: &mut Cursor<'_>) -> Result<Vec<Alteration>> {
    use Alteration as A;
    let words = [
        "rename to",
        "rename column",
        "set tblproperties",
        "unset tblproperties",
        "set location",
        "set identifier fields",
        "drop identifier fields",
        "add partition field",
        "drop partition field",
        "replace partition field",
        "add columns",
        "add column",
        "drop columns",
        "drop column",
        "alter column",
        "change column",
        "write",
        "create or replace branch",
        "create or replace tag",
        "create branch",
        "create tag",
        "replace branch",
        "replace tag",
        "drop branch",
        "drop tag",
        // PostgreSQL lets COLUMN go without saying.
        "rename",
        "add",
        "drop",
        "alter",
    ];
    Ok(vec![match c.take_one(&words) {
        Some("rename to") => A::Rename(c.name()?),
        Some("rename column" | "rename") => {
            let name = column(c)?;
            c.expect("to")?;
            A::RenameColumn { name, new_name: c.ident()? }
        }
        Some("set tblproperties") => A::SetProperties(c.properties()?),
        Some("unset tblproperties") => {
            let if_exists = c.take("if exists");
            A::UnsetProperties { names: c.in_parentheses(Cursor::property_name)?, if_exists }
        }
        Some("set location") => A::SetLocation(c.text()?),
        Some("set identifier fields") => A::SetIdentifier(c.list(column)?),
        Some("drop identifier fields") => A::DropIdentifier(c.list(column)?),
        Some("add partition field") => {
            let term = term(c)?;
            A::AddPartitionField { term, name: named(c)? }
        }
        Some("drop partition field") => A::DropPartitionField(Dropped(term(c)?)),
        Some("replace partition field") => {
            let old = Dropped(term(c)?);
            c.expect("with")?;
            let term = term(c)?;
            A::ReplacePartitionField { old, term, name: named(c)? }
        }
        Some("add columns" | "add column" | "add") => {
            let if_not_exists = c.take("if not exists");
            let columns = match c.is_token(&Token::LParen) {
                true => c.in_parentheses(new_column)?,
                false => c.list_before(VERBS, new_column)?,
            };
            A::AddColumns { columns, if_not_exists }
        }
        Some("drop columns" | "drop column" | "drop") => {
            let if_exists = c.take("if exists");
            let names = match c.is_token(&Token::LParen) {
                true => c.in_parentheses(column)?,
                false => c.list_before(VERBS, column)?,
            };
            A::DropColumns { names, if_exists }
        }
        Some("alter column" | "change column" | "alter") => return alter_column(c),
        Some("write") => return write_order(c),
        Some(words) if words.ends_with("branch") || words.ends_with("tag") => {
            let branch = words.ends_with("branch");
            match words.starts_with("drop") {
                true => {
                    let if_exists = c.take("if exists");
                    A::DropRef { branch, name: c.ident()?, if_exists }
                }
                false => reference(c, words, branch)?,
            }
        }
        _ => {
            return Err(
                c.unexpected("a change of a table, such as ADD COLUMN, SET TBLPROPERTIES or CREATE BRANCH")
            );
        }
    }])
}

fn column(c: &mut Cursor<'_>) -> Result<String> {
    Ok(c.name()?.join("."))
}

fn named(c: &mut Cursor<'_>) -> Result<Option<String>> {
    if c.take("as") { c.ident().map(Some) } else { Ok(None) }
}

fn at(c: &mut Cursor<'_>) -> Result<Option<At>> {
    Ok(match c.take_one(&["first", "after"]) {
        Some("first") => Some(At::First),
        Some(_) => Some(At::After(column(c)?)),
        None => None,
    })
}

fn new_column(c: &mut Cursor<'_>) -> Result<(Column, Option<At>)> {
    let name = c.name()?;
    let (column, _) = described(c, name)?;
    Ok((column, at(c)?))
}

fn alter_column(c: &mut Cursor<'_>) -> Result<Vec<Alteration>> {
    use Alteration as A;
    let name = column(c)?;
    let words = [
        "type",
        "set data type",
        "set not null",
        "drop not null",
        "set default",
        "drop default",
        "comment",
        "first",
        "after",
    ];
    let mut all = Vec::new();
    while let Some(words) = c.take_one(&words) {
        let name = name.clone();
        all.push(match words {
            "type" | "set data type" => A::SetType { name, new_type: parse_type(c)? },
            "set not null" => A::SetRequired { name, required: true },
            "drop not null" => A::SetRequired { name, required: false },
            "set default" => A::SetDefault { name, default: Some(Box::new(c.default_value()?)) },
            "drop default" => A::SetDefault { name, default: None },
            "comment" => A::SetDoc { name, doc: Some(c.text()?) },
            "first" => A::Move { name, at: At::First },
            _ => A::Move { name, at: At::After(column(c)?) },
        });
    }
    match all.is_empty() {
        true => Err(c.unexpected("TYPE, COMMENT, SET or DROP NOT NULL, SET or DROP DEFAULT, FIRST or AFTER")),
        false => Ok(all),
    }
}

/// `WRITE [LOCALLY] ORDERED BY …`, `WRITE UNORDERED`, `WRITE DISTRIBUTED BY PARTITION [LOCALLY ORDERED
/// BY …]`.
fn write_order(c: &mut Cursor<'_>) -> Result<Vec<Alteration>> {
    use Alteration as A;
    let keys = |c: &mut Cursor<'_>| match c.is_token(&Token::LParen) {
        true => c.in_parentheses(sort_key),
        false => c.list(sort_key),
    };
    Ok(match c.take_one(&["ordered by", "locally ordered by", "unordered", "distributed by partition"]) {
        Some("ordered by") => vec![A::OrderBy(keys(c)?), A::Distribute("range")],
        Some("locally ordered by") => vec![A::OrderBy(keys(c)?)],
        Some("unordered") => vec![A::OrderBy(Vec::new()), A::Distribute("none")],
        Some(_) => {
            let order = match c.take_one(&["locally ordered by", "ordered by"]) {
                Some(_) => keys(c)?,
                None => Vec::new(),
            };
            vec![A::OrderBy(order), A::Distribute("hash")]
        }
        None => {
            return Err(c.unexpected("ORDERED BY, LOCALLY ORDERED BY, UNORDERED or DISTRIBUTED BY PARTITION"));
        }
    })
}

fn sort_key(c: &mut Cursor<'_>) -> Result<(PartitionTerm, SortDirection, NullOrder)> {
    let term = term(c)?;
    let direction = match c.take_one(&["asc", "desc"]) {
        Some("desc") => SortDirection::Descending,
        _ => SortDirection::Ascending,
    };
    let nulls = match (c.take_one(&["nulls first", "nulls last"]), direction) {
        (Some("nulls first"), _) | (None, SortDirection::Ascending) => NullOrder::First,
        _ => NullOrder::Last,
    };
    Ok((term, direction, nulls))
}

fn reference(c: &mut Cursor<'_>, words: &str, branch: bool) -> Result<Alteration> {
    let if_not_exists = c.take("if not exists");
    let name = c.ident()?;
    let snapshot = match c.take_one(&["as of version", "for version"]) {
        Some(_) => Some(c.number()?),
        None => None,
    };
    let mut retention = Retention::default();
    while let Some(words) = c.take_one(&["retain", "with snapshot retention"]) {
        if words == "retain" {
            if retention.max_ref_age_ms.replace(age(c)?).is_some() {
                return Err(error("`RETAIN` is there twice".to_owned()));
            }
            continue;
        }
        if !branch {
            return Err(c.unexpected("RETAIN: a tag is one snapshot"));
        }
        let count: i64 = c.number()?;
        if c.take_one(&["snapshots", "snapshot"]).is_none() {
            retention.max_snapshot_age_ms = Some(unit(c, count)?);
            continue;
        }
        let count = i32::try_from(count).map_err(|_| c.unexpected("fewer snapshots"))?;
        retention.min_snapshots_to_keep = Some(count);
        if let Token::Number(..) = c.next_is() {
            retention.max_snapshot_age_ms = Some(age(c)?);
        }
    }
    let (create, replace) = (words.starts_with("create"), words.contains("replace"));
    Ok(Alteration::CreateRef(Reference { branch, name, create, replace, if_not_exists, snapshot, retention }))
}

fn age(c: &mut Cursor<'_>) -> Result<i64> {
    let count: i64 = c.number()?;
    unit(c, count)
}

fn unit(c: &mut Cursor<'_>, count: i64) -> Result<i64> {
    let unit = match c.take_one(&["days", "day", "hours", "hour", "minutes", "minute"]) {
        Some("days" | "day") => 24 * 3_600_000,
        Some("hours" | "hour") => 3_600_000,
        Some(_) => 60_000,
        None => return Err(c.unexpected("DAYS, HOURS or MINUTES")),
    };
    count.checked_mul(unit).ok_or_else(|| c.unexpected("a shorter time"))
}

/// The term of a field to drop, which may also be its name.
impl Dropped {
    /// The name, if it is one.
    pub(in crate::sql) fn name(&self) -> Option<&str> {
        (self.0.transform == Transform::Identity).then_some(self.0.source.as_str())
    }
}
