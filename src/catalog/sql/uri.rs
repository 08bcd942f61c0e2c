//! Which database a catalog is in, by the URIs of Java, SQLAlchemy and sqlx.

use std::collections::BTreeMap;
use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use url::Url;

use crate::error::{Error, ErrorKind, Result};

/// A kind of database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    Sqlite,
    Postgres,
    MySql,
}

/// Where a database is and how to sign in. `Debug` and `Display` show no secret.
#[derive(Clone)]
pub(super) struct DatabaseUri {
    pub(super) dialect: Dialect,
    /// As sqlx takes it; holds the password.
    pub(super) url: Url,
    /// A SQLite database that lies in memory: it lives as long as its only connection.
    pub(super) in_memory: bool,
    shown: String,
    password: Option<String>,
}

/// What stays as it is in the path of a SQLite URL.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Parameters that sqlx understands, by the names that it, libpq and JDBC have for them. It logs
/// those that it does not know, with their values.
const PARAMETERS: &[&str] = &[
    "sslmode",
    "ssl-mode",
    "sslrootcert",
    "ssl-root-cert",
    "sslca",
    "ssl-ca",
    "sslcert",
    "ssl-cert",
    "sslkey",
    "ssl-key",
    "host",
    "port",
    "dbname",
    "application_name",
    "options",
    "socket",
    "charset",
    "collation",
];

impl DatabaseUri {
    /// Reads the properties `uri`, `jdbc.user`, `jdbc.password` and other `jdbc.…`.
    ///
    /// # Errors
    /// `DataInvalid` or `Unsupported` with what is wrong; the message never holds a password.
    pub(super) fn new(properties: &BTreeMap<String, String>) -> Result<Self> {
        let uri = properties.get("uri").map(|uri| uri.trim()).unwrap_or_default();
        let parsed = Self::parse(uri, properties);
        parsed.map_err(|e| e.context("property `uri`"))
    }

    fn parse(uri: &str, properties: &BTreeMap<String, String>) -> Result<Self> {
        let (jdbc, rest) = match uri.strip_prefix("jdbc:") {
            Some(rest) => (true, rest),
            None => (false, uri),
        };
        let Some((scheme, rest)) = rest.split_once(':') else {
            return Err(Error::invalid(
                "expected the URI of a database: sqlite:///catalog.db, postgresql://host/database or \
                 mysql://host/database",
            ));
        };
        // SQLAlchemy names its driver: `postgresql+psycopg2`.
        let database = scheme.split('+').next().unwrap_or_default().to_ascii_lowercase();
        match database.as_str() {
            "sqlite" => Self::sqlite(rest, jdbc),
            "postgresql" | "postgres" => Self::server(Dialect::Postgres, "postgres", rest, properties),
            "mysql" | "mariadb" => Self::server(Dialect::MySql, "mysql", rest, properties),
            other => Err(Error::unsupported(format!(
                "there is no SQL catalog in databases of the kind `{other}`; there are sqlite, postgresql and mysql"
            ))),
        }
    }

    /// `sqlite:///relative`, `sqlite:////absolute` (SQLAlchemy), `sqlite:path`, `jdbc:sqlite:path`.
    fn sqlite(rest: &str, jdbc: bool) -> Result<Self> {
        let rest = match jdbc {
            true => rest,
            false => rest.strip_prefix("///").or_else(|| rest.strip_prefix("//")).unwrap_or(rest),
        };
        let rest = rest.strip_prefix("file:").unwrap_or(rest);
        // Parameters are for the drivers of others.
        let path = rest.split('?').next().unwrap_or_default();
        if path.is_empty() || path == ":memory:" {
            let url = Url::parse("sqlite::memory:").map_err(|_| Error::invalid("not a URI"))?;
            let shown = "sqlite::memory:".to_owned();
            return Ok(Self { dialect: Dialect::Sqlite, url, in_memory: true, shown, password: None });
        }
        let path = std::path::absolute(path)
            .map_err(|e| Error::new(ErrorKind::Io, "the working directory is unknown").with_source(e))?;
        let path = path.to_str().ok_or_else(|| Error::unsupported("a path that is not UTF-8"))?;
        let url = format!("sqlite://{}?mode=rwc", utf8_percent_encode(path, PATH));
        let url = Url::parse(&url).map_err(|e| Error::invalid(e.to_string()))?;
        let shown = format!("sqlite:{path}");
        Ok(Self { dialect: Dialect::Sqlite, url, in_memory: false, shown, password: None })
    }

