//! Statements sent to a database, and what their errors mean.

use std::fmt;
use std::time::Duration;

use sqlx::any::{AnyConnectOptions, AnyPoolOptions, AnyRow};
use sqlx::{AnyPool, AssertSqlSafe, ConnectOptions, Executor, Row};

use super::uri::{DatabaseUri, Dialect};
use crate::catalog::background;
use crate::error::{Error, ErrorKind, Result};

/// Connections to one database.
const MAX_CONNECTIONS: u32 = 8;
/// How long to wait for a connection.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a statement may take. Each reads or writes a few rows.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(120);
/// SQLite has one writer at a time; the others wait for this long.
const SQLITE_BUSY_TIMEOUT: &str = "PRAGMA busy_timeout = 60000";

/// A statement with its parameters, each written as `?`.
#[derive(Debug, Clone)]
pub(super) struct Statement {
    pub(super) sql: String,
    pub(super) parameters: Vec<String>,
}

impl Statement {
    pub(super) fn new(sql: impl Into<String>, parameters: &[&str]) -> Self {
        Self { sql: sql.into(), parameters: parameters.iter().map(|p| (*p).to_owned()).collect() }
    }

    /// PostgreSQL numbers its parameters. There are no question marks in our texts but those.
    fn text(&self, dialect: Dialect) -> String {
        if dialect != Dialect::Postgres {
            return self.sql.clone();
        }
        let mut parts = self.sql.split('?');
        let mut text = parts.next().unwrap_or_default().to_owned();
        for (i, part) in parts.enumerate() {
            text.push_str(&format!("${}{part}", i + 1));
        }
        text
    }
}

/// A pool of connections. Cheap to clone.
#[derive(Clone)]
pub(super) struct Database {
    uri: DatabaseUri,
    pool: AnyPool,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The pool would show the password.
        f.debug_tuple("Database").field(&self.uri).finish()
    }
}

impl Database {
    /// Opens the database and connects once.
    pub(super) async fn connect(uri: DatabaseUri) -> Result<Self> {
        // Whatever was installed before is as good, if it knows the database.
        let _ = sqlx::any::install_drivers(&[
            sqlx::sqlite::any::DRIVER,
            sqlx::postgres::any::DRIVER,
            sqlx::mysql::any::DRIVER,
        ]);
        let failed = |uri: &DatabaseUri, e: sqlx::Error| {
            let hint = match uri.dialect {
                Dialect::Sqlite => " (an absolute path has four slashes: sqlite:////path/catalog.db)",
                _ => "",
            };
            Error::new(ErrorKind::Io, format!("cannot connect to `{uri}`{hint}"))
                .with_source(uri.scrub(&e.to_string()))
        };
        let shared = uri.clone();
        let connected = background::run(async move {
            let options = AnyConnectOptions::from_url(&shared.url)?.disable_statement_logging();
            let is_sqlite = shared.dialect == Dialect::Sqlite;
            let mut pool = AnyPoolOptions::new().acquire_timeout(ACQUIRE_TIMEOUT).max_connections(MAX_CONNECTIONS);
            if is_sqlite {
                pool = pool.after_connect(|connection, _| {
                    Box::pin(async move { connection.execute(SQLITE_BUSY_TIMEOUT).await.map(drop) })
                });
            }
            if shared.in_memory {
                pool = pool.max_connections(1).min_connections(1).idle_timeout(None).max_lifetime(None);
            }
            pool.connect_with(options).await
        });
        match connected.await? {
            Ok(pool) => Ok(Self { uri, pool }),
            Err(e) => Err(failed(&uri, e)),
        }
    }

    pub(super) fn dialect(&self) -> Dialect {
        self.uri.dialect
    }

    /// The rows of a query, each of its columns as text.
    pub(super) async fn rows(&self, query: Statement) -> Result<Vec<Vec<Option<String>>>> {
        let (pool, text) = (self.pool.clone(), query.text(self.uri.dialect));
        let work = async move {
            let mut bound = sqlx::query(AssertSqlSafe(text));
            for parameter in query.parameters {
                bound = bound.bind(parameter);
            }
            let rows = bound.fetch_all(&pool).await?;
            rows.iter().map(columns).collect::<Result<Vec<_>, sqlx::Error>>()
        };
        match background::run(tokio_timeout(work)).await {
            Ok(Ok(rows)) => Ok(rows),
            Ok(Err(failure)) => Err(self.error(ErrorKind::Io, "query", &failure)),
            // Nothing was to be changed.
            Err(e) => Err(Error::new(ErrorKind::Io, e.message().to_owned())),
        }
    }

    /// Whether a query that reads no rows is understood: whether its tables and columns exist.
    pub(super) async fn understands(&self, query: &'static str) -> Result<bool> {
        let pool = self.pool.clone();
        let work = async move { sqlx::query(query).fetch_all(&pool).await.map(drop) };
        match background::run(tokio_timeout(work)).await? {
            Ok(()) => Ok(true),
            Err(Failure::Database(sqlx::Error::Database(_))) => Ok(false),
            Err(failure) => Err(self.error(ErrorKind::Io, "query", &failure)),
        }
    }

    /// Runs statements, all or none: each must change as many rows as `expected` says, if it does.
    ///
    /// # Errors
    /// The kinds of [`Changed`], by [`Database::changed`].
    pub(super) async fn change(&self, statements: Vec<(Statement, Option<u64>)>) -> Result<Changed> {
        let (pool, dialect) = (self.pool.clone(), self.uri.dialect);
        let work = async move {
            // Nothing was sent if there is no connection.
            let mut connection = pool.acquire().await.map_err(Step::Before)?;
            let single = statements.len() == 1;
            let mut transaction = None;
            if !single {
                transaction = Some(sqlx::Connection::begin(&mut *connection).await.map_err(Step::Before)?);
            }
            for (i, (statement, expected)) in statements.into_iter().enumerate() {
                let mut bound = sqlx::query(AssertSqlSafe(statement.text(dialect)));
                for parameter in statement.parameters {
                    bound = bound.bind(parameter);
                }
                let done = match &mut transaction {
                    // It has not happened before the transaction is committed.
                    Some(transaction) => bound.execute(&mut **transaction).await.map_err(Step::Before)?,
                    None => match &mut transaction {
                        None => {
                            // A single statement commits itself.
                            let mut single = pool.acquire().await.map_err(Step::Before)?;
                            bound.execute(&mut *single).await.map_err(Step::Commit)?
                        }
                        Some(_) => continue,
                    },
                };
                if expected.is_some_and(|expected| expected != done.rows_affected()) {
                    if let Some(transaction) = transaction {
                        transaction.rollback().await.map_err(Step::Before)?;
                    }
                    return Ok(Changed::Unexpected(i));
                }
            }
            if let Some(transaction) = transaction {
                transaction.commit().await.map_err(Step::Commit)?;
            }
            Ok(Changed::All)
        };
        let _ = work;
        unreachable!()
    }
}

fn columns(row: &AnyRow) -> Result<Vec<Option<String>>, sqlx::Error> {
    (0..row.len()).map(|i| row.try_get::<Option<String>, usize>(i)).collect()
}
