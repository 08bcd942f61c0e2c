//! One statement: text → tokens → rewritten tokens → DataFusion's statement.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::common::plan_datafusion_err;
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::sql::parser::{CopyToSource, DFParserBuilder, Statement};
use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::{
    Delete, Expr, FromTable, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Merge, ObjectName,
    Query, Statement as SqlStatement, TableFactor, TableVersion, TableWithJoins, Update, VisitMut,
    VisitorMut,
};
use datafusion::sql::sqlparser::dialect::{Dialect, dialect_from_str};
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{TokenWithSpan, Tokenizer};

use super::distinct_from::bind_distinct_from;
use super::merge_stars::mark_stars;
use super::rewrite::{TIMESTAMP_MARK, VERSION_MARK, rewrite};
use crate::Error;

/// The dialect that a session's configuration names.
pub(super) fn session_dialect(options: &ConfigOptions) -> Result<Box<dyn Dialect>> {
    let name = options.sql_parser.dialect;
    dialect_from_str(name).ok_or_else(|| plan_datafusion_err!("Unsupported SQL dialect: {name}"))
}

/// A parsed statement.
pub(super) struct Parsed {
    pub(super) statement: Statement,
    /// Whether it names a version of a table.
    pub(super) versioned: bool,
}

/// The tokens of a text.
pub(super) fn tokens(sql: &str, dialect: &dyn Dialect) -> Result<Vec<TokenWithSpan>> {
    Tokenizer::new(dialect, sql)
        .tokenize_with_location()
        .map_err(|e| DataFusionError::SQL(Box::new(ParserError::from(e)), None))
}

/// Parses exactly one statement.
#[cfg(test)]
pub(super) fn parse(sql: &str, options: &ConfigOptions) -> Result<Parsed> {
    let dialect = session_dialect(options)?;
    parse_tokens(tokens(sql, dialect.as_ref())?, dialect.as_ref(), options)
}

/// Parses exactly one statement.
pub(super) fn parse_tokens(
    tokens: Vec<TokenWithSpan>,
    dialect: &dyn Dialect,
    options: &ConfigOptions,
) -> Result<Parsed> {
    let limit = options.sql_parser.recursion_limit.get();
    let tokens = bind_distinct_from(mark_stars(tokens), dialect, limit);
    let (tokens, rewritten) = rewrite(tokens, dialect, limit)?;
    let mut statements = DFParserBuilder::new(tokens)
        .with_dialect(dialect)
        .with_recursion_limit(limit)
        .build()?
        .parse_statements()?;
    let statement = statements.pop_front();
    if !statements.is_empty() {
        return Err(Error::unsupported("several statements in one call; run them as a script").into());
    }
    let mut statement = statement
        .ok_or_else(|| plan_datafusion_err!("No SQL statements were provided in the query string"))?;

    let normalizer = IdentNormalizer::new(options.sql_parser.enable_ident_normalization);
    let ctes = if rewritten { Ctes::of(&mut statement, &normalizer) } else { HashSet::new() };
    let mut versions = Versions { options, normalizer: &normalizer, ctes, found: false };
    match visit(&mut statement, &mut versions) {
        ControlFlow::Continue(()) => Ok(Parsed { statement, versioned: versions.found }),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Lets a visitor see everything that sqlparser parsed in a statement.
pub(super) fn visit<V: VisitorMut>(statement: &mut Statement, visitor: &mut V) -> ControlFlow<V::Break> {
    match statement {
        Statement::Statement(statement) => statement.visit(visitor),
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => query.visit(visitor),
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        Statement::Explain(explain) => visit(&mut explain.statement, visitor),
        Statement::CreateExternalTable(_) | Statement::Reset(_) => ControlFlow::Continue(()),
    }
}

/// Collects the names of all common table expressions.
pub(super) struct Ctes<'a> {
    normalizer: &'a IdentNormalizer,
    names: HashSet<String>,
}

impl<'a> Ctes<'a> {
    pub(super) fn of(statement: &mut Statement, normalizer: &'a IdentNormalizer) -> HashSet<String> {
        let mut ctes = Self { normalizer, names: HashSet::new() };
        // It never breaks off.
        let _ = visit(statement, &mut ctes);
        ctes.names
    }
}

impl VisitorMut for Ctes<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        for cte in query.with.iter().flat_map(|w| &w.cte_tables) {
            self.names.insert(self.normalizer.normalize(cte.alias.name.clone()));
        }
        ControlFlow::Continue(())
    }
}