    fn server(
        dialect: Dialect,
        scheme: &str,
        rest: &str,
        properties: &BTreeMap<String, String>,
    ) -> Result<Self> {
        let wrong = |what: &str| Error::invalid(format!("not the URI of a database: {what}"));
        // The text itself may hold a password, so it is not told.
        let mut url = Url::parse(&format!("{scheme}:{rest}")).map_err(|e| wrong(&e.to_string()))?;
        if url.cannot_be_a_base() {
            return Err(wrong("expected `//` and a host"));
        }
        let asked: Vec<(String, String)> = url.query_pairs().into_owned().collect();
        let drivers =
            properties.iter().filter_map(|(name, value)| Some((name.strip_prefix("jdbc.")?, value)));
        let drivers = drivers.map(|(name, value)| (name.to_owned(), value.clone()));
        let mut parameters = Vec::new();
        for (name, value) in asked.into_iter().chain(drivers) {
            match name.as_str() {
                "user" | "username" => {
                    url.set_username(&value).map_err(|()| wrong("a user without a host"))?
                }
                "password" => {
                    url.set_password(Some(&value)).map_err(|()| wrong("a password without a host"))?;
                }
                "currentSchema" => parameters.push(("options[search_path]".to_owned(), value)),
                name if PARAMETERS.contains(&name) => parameters.push((name.to_owned(), value)),
                "schema-version" | "init-catalog-tables" | "strict-mode" => {}
                name => tracing::warn!(%name, "a parameter for another database driver is left out"),
            }
        }
        url.set_query(None);
        if !parameters.is_empty() {
            url.query_pairs_mut().extend_pairs(parameters);
        }
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        let host = url.host_str().unwrap_or_default();
        let shown = format!("{scheme}://{host}{port}{}", url.path());
        let password = url.password().map(str::to_owned);
        Ok(Self { dialect, url, in_memory: false, shown, password })
    }

    /// `text` without the password.
    pub(super) fn scrub(&self, text: &str) -> String {
        let Some(encoded) = self.password.as_deref().filter(|password| !password.is_empty()) else {
            return text.to_owned();
        };
        let decoded = percent_encoding::percent_decode_str(encoded).decode_utf8_lossy();
        text.replace(decoded.as_ref(), "***").replace(encoded, "***")
    }
}

impl fmt::Display for DatabaseUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for DatabaseUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(list: &[(&str, &str)]) -> Result<DatabaseUri> {
        DatabaseUri::new(&list.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
    }

    #[test]
    fn spellings_of_sqlite() {
        let cwd = std::env::current_dir().unwrap();
        let relative = format!("sqlite:{}/a b.db", cwd.display());
        for (uri, expected) in [
            ("sqlite:////tmp/a b.db", "sqlite:/tmp/a b.db"),
            ("sqlite+pysqlite:////tmp/c.db?timeout=5", "sqlite:/tmp/c.db"),
            ("sqlite:/tmp/c%20.db", "sqlite:/tmp/c%20.db"),
            ("jdbc:sqlite:/tmp/c.db", "sqlite:/tmp/c.db"),
            ("jdbc:sqlite:file:/tmp/c.db", "sqlite:/tmp/c.db"),
            ("sqlite:///a b.db", &relative),
            ("jdbc:sqlite:a b.db", &relative),
            ("sqlite:///:memory:", "sqlite::memory:"),
            ("sqlite://", "sqlite::memory:"),
            ("sqlite::memory:", "sqlite::memory:"),
        ] {
            let parsed = parse(&[("uri", uri)]).unwrap();
            assert_eq!(parsed.to_string(), expected, "{uri}");
            assert_eq!(parsed.in_memory, expected.ends_with(":memory:"));
        }
    }

    #[test]
    fn spellings_of_servers() {
        for (list, expected) in [
            (&[("uri", "postgresql://u:p@h:1/db")][..], "postgres://u:p@h:1/db"),
            (
                &[("uri", "postgresql+psycopg2://u:p%40@h/db?sslmode=require")],
                "postgres://u:p%40@h/db?sslmode=require",
            ),
            (&[("uri", "jdbc:postgresql://h/db?user=u&password=p&loggerLevel=OFF")], "postgres://u:p@h/db"),
            (
                &[
                    ("uri", "jdbc:mysql://h:3306/db"),
                    ("jdbc.user", "u"),
                    ("jdbc.password", "p@/"),
                    ("jdbc.useSSL", "1"),
                ],
                "mysql://u:p%40%2F@h:3306/db",
            ),
            (&[("uri", "mariadb+pymysql://u@h/db"), ("jdbc.schema-version", "V1")], "mysql://u@h/db"),
        ] {
            assert_eq!(parse(list).unwrap().url.as_str(), expected);
        }
    }

    #[test]
    fn wrong_ones_are_refused_and_passwords_not_told() {
        for uri in [
            "",
            "catalog.db",
            "oracle://u:hunter2@h/db",
            "postgresql:u:hunter2@h",
            "mysql://u:hunter2@h:x/db",
        ] {
            let e = parse(&[("uri", uri)]).unwrap_err().to_string();
            assert!(e.contains("property `uri`") && !e.contains("hunter2"), "{e}");
        }
        let parsed = parse(&[("uri", "postgresql://u:hunter%402@h/db")]).unwrap();
        assert!(!format!("{parsed:?} {parsed}").contains("hunter"));
        assert_eq!(parsed.scrub("a hunter@2 b hunter%402"), "a *** b ***");
    }
}
