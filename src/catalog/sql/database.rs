//! Statements sent to a database, and what their errors mean.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use sqlx::any::{AnyArguments, AnyConnectOptions, AnyPoolOptions, AnyRow};
use sqlx::query::Query;
use sqlx::{Any, AnyPool, AssertSqlSafe, ConnectOptions, Executor, Row};

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

impl Statement {
    fn bound(self, dialect: Dialect) -> Query<'static, Any, AnyArguments> {
        let mut bound = sqlx::query(AssertSqlSafe(self.text(dialect)));
        for parameter in self.parameters {
            bound = bound.bind(parameter);
        }
        bound
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
            let mut pool =
                AnyPoolOptions::new().acquire_timeout(ACQUIRE_TIMEOUT).max_connections(MAX_CONNECTIONS);
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
        let (pool, dialect) = (self.pool.clone(), self.uri.dialect);
        let work = async move {
            let rows = query.bound(dialect).fetch_all(&pool).await?;
            rows.iter().map(columns).collect::<Result<Vec<_>, sqlx::Error>>()
        };
        limited(work).await.map_err(|failed| self.error(ErrorKind::Io, "query", &failed))
    }

    /// Whether a query that reads no rows is understood: whether its tables and columns exist.
    pub(super) async fn understands(&self, query: &'static str) -> Result<bool> {
        let pool = self.pool.clone();
        let work = async move { sqlx::query(query).fetch_all(&pool).await.map(drop) };
        match limited(work).await {
            Ok(()) => Ok(true),
            Err(Failed::Database(e)) if e.as_database_error().is_some() => Ok(false),
            Err(failed) => Err(self.error(ErrorKind::Io, "query", &failed)),
        }
    }

    /// Runs one statement, which commits itself; gives the number of rows that it changed or found.
    ///
    /// # Errors
    /// As [`Database::change_all`].
    pub(super) async fn change(&self, statement: Statement) -> Result<u64> {
        let (pool, dialect) = (self.pool.clone(), self.uri.dialect);
        let work = async move {
            // Nothing is sent without a connection.
            let mut connection = pool.acquire().await.map_err(Step::before)?;
            let done = statement.bound(dialect).execute(&mut *connection).await;
            done.map(|done| done.rows_affected()).map_err(|e| Step::at_commit(dialect, e))
        };
        self.changed(background::run(tokio::time::timeout(STATEMENT_TIMEOUT, work)).await)
    }

    /// Runs statements in one transaction. Each must change or find exactly one row if it is marked
    /// so; if one does not, nothing happens, and its position is given.
    ///
    /// # Errors
    /// `AlreadyExists` for a key that is there already, `CommitConflict` for contention that
    /// another attempt may not meet, `CommitStateUnknown` if it may have happened, else `Io`.
    pub(super) async fn change_all(&self, statements: Vec<(Statement, bool)>) -> Result<Option<usize>> {
        let (pool, dialect) = (self.pool.clone(), self.uri.dialect);
        let work = async move {
            let mut transaction = pool.begin().await.map_err(Step::before)?;
            for (i, (statement, one_row)) in statements.into_iter().enumerate() {
                let done = statement.bound(dialect).execute(&mut *transaction).await;
                // Without the commit that follows, it has not happened.
                let done = done.map_err(|e| Step::certain(dialect, e))?;
                if one_row && done.rows_affected() != 1 {
                    transaction.rollback().await.map_err(Step::before)?;
                    return Ok(Some(i));
                }
            }
            transaction.commit().await.map_err(|e| Step::at_commit(dialect, e))?;
            Ok(None)
        };
        self.changed(background::run(tokio::time::timeout(STATEMENT_TIMEOUT, work)).await)
    }

    fn changed<T>(&self, done: Result<Result<Result<T, Step>, tokio::time::error::Elapsed>>) -> Result<T> {
        match done {
            Ok(Ok(Ok(changed))) => Ok(changed),
            Ok(Ok(Err(step))) => Err(self.error(step.kind, "change", &Failed::Database(step.error))),
            Ok(Err(elapsed)) => {
                Err(self.error(ErrorKind::CommitStateUnknown, "change", &Failed::TooSlow(elapsed)))
            }
            Err(e) => Err(e),
        }
    }

    fn error(&self, kind: ErrorKind, what: &str, failed: &Failed) -> Error {
        let cause = match failed {
            Failed::Database(e) => e.to_string(),
            Failed::TooSlow(_) => format!("no answer within {} s", STATEMENT_TIMEOUT.as_secs()),
            Failed::CutOff(e) => e.to_string(),
        };
        let message = match kind {
            ErrorKind::AlreadyExists => format!("`{}` has a row of that name already", self.uri),
            ErrorKind::CommitConflict => format!("somebody else was in the way in `{}`", self.uri),
            _ => format!("cannot {what} `{}`", self.uri),
        };
        Error::new(kind, message).with_source(self.uri.scrub(&cause))
    }
}

/// Why a query has no answer.
enum Failed {
    Database(sqlx::Error),
    TooSlow(tokio::time::error::Elapsed),
    CutOff(Error),
}