/// Turns the marks of the rewrite into versions.
struct Versions<'a> {
    options: &'a ConfigOptions,
    normalizer: &'a IdentNormalizer,
    ctes: HashSet<String>,
    found: bool,
}

impl VisitorMut for Versions<'_> {
    type Break = DataFusionError;

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<DataFusionError> {
        let TableFactor::Table { name, with_hints, version, .. } = factor else {
            return ControlFlow::Continue(());
        };
        if let Some(marked) = take_mark(with_hints) {
            *version = Some(marked);
        }
        if version.is_some() {
            self.found = true;
            self.qualify(name);
        }
        ControlFlow::Continue(())
    }

    /// Runs after the tables inside were visited: the targets of DML take no version, and
    /// DataFusion would ignore it.
    fn post_visit_statement(&mut self, statement: &mut SqlStatement) -> ControlFlow<DataFusionError> {
        let first = |tables: &'_ [TableWithJoins]| tables.iter().any(|t| has_version(&t.relation));
        let (what, versioned) = match statement {
            SqlStatement::Update(Update { table, .. }) => ("UPDATE", has_version(&table.relation)),
            SqlStatement::Delete(Delete { from, .. }) => match from {
                FromTable::WithFromKeyword(t) | FromTable::WithoutKeyword(t) => ("DELETE", first(t)),
            },
            SqlStatement::Merge(Merge { table, .. }) => ("MERGE", has_version(table)),
            _ => return ControlFlow::Continue(()),
        };
        if versioned {
            let error = Error::unsupported(format!(
                "{what} of a version of a table; only the current state can change"
            ));
            return ControlFlow::Break(error.into());
        }
        ControlFlow::Continue(())
    }
}

impl Versions<'_> {
    /// A versioned name means a table, even if a common table expression hides it: then
    /// its full name is written out.
    fn qualify(&self, name: &mut ObjectName) {
        let [part] = name.0.as_slice() else { return };
        let Some(ident) = part.as_ident() else { return };
        if self.ctes.contains(&self.normalizer.normalize(ident.clone())) {
            let catalog = &self.options.catalog;
            *name = ObjectName::from(vec![
                Ident::with_quote('"', &catalog.default_catalog),
                Ident::with_quote('"', &catalog.default_schema),
                ident.clone(),
            ]);
        }
    }
}

fn has_version(factor: &TableFactor) -> bool {
    matches!(factor, TableFactor::Table { version: Some(_), .. })
}

