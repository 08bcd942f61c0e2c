//! The properties of a REST catalog, by the names that Java and PyIceberg use.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::storage::StorageProperties;

/// Properties whose values may be shown.
const HARMLESS: &[&str] = &[
    "uri",
    "warehouse",
    "prefix",
    "namespace-separator",
    "view-endpoints-supported",
    "rest-page-size",
    "snapshot-loading-mode",
    "scan-planning-mode",
    "rest-scan-planning-enabled",
    "rest-metrics-reporting-enabled",
    "rest.auth.type",
    "rest.sigv4-enabled",
    "rest.signing-name",
    "rest.signing-region",
    "rest.access-delegation",
    "rest.allow-http",
    "oauth2-server-uri",
    "scope",
    "token-refresh-enabled",
    "token-exchange-enabled",
];

/// Shorter values are not looked for in messages: they would hit by accident.
const MIN_SECRET_LEN: usize = 4;

/// Properties by name. `Debug` shows only values that are known to be harmless.
#[derive(Clone, Default)]
pub(super) struct Properties(BTreeMap<String, String>);

/// What the user alone decides: how the connection is secured, and which files of this machine are
/// read for it.
fn is_the_users(name: &str) -> bool {
    name == "rest.allow-http"
        || ["rest.tls.", "ssl.", "rest.client.proxy."].iter().any(|prefix| name.starts_with(prefix))
}

impl Properties {
    /// Properties that a user gave: `env:NAME` stands for a variable of the environment.
    pub(super) fn of_user(given: BTreeMap<String, String>) -> Self {
        let resolved = given.into_iter().filter_map(|(name, value)| match value.strip_prefix("env:") {
            Some(variable) => std::env::var(variable).ok().map(|value| (name, value)),
            None => Some((name, value)),
        });
        Self(resolved.collect())
    }

    /// Properties that a server gave, which are taken as they are.
    pub(super) fn of_server(given: BTreeMap<String, String>) -> Self {
        Self(given)
    }

    /// These, below `defaults` and above `overrides`.
    pub(super) fn between(
        &self,
        defaults: BTreeMap<String, String>,
        overrides: BTreeMap<String, String>,
    ) -> Self {
        let mut merged = defaults;
        merged.retain(|name, _| !is_the_users(name));
        merged.extend(self.0.clone());
        merged.extend(overrides.into_iter().filter(|(name, _)| !is_the_users(name)));
        Self(merged)
    }

    /// The value of a property; empty ones are absent.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|v| !v.is_empty())
    }

    /// A property that must be there.
    pub(super) fn require(&self, name: &str) -> Result<&str> {
        self.get(name).ok_or_else(|| Error::invalid(format!("the property `{name}` is missing")))
    }

    /// A property that is `true` or `false`.
    pub(super) fn flag(&self, name: &str) -> Result<Option<bool>> {
        match self.get(name) {
            None => Ok(None),
            Some(v) if v.eq_ignore_ascii_case("true") => Ok(Some(true)),
            Some(v) if v.eq_ignore_ascii_case("false") => Ok(Some(false)),
            Some(_) => Err(invalid(name, "true or false")),
        }
    }

    /// A property that is a whole number, not negative.
    pub(super) fn number(&self, name: &str) -> Result<Option<u64>> {
        let parse = |v: &str| v.trim().parse().map_err(|_| invalid(name, "a whole number"));
        self.get(name).map(parse).transpose()
    }

    /// A property in milliseconds.
    pub(super) fn millis(&self, name: &str, default: Duration) -> Result<Duration> {
        Ok(self.number(name)?.map_or(default, Duration::from_millis))
    }

    /// Those whose name begins with `prefix`, by the rest of their name.
    pub(super) fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> + 'a {
        let rest =
            move |(name, value): (&'a String, &'a String)| Some((name.strip_prefix(prefix)?, value.as_str()));
        self.0.iter().filter_map(rest)
    }

    /// Those that say where files are and how to read them.
    pub(super) fn storage(&self) -> StorageProperties {
        storage_properties(&self.0)
    }

    /// Replaces every secret in `text`.
    pub(super) fn scrub(&self, text: &str) -> String {
        let secrets = self.0.iter().filter(|(name, _)| !is_harmless(name)).map(|(_, value)| value.as_str());
        secrets.fold(text.to_owned(), |text, secret| {
            // A credential is an id and a secret, of which either may be told alone.
            let parts = secret.split_once(':').into_iter().flat_map(|(id, secret)| [id, secret]);
            std::iter::once(secret).chain(parts).fold(text, scrub)
        })
    }
}

