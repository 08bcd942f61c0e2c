//! Statements that DataFusion's parser does not know, or knows too little of: tables, their changes,
//! namespaces and procedures, in Spark SQL's words.

mod alter;
mod cursor;
mod table;
mod types;

use std::collections::BTreeMap;

use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::sql::sqlparser::ast::Expr as SqlExpr;
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

pub(super) use alter::{Alteration, At, Dropped, Reference};
pub(super) use table::{Column, CreateTable, PartitionTerm};

use crate::error::Error;
use cursor::Cursor;

/// A statement about an Iceberg catalog. Names are dotted, in parts.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Statement {
    CreateNamespace {
        name: Vec<String>,
        if_not_exists: bool,
        properties: BTreeMap<String, String>,
    },
    DropNamespace {
        name: Vec<String>,
        if_exists: bool,
        cascade: bool,
    },
    CreateTable(CreateTable),
    DropTable {
        name: Vec<String>,
        if_exists: bool,
        purge: bool,
    },
    DropView {
        name: Vec<String>,
        if_exists: bool,
    },
    AlterTable {
        name: Vec<String>,
        if_exists: bool,
        alterations: Vec<Alteration>,
    },
    AlterNamespace {
        name: Vec<String>,
        set: BTreeMap<String, String>,
        unset: Vec<String>,
    },
    /// The branch that audited tables are read and changed at.
    WapBranch(Option<String>),
    Call {
        procedure: Vec<String>,
        arguments: Vec<(Option<String>, SqlExpr)>,
    },
}

/// What a statement may be about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Subject {
    Table,
    Namespace,
    Procedure,
}

/// A statement of ours; `None` for one of DataFusion's. `is_ours` says whether a name is of an Iceberg
/// catalog: what is about others is not looked at any further.
///
/// # Errors
/// What can't be understood of a statement of ours.
pub(super) fn parse(
    tokens: &[TokenWithSpan],
    dialect: &dyn Dialect,
    options: &ConfigOptions,
    is_ours: &dyn Fn(Subject, &[String]) -> bool,
) -> Result<Option<Statement>> {
    let mut cursor = Cursor::new(tokens.to_vec(), dialect, options);
    let c = &mut cursor;
    let explained = c.take("explain");
    if explained {
        while c.take_one(&["analyze", "verbose"]).is_some() {}
        if c.take("format") && c.ident().is_err() && c.text().is_err() {
            return Ok(None);
        }
    }
    let parsed = statement(c, tokens, is_ours)?;
    if explained && parsed.is_some() {
        let message = "EXPLAIN of a statement that has no plan; that of CREATE TABLE … AS is its query's";
        return Err(Error::unsupported(message).into());
    }
    Ok(parsed)
}

fn statement(
    c: &mut Cursor<'_>,
    tokens: &[TokenWithSpan],
    is_ours: &dyn Fn(Subject, &[String]) -> bool,
) -> Result<Option<Statement>> {
    let namespace = ["schema", "database", "namespace"];
    if let Some(statement) = table::create(c, tokens, is_ours)? {
        return Ok(Some(Statement::CreateTable(statement)));
    }
    let parsed = if c.take("create") {
        if c.take_one(&namespace).is_none() {
            return Ok(None);
        }
        let if_not_exists = c.take("if not exists");
        let Some(name) = name_of(c, Subject::Namespace, is_ours) else { return Ok(None) };
        let mut properties = BTreeMap::new();
        loop {
            match c.take_one(&["comment", "location", "with dbproperties", "with properties"]) {
                Some(word @ ("comment" | "location")) => {
                    properties.insert(word.to_owned(), c.text()?);
                }
                Some(_) => properties.extend(c.properties()?),
                None => break,
            }
        }
        Statement::CreateNamespace { name, if_not_exists, properties }
    } else if c.take("drop") {
        if c.take_one(&namespace).is_some() {
            let if_exists = c.take("if exists");
            let Some(name) = name_of(c, Subject::Namespace, is_ours) else { return Ok(None) };
            let cascade = c.take("cascade");
            c.take("restrict");
            Statement::DropNamespace { name, if_exists, cascade }
        } else if c.take("table") {
            let if_exists = c.take("if exists");
            let Some(name) = name_of(c, Subject::Table, is_ours) else { return Ok(None) };
            Statement::DropTable { name, if_exists, purge: c.take("purge") }
        } else if c.take("view") {
            let if_exists = c.take("if exists");
            let Some(name) = name_of(c, Subject::Table, is_ours) else { return Ok(None) };
            Statement::DropView { name, if_exists }
        } else {
            return Ok(None);
        }
    } else if c.take("alter table") {
        let if_exists = c.take("if exists");
        let Some(name) = name_of(c, Subject::Table, is_ours) else { return Ok(None) };
        Statement::AlterTable { name, if_exists, alterations: alter::alterations(c)? }
    } else if c.take("alter") {
        if c.take_one(&namespace).is_none() {
            return Ok(None);
        }
        let Some(name) = name_of(c, Subject::Namespace, is_ours) else { return Ok(None) };
        let (mut set, mut unset) = (BTreeMap::new(), Vec::new());
        match c.take_one(&["set dbproperties", "set properties", "unset dbproperties", "unset properties"]) {
            Some("set dbproperties" | "set properties") => set = c.properties()?,
            Some(_) => unset = c.in_parentheses(Cursor::property_name)?,
            None => return Err(c.unexpected("SET PROPERTIES or UNSET PROPERTIES")),
        }
        Statement::AlterNamespace { name, set, unset }
    } else if c.is("set spark") || c.is("reset spark") {
        let sets = c.take("set");
        c.take("reset");
        let name = c.property_name()?;
        if name != "spark.wap.branch" {
            let message = format!("the setting `{name}`; of Spark's there is `spark.wap.branch`");
            return Err(Error::unsupported(message).into());
        }
        Statement::WapBranch(match sets {
            true => {
                c.expect_token(&Token::Eq)?;
                Some(c.branch_name()?)
            }
            false => None,
        })
    } else if c.take("call") {
        let Some(procedure) = name_of(c, Subject::Procedure, is_ours) else { return Ok(None) };
        c.expect_token(&Token::LParen)?;
        let arguments = match c.is_token(&Token::RParen) {
            true => Vec::new(),
            false => c.list(argument)?,
        };
        c.expect_token(&Token::RParen)?;
        Statement::Call { procedure, arguments }
    } else {
        return Ok(None);
    };
    c.end()?;
    Ok(Some(parsed))
}

/// The parts of a table's name in a text.
pub(super) fn table_name(
    tokens: Vec<TokenWithSpan>,
    dialect: &dyn Dialect,
    options: &ConfigOptions,
) -> Result<Vec<String>> {
    let mut cursor = Cursor::new(tokens, dialect, options);
    let name = cursor.name()?;
    cursor.end()?;
    Ok(name)
}

/// A name, if it is one of ours.
fn name_of(
    cursor: &mut Cursor<'_>,
    subject: Subject,
    is_ours: &dyn Fn(Subject, &[String]) -> bool,
) -> Option<Vec<String>> {
    cursor.name().ok().filter(|name| is_ours(subject, name))
}

/// `value`, or `name => value`.
fn argument(cursor: &mut Cursor<'_>) -> Result<(Option<String>, SqlExpr)> {
    let name = cursor.named_argument()?;
    Ok((name, cursor.expr()?))
}