async fn limited<T: Send + 'static>(
    work: impl Future<Output = Result<T, sqlx::Error>> + Send + 'static,
) -> Result<T, Failed> {
    let done = background::run(tokio::time::timeout(STATEMENT_TIMEOUT, work)).await;
    done.map_err(Failed::CutOff)?.map_err(Failed::TooSlow)?.map_err(Failed::Database)
}

/// A change that failed, and what that means for it.
struct Step {
    kind: ErrorKind,
    error: sqlx::Error,
}

impl Step {
    /// It failed before anything could be changed.
    fn before(error: sqlx::Error) -> Self {
        Self { kind: ErrorKind::Io, error }
    }

    /// It failed in a transaction that was not committed.
    fn certain(dialect: Dialect, error: sqlx::Error) -> Self {
        let kind = match meaning(dialect, &error) {
            ErrorKind::CommitStateUnknown => ErrorKind::Io,
            kind => kind,
        };
        Self { kind, error }
    }

    /// It failed where it may have been committed already.
    fn at_commit(dialect: Dialect, error: sqlx::Error) -> Self {
        Self { kind: meaning(dialect, &error), error }
    }
}

/// What an error says about a statement that commits itself. Only a server that says clearly that
/// the statement did not work is believed.
fn meaning(dialect: Dialect, error: &sqlx::Error) -> ErrorKind {
    let Some(error) = error.as_database_error() else { return ErrorKind::CommitStateUnknown };
    if error.is_unique_violation() {
        return ErrorKind::AlreadyExists;
    }
    let code = error.code().unwrap_or_default();
    match dialect {
        Dialect::Sqlite => sqlite_meaning(code.parse().unwrap_or_default()),
        Dialect::Postgres => postgres_meaning(&code),
        Dialect::MySql => {
            let number = error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>().map(|e| e.number());
            mysql_meaning(number.unwrap_or_default())
        }
    }
}

/// By result code; the low byte is the class.
fn sqlite_meaning(code: i32) -> ErrorKind {
    match code & 0xff {
        // BUSY, LOCKED
        5 | 6 => ErrorKind::CommitConflict,
        // ERROR, PERM, READONLY, FULL, CANTOPEN, TOOBIG, CONSTRAINT, MISMATCH, NOTADB
        1 | 3 | 8 | 13 | 14 | 18 | 19 | 20 | 26 => ErrorKind::Io,
        _ => ErrorKind::CommitStateUnknown,
    }
}

/// By SQLSTATE.
fn postgres_meaning(state: &str) -> ErrorKind {
    match state {
        // Serialization failure, deadlock, lock not available.
        "40001" | "40P01" | "55P03" => ErrorKind::CommitConflict,
        // The statement was cancelled.
        "57014" => ErrorKind::Io,
        // Statement completion unknown.
        "40003" => ErrorKind::CommitStateUnknown,
        _ => match state.get(..2) {
            // Connection, operator intervention, system, configuration and internal errors.
            None | Some("08" | "57" | "58" | "F0" | "XX") => ErrorKind::CommitStateUnknown,
            Some(_) => ErrorKind::Io,
        },
    }
}

/// By error number.
fn mysql_meaning(number: u16) -> ErrorKind {
    match number {
        // Lock wait timeout, deadlock, record changed since the last read.
        1205 | 1213 | 1020 => ErrorKind::CommitConflict,
        // Shutdown, aborted connections, errors during COMMIT.
        0 | 1053 | 1077..=1080 | 1152..=1161 | 1180 | 1184 | 1927 | 2000.. => ErrorKind::CommitStateUnknown,
        _ => ErrorKind::Io,
    }
}

fn columns(row: &AnyRow) -> Result<Vec<Option<String>>, sqlx::Error> {
    (0..row.len()).map(|i| row.try_get::<Option<String>, usize>(i)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_numbered_for_postgres() {
        let statement = Statement::new("a = ? AND (b = ? OR c LIKE ?)", &["1", "2", "3"]);
        assert_eq!(statement.text(Dialect::Sqlite), "a = ? AND (b = ? OR c LIKE ?)");
        assert_eq!(statement.text(Dialect::Postgres), "a = $1 AND (b = $2 OR c LIKE $3)");
    }

    #[test]
    fn only_clear_answers_are_certain() {
        use ErrorKind::{CommitConflict, CommitStateUnknown, Io};
        for (code, kind) in [(5, CommitConflict), (517, CommitConflict), (13, Io), (10, CommitStateUnknown)] {
            assert_eq!(sqlite_meaning(code), kind, "{code}");
        }
        for (state, kind) in [
            ("40001", CommitConflict),
            ("22001", Io),
            ("57014", Io),
            ("57P01", CommitStateUnknown),
            ("08006", CommitStateUnknown),
            ("", CommitStateUnknown),
        ] {
            assert_eq!(postgres_meaning(state), kind, "{state}");
        }
        for (number, kind) in
            [(1213, CommitConflict), (1406, Io), (1053, CommitStateUnknown), (2013, CommitStateUnknown)]
        {
            assert_eq!(mysql_meaning(number), kind, "{number}");
        }
    }
}