/// Of all properties, those that say where files are and how to read them.
pub(super) fn storage_properties(all: &BTreeMap<String, String>) -> StorageProperties {
    all.iter()
        .filter(|(name, _)| StorageProperties::is_known(name))
        .map(|(n, v)| (n.as_str(), v.as_str()))
        .collect()
}

/// Replaces a secret in `text`.
pub(super) fn scrub(text: String, secret: &str) -> String {
    match secret.len() >= MIN_SECRET_LEN && text.contains(secret) {
        true => text.replace(secret, "***"),
        false => text,
    }
}

fn invalid(name: &str, expected: &str) -> Error {
    Error::invalid(format!("expected {expected}")).context(format!("property `{name}`"))
}

/// Whether a value is no secret: nothing is hidden from messages that everybody may see.
fn is_harmless(name: &str) -> bool {
    HARMLESS.contains(&name)
        || name.starts_with("table-default.")
        || name.starts_with("table-override.")
        || name.starts_with("s3.endpoint")
        || matches!(name, "s3.region" | "client.region" | "s3.path-style-access" | "io-impl" | "type")
        || name.ends_with("-ms")
}

impl fmt::Debug for Properties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.iter().map(|(name, value)| {
            let harmless = HARMLESS.contains(&name.as_str()) && !value.contains('@');
            (name, if harmless { value.as_str() } else { "***" })
        });
        f.debug_map().entries(shown).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn properties(list: &[(&str, &str)]) -> Properties {
        Properties::of_user(list.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect())
    }

    #[test]
    fn the_server_has_the_last_word() {
        let own = properties(&[("a", "own"), ("b", "own"), ("c", "own")]);
        let map = |list: &[(&str, &str)]| list.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
        let merged = own.between(map(&[("a", "default"), ("d", "default")]), map(&[("b", "override")]));
        let value = |name| merged.get(name).unwrap();
        assert_eq!([value("a"), value("b"), value("c"), value("d")], ["own", "override", "own", "default"]);
    }

    #[test]
    fn how_the_connection_is_secured_is_not_the_servers_to_say() {
        let own = properties(&[("rest.allow-http", "false")]);
        let names = ["rest.allow-http", "ssl.cabundle", "rest.tls.ca-file", "rest.client.proxy.hostname"];
        let said = || names.iter().map(|name| (name.to_string(), "true".to_owned())).collect();
        let merged = own.between(said(), said());
        assert_eq!(names.map(|name| merged.get(name)), [Some("false"), None, None, None]);
    }

    #[test]
    fn values_have_types() {
        let p =
            properties(&[("yes", "TRUE"), ("no", "false"), ("n", "12"), ("bad", "hunter2"), ("empty", "")]);
        assert_eq!((p.flag("yes").unwrap(), p.flag("no").unwrap()), (Some(true), Some(false)));
        assert_eq!((p.flag("missing").unwrap(), p.flag("empty").unwrap()), (None, None));
        assert_eq!(p.number("n").unwrap(), Some(12));
        for e in [p.flag("bad").unwrap_err(), p.number("bad").unwrap_err(), p.require("missing").unwrap_err()]
        {
            assert!(!e.to_string().contains("hunter2"), "{e}");
        }
        assert!(p.number("bad").unwrap_err().to_string().contains("`bad`"));
    }

    #[test]
    fn the_environment_is_read_for_those_who_say_so() {
        let p =
            properties(&[("path", "env:PATH"), ("none", "env:ICEFLOE_NO_SUCH_VARIABLE"), ("plain", "PATH")]);
        assert_eq!(p.get("path").map(str::to_owned), std::env::var("PATH").ok());
        assert_eq!((p.get("none"), p.get("plain")), (None, Some("PATH")));
    }

    #[test]
    fn secrets_are_not_shown() {
        let p = properties(&[
            ("uri", "https://host"),
            ("credential", "client:hunter2"),
            ("token", "tok-hunter2"),
            ("header.X-Key", "key-hunter2"),
            ("s3.secret-access-key", "hunter2"),
        ]);
        let text = format!("{p:?}");
        assert!(!text.contains("hunter2") && text.contains("https://host"), "{text}");
        let scrubbed = p.scrub("who is hunter2 with tok-hunter2 and key-hunter2 at https://host?");
        assert!(!scrubbed.contains("hunter2") && scrubbed.contains("https://host"), "{scrubbed}");
    }
}
