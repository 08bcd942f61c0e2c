//! The line editor's help: completion, and when a statement is whole.

use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::dialect::dialect_from_str;
use icefloe::sql::split;
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper, Result};

use crate::commands::COMMANDS;

const KEYWORDS: &[&str] = &[
    "ALL",
    "ALTER",
    "ANALYZE",
    "AND",
    "ANTI",
    "ANY",
    "AS",
    "AS OF",
    "ASC",
    "BETWEEN",
    "BY",
    "CASE",
    "CAST",
    "COPY",
    "CREATE",
    "CROSS",
    "CURRENT_DATE",
    "CURRENT_TIMESTAMP",
    "DATE",
    "DELETE",
    "DESC",
    "DESCRIBE",
    "DISTINCT",
    "DROP",
    "ELSE",
    "END",
    "EXCEPT",
    "EXISTS",
    "EXPLAIN",
    "EXTERNAL",
    "EXTRACT",
    "FALSE",
    "FILTER",
    "FOR",
    "FROM",
    "FULL",
    "GROUP",
    "HAVING",
    "ICEBERG",
    "IF",
    "ILIKE",
    "IN",
    "INNER",
    "INSERT",
    "INTERSECT",
    "INTERVAL",
    "INTO",
    "IS",
    "JOIN",
    "LATERAL",
    "LEFT",
    "LIKE",
    "LIMIT",
    "LOCATION",
    "MERGE",
    "NOT",
    "NULL",
    "NULLS",
    "OFFSET",
    "ON",
    "OPTIONS",
    "OR",
    "ORDER",
    "OUTER",
    "OVER",
    "PARQUET",
    "PARTITION",
    "RIGHT",
    "SELECT",
    "SEMI",
    "SET",
    "SHOW",
    "STORED",
    "SYSTEM_TIME",
    "SYSTEM_VERSION",
    "TABLE",
    "TABLES",
    "THEN",
    "TIMESTAMP",
    "TO",
    "TRUE",
    "UNION",
    "UNNEST",
    "UPDATE",
    "USING",
    "VALUES",
    "VERSION",
    "VIEW",
    "WHEN",
    "WHERE",
    "WINDOW",
    "WITH",
];

/// Completes keywords, functions, the names of catalogs, schemas and tables, and file names.
pub struct ShellHelper {
    context: SessionContext,
    files: FilenameCompleter,
}

impl ShellHelper {
    /// Help for `context`.
    pub fn new(context: SessionContext) -> Self {
        Self { context, files: FilenameCompleter::new() }
    }

    fn is_whole(&self, input: &str) -> bool {
        let input = input.trim();
        if input.is_empty() || input.starts_with('\\') {
            return true;
        }
        let dialect = self.context.state_ref().read().config_options().sql_parser.dialect;
        dialect_from_str(dialect).is_none_or(|dialect| split(input, dialect.as_ref()).rest_is_blank)
    }

    /// Names of tables as they can be written: `table`, `schema.table`, `catalog.schema.table`.
    fn tables(&self) -> Vec<String> {
        let options = self.context.state_ref().read().config_options().catalog.clone();
        let mut names = Vec::new();
        for catalog_name in self.context.catalog_names() {
            let Some(catalog) = self.context.catalog(&catalog_name) else { continue };
            for schema_name in catalog.schema_names() {
                let Some(schema) = catalog.schema(&schema_name) else { continue };
                for table in schema.table_names() {
                    if catalog_name == options.default_catalog && schema_name == options.default_schema {
                        names.push(quoted(&table));
                    }
                    names.push(format!("{}.{}", quoted(&schema_name), quoted(&table)));
                    let catalog_name = quoted(&catalog_name);
                    names.push(format!("{catalog_name}.{}.{}", quoted(&schema_name), quoted(&table)));
                }
            }
        }
        names
    }

    fn functions(&self) -> Vec<String> {
        let state = self.context.state_ref();
        let state = state.read();
        let names = state.scalar_functions().keys().chain(state.aggregate_functions().keys());
        names.chain(state.window_functions().keys()).map(|name| format!("{name}(")).collect()
    }

    fn candidates(&self, word: &str, line: &str) -> Vec<String> {
        if line.starts_with('\\') && word == line {
            let mut commands: Vec<_> = COMMANDS.iter().filter_map(|(c, _)| c.split(' ').next()).collect();
            commands.dedup();
            return commands.into_iter().filter(|c| c.starts_with(word)).map(str::to_string).collect();
        }
        let mut found: Vec<String> =
            self.tables().into_iter().filter(|name| starts_with_ignoring_case(name, word)).collect();
        if !line.starts_with('\\') && !word.is_empty() {
            let lower = word.chars().any(char::is_lowercase);
            let keywords = KEYWORDS.iter().filter(|k| starts_with_ignoring_case(k, word));
            found.extend(keywords.map(|k| if lower { k.to_ascii_lowercase() } else { (*k).to_string() }));
            found.extend(self.functions().into_iter().filter(|f| f.starts_with(&word.to_ascii_lowercase())));
        }
        found.sort();
        found.dedup();
        found
    }
}