/// The version that the only hint stands for, if the rewrite made it.
fn take_mark(hints: &mut Vec<Expr>) -> Option<TableVersion> {
    let [Expr::Function(function)] = hints.as_slice() else { return None };
    let [name] = function.name.0.as_slice() else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(operand))] = list.args.as_slice() else { return None };
    let version = match name.as_ident()?.value.as_str() {
        VERSION_MARK => TableVersion::VersionAsOf(operand.clone()),
        TIMESTAMP_MARK => TableVersion::TimestampAsOf(operand.clone()),
        _ => return None,
    };
    hints.clear();
    Some(version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn options() -> ConfigOptions {
        ConfigOptions::new()
    }

    /// The statement as the parsed tree prints it: the alias comes before the version.
    fn shown(sql: &str) -> String {
        shown_in(sql, &options())
    }

    fn shown_in(sql: &str, options: &ConfigOptions) -> String {
        match parse(sql, options) {
            Ok(parsed) => {
                assert!(parsed.versioned, "no version found in {sql}");
                parsed.statement.to_string()
            }
            Err(e) => format!("error: {e}"),
        }
    }

    #[test]
    fn every_spelling_and_every_place_of_the_alias() {
        let version = "SELECT * FROM t VERSION AS OF 5";
        let timestamp = "SELECT * FROM t TIMESTAMP AS OF now()";
        for word in
            ["VERSION", "FOR VERSION", "FOR SYSTEM_VERSION", "SYSTEM_VERSION", "for version", "Version"]
        {
            assert_eq!(shown(&format!("SELECT * FROM t {word} AS OF 5")), version);
            for alias in ["x", "AS x", "AS \"x\""] {
                let want = format!("SELECT * FROM t {alias} VERSION AS OF 5");
                assert_eq!(shown(&format!("SELECT * FROM t {word} AS OF 5 {alias}")), want);
                assert_eq!(shown(&format!("SELECT * FROM t {alias} {word} AS OF 5")), want);
            }
        }
        for word in ["TIMESTAMP", "FOR TIMESTAMP", "FOR SYSTEM_TIME", "SYSTEM_TIME"] {
            assert_eq!(shown(&format!("SELECT * FROM t {word} AS OF now()")), timestamp);
            for alias in ["x", "AS x (a, b)"] {
                let want = format!("SELECT * FROM t {alias} TIMESTAMP AS OF now() - INTERVAL '1 day'");
                assert_eq!(
                    shown(&format!("SELECT * FROM t {word} AS OF now() - INTERVAL '1 day' {alias}")),
                    want
                );
            }
            let want = "SELECT * FROM t AS x TIMESTAMP AS OF now()";
            assert_eq!(shown(&format!("SELECT * FROM t AS x {word} AS OF now()")), want);
        }
    }

    #[test]
    fn every_place_of_a_table() {
        for sql in [
            "SELECT * FROM a.b.\"T x\" VERSION AS OF 'br-1' WHERE x = 1",
            "SELECT * FROM a VERSION AS OF 1, b AS c VERSION AS OF 2",
            "SELECT * FROM a AS x VERSION AS OF 1 JOIN b AS y TIMESTAMP AS OF '2020-01-01' ON x.i = y.i",
            "SELECT * FROM a LEFT JOIN (b VERSION AS OF 1 CROSS JOIN c VERSION AS OF 'x') ON a.i = b.i",
            "WITH a AS (SELECT * FROM b VERSION AS OF 1) SELECT * FROM a",
            "SELECT (SELECT max(i) FROM a VERSION AS OF 1) FROM b WHERE i IN (SELECT i FROM c VERSION AS OF 'x')",
            "EXPLAIN SELECT * FROM a VERSION AS OF 1",
            "EXPLAIN ANALYZE SELECT * FROM a VERSION AS OF 1",
            "INSERT INTO a SELECT * FROM a VERSION AS OF 1",
            "CREATE VIEW v AS SELECT * FROM a VERSION AS OF 1",
            "CREATE TABLE c AS SELECT * FROM a VERSION AS OF 1",
            "SELECT i FROM a VERSION AS OF 1 UNION ALL SELECT i FROM a VERSION AS OF 2",
            "SELECT i FROM a VERSION AS OF 1 EXCEPT SELECT i FROM a LIMIT 3",
        ] {
            assert_eq!(shown(sql), sql);
        }
        assert_eq!(
            shown(
                "SELECT * FROM t /* VERSION AS OF 1 */ VERSION -- x\n AS OF 5 WHERE s = 'FROM t VERSION AS OF 1'"
            ),
            "SELECT * FROM t VERSION AS OF 5 WHERE s = 'FROM t VERSION AS OF 1'"
        );
        assert_eq!(
            shown("SELECT * FROM version version VERSION AS OF 1"),
            "SELECT * FROM version version VERSION AS OF 1"
        );
    }

    #[test]
    fn every_dialect() {
        for dialect in [
            "generic",
            "mysql",
            "postgresql",
            "hive",
            "sqlite",
            "snowflake",
            "redshift",
            "mssql",
            "bigquery",
            "ansi",
            "duckdb",
            "databricks",
            "spark",
        ] {
            let mut options = options();
            options.set("datafusion.sql_parser.dialect", dialect).unwrap();
            for (sql, want) in [
                ("SELECT * FROM t VERSION AS OF 'b' AS x", "SELECT * FROM t AS x VERSION AS OF 'b'"),
                (
                    "SELECT * FROM t VERSION AS OF 1 x JOIN u TIMESTAMP AS OF '2020-01-01' ON x.i = u.i",
                    "SELECT * FROM t x VERSION AS OF 1 JOIN u TIMESTAMP AS OF '2020-01-01' ON x.i = u.i",
                ),
            ] {
                assert_eq!(shown_in(sql, &options), want, "{dialect}");
            }
        }
    }

    #[test]
    fn text_that_only_looks_like_a_version() {
        for sql in [
            "SELECT version AS of FROM t",
            "SELECT timestamp AS of FROM t",
            "SELECT DISTINCT timestamp AS of FROM t",
            "SELECT a, timestamp AS of FROM t",
            "SELECT t.version AS of, 5 FROM t",
            "SELECT * FROM version AS of",
            "SELECT * FROM timestamp AS of (a, b)",
            "SELECT * FROM a JOIN timestamp AS of ON a.x = of.x",
            "SELECT * FROM a, version AS of",
            "SELECT * FROM t before",
            "SELECT * FROM t AS at JOIN u AS changes ON true",
            "SELECT 'FROM t VERSION AS OF 5' AS \"FROM t VERSION AS OF 5\" FROM t",
            "SELECT version, timestamp FROM t AS version",
        ] {
            let parsed = parse(sql, &options()).unwrap();
            assert!(!parsed.versioned, "{sql}");
            assert_eq!(parsed.statement.to_string(), sql);
        }
    }

    #[test]
    fn a_common_table_expression_does_not_hide_a_versioned_table() {
        assert_eq!(
            shown("WITH t AS (SELECT 1) SELECT * FROM T VERSION AS OF 5 JOIN t ON true"),
            "WITH t AS (SELECT 1) SELECT * FROM \"datafusion\".\"public\".T VERSION AS OF 5 JOIN t ON true"
        );
    }

    #[test]
    fn errors() {
        for (sql, want) in [
            ("SELECT * FROM t VERSION AS OF", "takes the id of a snapshot"),
            ("SELECT * FROM t VERSION AS OF main", "takes the id of a snapshot"),
            ("SELECT * FROM t VERSION AS OF \"main\"", "takes the id of a snapshot"),
            ("SELECT * FROM t TIMESTAMP AS OF", "TIMESTAMP AS OF takes a constant"),
            ("SELECT * FROM (t TIMESTAMP AS OF )", "Expected"),
            ("SELECT * FROM t a VERSION AS OF 1 b", "Expected"),
            ("SELECT * FROM t VERSION AS OF 1 VERSION AS OF 2", "Expected"),
            ("SELECT 1; SELECT 2", "several statements"),
            ("", "No SQL statements"),
            ("DELETE FROM t VERSION AS OF 1 WHERE a = 1", "DELETE of a version"),
            ("UPDATE t VERSION AS OF 1 SET a = 1", "UPDATE of a version"),
            (
                "MERGE INTO t VERSION AS OF 1 USING s ON t.a = s.a WHEN MATCHED THEN DELETE",
                "MERGE of a version",
            ),
            ("SELECT 'abc", "Unterminated"),
        ] {
            let error = parse(sql, &options()).err().map(|e| e.to_string()).unwrap_or_default();
            assert!(error.contains(want), "{sql}: {error}");
        }
    }

    proptest! {
        #[test]
        fn text_without_versions_is_what_datafusion_parses(words in prop::collection::vec(
            prop::sample::select(vec![
                "SELECT", "FROM", "JOIN", "t", "version", "VERSION", "TIMESTAMP", "AS", "OF", "FOR", "of",
                "'VERSION AS OF 1'", "\"x\"", "1", ",", "(", ")", ".", "*", "-- VERSION AS OF 1\n", "/* AS OF */",
            ]), 0..14))
        {
            // Without one of the two words in front, there is no version.
            let sql = words.join(" ");
            let words: Vec<_> = words.iter().filter(|w| !w.starts_with('-') && !w.starts_with('/')).collect();
            prop_assume!(!words.windows(2).any(|w| *w[0] == "AS" && w[1].eq_ignore_ascii_case("OF")));
            let dialect = session_dialect(&options()).unwrap();
            let tokens = Tokenizer::new(dialect.as_ref(), &sql).tokenize_with_location().unwrap();
            let (after, rewritten) = rewrite(tokens.clone(), dialect.as_ref(), 50).unwrap();
            prop_assert!(!rewritten);
            prop_assert_eq!(tokens, after);
        }

        #[test]
        fn any_text_is_parsed_or_refused(words in prop::collection::vec(
            prop::sample::select(vec!["SELECT", "FROM", "t", "VERSION", "TIMESTAMP", "AS", "OF", "FOR", "'x'", "1", ",", "(", ")", "*", "-"]), 0..14))
        {
            let _ = parse(&words.join(" "), &options());
        }
    }
}
