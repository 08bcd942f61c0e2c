//! CREATE TABLE and REPLACE TABLE.

use std::collections::{BTreeMap, HashSet};

use datafusion::error::{DataFusionError, Result};
use datafusion::sql::sqlparser::ast::Expr as SqlExpr;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::cursor::{Cursor, error};
use super::types::parse_type;
use super::{Subject, name_of};
use crate::spec::{Transform, Type};

/// A table to create.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::sql) struct CreateTable {
    pub(in crate::sql) name: Vec<String>,
    /// Whether one that exists is no error.
    pub(in crate::sql) if_not_exists: bool,
    /// Whether one that exists becomes this one.
    pub(in crate::sql) replace: bool,
    /// Whether there may be none that exists.
    pub(in crate::sql) create: bool,
    /// Those of the query if there are none.
    pub(in crate::sql) columns: Vec<Column>,
    /// The identifier fields.
    pub(in crate::sql) key: Vec<String>,
    pub(in crate::sql) partitioned_by: Vec<PartitionTerm>,
    pub(in crate::sql) location: Option<String>,
    pub(in crate::sql) properties: BTreeMap<String, String>,
    /// Its first rows.
    pub(in crate::sql) query: Option<Vec<TokenWithSpan>>,
}

/// A column.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::sql) struct Column {
    /// More than one part for a field of a struct.
    pub(in crate::sql) name: Vec<String>,
    pub(in crate::sql) column_type: Type,
    pub(in crate::sql) required: bool,
    pub(in crate::sql) doc: Option<String>,
    pub(in crate::sql) default: Option<SqlExpr>,
}

/// A field of a partition spec, or a key of a sort order.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::sql) struct PartitionTerm {
    /// The full name of the column.
    pub(in crate::sql) source: String,
    pub(in crate::sql) transform: Transform,
}

pub(super) fn create(
    c: &mut Cursor<'_>,
    tokens: &[TokenWithSpan],
    is_ours: &dyn Fn(Subject, &[String]) -> bool,
) -> Result<Option<CreateTable>> {
    let (replace, create) = match c.take_one(&["create or replace table", "create table", "replace table"]) {
        Some("create or replace table") => (true, true),
        Some("replace table") => (true, false),
        Some(_) => (false, true),
        None => return Ok(None),
    };
    let if_not_exists = c.take("if not exists");
    let Some(name) = name_of(c, Subject::Table, is_ours) else { return Ok(None) };
    let mut table = CreateTable {
        name,
        if_not_exists,
        replace,
        create,
        columns: Vec::new(),
        key: Vec::new(),
        partitioned_by: Vec::new(),
        location: None,
        properties: BTreeMap::new(),
        query: None,
    };
    if c.is_token(&Token::LParen) {
        let parts = c.in_parentheses(part)?;
        for part in parts {
            match part {
                Part::Column(column, is_key) => {
                    if is_key {
                        table.key.extend(column.name.clone());
                    }
                    table.columns.push(*column);
                }
                Part::Key(names) => table.key.extend(names),
            }
        }
    }
    let mut seen = HashSet::new();
    loop {
        let clauses = [
            "using",
            "partitioned by",
            "tblproperties",
            "options",
            "with",
            "comment",
            "location",
            "stored as",
            "as",
        ];
        let clause = c.take_one(&clauses);
        if let Some(words) = clause
            && !seen.insert(words)
        {
            return Err(twice(words));
        }
        match clause {
            Some("using" | "stored as") => {
                let format = c.ident()?;
                if !format.eq_ignore_ascii_case("iceberg") {
                    return Err(error(format!(
                        "a table of an Iceberg catalog is USING iceberg, not {format}"
                    )));
                }
            }
            Some("partitioned by") => table.partitioned_by = c.in_parentheses(term)?,
            Some("comment") => {
                let comment = c.text()?;
                table.properties.insert("comment".to_owned(), comment);
            }
            Some("location") => table.location = Some(c.text()?),
            Some("as") => {
                table.query = Some(tokens.get(c.index()..).unwrap_or_default().to_vec());
                return Ok(Some(table));
            }
            Some(_) => {
                for (name, value) in c.properties()? {
                    if table.properties.insert(name.clone(), value).is_some() {
                        return Err(twice(&name));
                    }
                }
            }
            None => break,
        }
    }
    c.end()?;
    if table.columns.is_empty() {
        return Err(error(
            "a table without columns; name them, or the query that has them: AS SELECT".to_owned(),
        ));
    }
    Ok(Some(table))
}

fn twice(what: &str) -> DataFusionError {
    error(format!("`{what}` is there twice"))
}

enum Part {
    Column(Box<Column>, bool),
    Key(Vec<String>),
}

fn part(c: &mut Cursor<'_>) -> Result<Part> {
    if c.take("primary key") {
        let names = c.in_parentheses(Cursor::ident)?;
        c.take("not enforced");
        return Ok(Part::Key(names));
    }
    let name = vec![c.ident()?];
    let (column, is_key) = described(c, name)?;
    Ok(Part::Column(Box::new(column), is_key))
}

/// The type of a column and what follows it.
pub(super) fn described(c: &mut Cursor<'_>, name: Vec<String>) -> Result<(Column, bool)> {
    let column_type = parse_type(c)?;
    let mut column = Column { name, column_type, required: false, doc: None, default: None };
    let (mut is_key, mut seen) = (false, HashSet::new());
    while let Some(words) = c.take_one(&["not null", "null", "default", "comment", "primary key"]) {
        // NULL and NOT NULL contradict each other.
        if !seen.insert(words.trim_start_matches("not ")) {
            return Err(twice(words));
        }
        match words {
            "not null" => column.required = true,
            "null" => column.required = false,
            "default" => column.default = Some(c.default_value()?),
            "comment" => column.doc = Some(c.text()?),
            _ => is_key = true,
        }
    }
    if is_key {
        column.required = true;
    }
    Ok((column, is_key))
}

/// `column`, `days(column)`, `bucket(16, column)`, …
pub(super) fn term(c: &mut Cursor<'_>) -> Result<PartitionTerm> {
    let name = c.name()?;
    if !c.token(&Token::LParen) {
        return Ok(PartitionTerm { source: name.join("."), transform: Transform::Identity });
    }
    let [function] = name.as_slice() else { return Err(c.unexpected("the end of the column's name")) };
    let lower = function.to_ascii_lowercase();
    let with_number = matches!(lower.as_str(), "bucket" | "truncate");
    let mut number: Option<u32> = None;
    if with_number && let Ok(n) = c.number() {
        number = Some(n);
        c.expect_token(&Token::Comma)?;
    }
    let source = c.name()?.join(".");
    if with_number && number.is_none() {
        c.expect_token(&Token::Comma)?;
        number = Some(c.number()?);
    }
    c.expect_token(&Token::RParen)?;
    let transform = match (lower.as_str(), number) {
        ("bucket" | "truncate", Some(number)) => Transform::parse(&format!("{lower}[{number}]")),
        ("identity", _) => Transform::Identity,
        ("year" | "years", _) => Transform::Year,
        ("month" | "months", _) => Transform::Month,
        ("day" | "days" | "date", _) => Transform::Day,
        ("hour" | "hours" | "date_hour", _) => Transform::Hour,
        _ => Transform::Unknown(lower.clone()),
    };
    match transform {
        Transform::Unknown(name) => Err(error(format!(
            "there is no partition transform {name}; there are years, months, days, hours, bucket(n, column) \
             and truncate(n, column)"
        ))),
        transform => Ok(PartitionTerm { source, transform }),
    }
}