/// The name as SQL needs it: in quotes if it would be read in another way.
fn quoted(name: &str) -> String {
    let plain = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '$');
    match plain && !name.starts_with(|c: char| c.is_ascii_digit()) && !name.is_empty() {
        true => name.to_string(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

fn starts_with_ignoring_case(text: &str, start: &str) -> bool {
    text.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start))
}

/// Where the word that ends at the end of `line` starts.
fn word_start(line: &str) -> usize {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '$' | '"' | '\\' | '?');
    line.char_indices().rev().find(|(_, c)| !is_part(*c)).map_or(0, |(at, c)| at + c.len_utf8())
}

impl Completer for ShellHelper {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, context: &Context<'_>) -> Result<(usize, Vec<Pair>)> {
        let before = line.get(..pos).unwrap_or(line);
        let in_text = before.matches('\'').count() % 2 == 1;
        if in_text || before.starts_with("\\i ") {
            return self.files.complete(line, pos, context);
        }
        let start = word_start(before);
        let word = before.get(start..).unwrap_or_default();
        let pairs = self.candidates(word, before).into_iter();
        Ok((start, pairs.map(|c| Pair { display: c.clone(), replacement: c }).collect()))
    }
}

impl Validator for ShellHelper {
    fn validate(&self, context: &mut ValidationContext<'_>) -> Result<ValidationResult> {
        Ok(match self.is_whole(context.input()) {
            true => ValidationResult::Valid(None),
            false => ValidationResult::Incomplete,
        })
    }
}

impl Hinter for ShellHelper {
    type Hint = String;
}

impl Highlighter for ShellHelper {}

impl Helper for ShellHelper {}

#[cfg(test)]
mod tests {
    use super::*;
    use rustyline::history::DefaultHistory;

    async fn helper() -> ShellHelper {
        let context = SessionContext::new();
        for sql in ["CREATE TABLE orders AS SELECT 1 AS x", "CREATE TABLE \"Odd name\" AS SELECT 1 AS x"] {
            context.sql(sql).await.unwrap();
        }
        ShellHelper::new(context)
    }

    fn complete(helper: &ShellHelper, line: &str) -> (usize, Vec<String>) {
        let history = DefaultHistory::new();
        let (start, pairs) = helper.complete(line, line.len(), &Context::new(&history)).unwrap();
        (start, pairs.into_iter().map(|p| p.replacement).collect())
    }

    #[tokio::test]
    async fn words_are_completed() {
        let helper = helper().await;
        assert_eq!(complete(&helper, "SEL"), (0, vec!["SELECT".into()]));
        assert_eq!(complete(&helper, "sel"), (0, vec!["select".into()]));
        assert_eq!(complete(&helper, "SELECT * FROM orders"), (14, vec!["orders".into()]));
        assert_eq!(complete(&helper, "SELECT * FROM public.o"), (14, vec!["public.orders".into()]));
        assert_eq!(complete(&helper, "SELECT * FROM \"O"), (14, vec!["\"Odd name\"".into()]));
        assert_eq!(complete(&helper, "SELECT regexp_c"), (7, vec!["regexp_count(".into()]));
        assert_eq!(complete(&helper, "\\pse"), (0, vec!["\\pset".into()]));
        assert_eq!(complete(&helper, "\\d orde"), (3, vec!["orders".into()]));
        assert_eq!(complete(&helper, "SELECT 'ä' FROM orders"), (17, vec!["orders".into()]));
    }

    #[tokio::test]
    async fn statements_end_with_a_semicolon() {
        let helper = helper().await;
        for whole in ["", "SELECT 1;", "SELECT 1; -- done", "\\d", "SELECT ';';"] {
            assert!(helper.is_whole(whole), "{whole}");
        }
        for part in ["SELECT 1", "SELECT ';", "SELECT 1; SELECT", "/* ;"] {
            assert!(!helper.is_whole(part), "{part}");
        }
    }

    #[test]
    fn words_start_after_anything_else() {
        for (line, want) in [("", 0), ("a", 0), ("a b", 2), ("a (b", 3), ("ä b", 3), ("a—b", 4), ("a.b", 0)]
        {
            assert_eq!(word_start(line), want, "{line}");
        }
    }
}
