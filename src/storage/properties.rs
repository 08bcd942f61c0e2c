//! Properties of stores: endpoints and credentials by the names that Java and PyIceberg use.

use std::collections::BTreeMap;
use std::fmt;

/// Where stores are and how to sign in, by property name: `s3.endpoint`, `s3.access-key-id`,
/// `gcs.oauth2.token`, `adls.sas-token.<account>` and so on. What is not given comes from the
/// usual environment variables of each cloud (`AWS_…`, `GOOGLE_…`, `AZURE_…`).
///
/// `Debug` and `Display` show only values that are known to be harmless.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct StorageProperties {
    values: BTreeMap<String, String>,
}

/// The properties that are understood, with whether their value may be shown.
const KNOWN: &[(&str, bool)] = &[
    ("s3.endpoint", true),
    ("s3.region", true),
    ("client.region", true),
    ("s3.path-style-access", true),
    ("s3.force-virtual-addressing", true),
    ("s3.anonymous", true),
    ("client.credentials-provider", true),
    ("s3.remote-signing-enabled", true),
    ("s3.access-key-id", false),
    ("s3.secret-access-key", false),
    ("s3.session-token", false),
    ("gcs.project-id", true),
    ("gcs.service.host", true),
    ("gcs.no-auth", true),
    ("gcs.oauth2.token", false),
    ("gcs.service-account", false),
    ("gcs.credentials-json", false),
    ("adls.account-name", true),
    ("adls.account-host", true),
    ("adls.tenant-id", true),
    ("adls.client-id", true),
    ("adls.auth.shared-key.account.name", true),
    ("adls.auth.shared-key.account.key", false),
    ("adls.account-key", false),
    ("adls.sas-token", false),
    ("adls.token", false),
    ("adls.connection-string", false),
    ("adls.client-secret", false),
];

/// Properties whose name goes on with a storage account or its host.
const KNOWN_BY_ACCOUNT: &[&str] =
    &["adls.sas-token.", "adls.connection-string.", "fs.azure.account.key.", "fs.azure.sas.fixed.token."];

/// Other spellings of known properties: Hadoop's, and older ones of PyIceberg.
const ALIASES: &[(&str, &str)] = &[
    ("fs.s3a.endpoint", "s3.endpoint"),
    ("fs.s3a.endpoint.region", "s3.region"),
    ("fs.s3a.access.key", "s3.access-key-id"),
    ("fs.s3a.secret.key", "s3.secret-access-key"),
    ("fs.s3a.session.token", "s3.session-token"),
    ("fs.s3a.path.style.access", "s3.path-style-access"),
    ("gcs.endpoint", "gcs.service.host"),
    ("gcs.service-path", "gcs.service.host"),
    ("gcs.service-account-key", "gcs.credentials-json"),
    ("gcs.service-account-path", "gcs.service-account"),
    ("fs.gs.project.id", "gcs.project-id"),
];

/// Those that are sent in headers as they are.
#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
const SENT: &[&str] = &[
    "s3.access-key-id",
    "s3.session-token",
    "s3.region",
    "client.region",
    "adls.account-name",
    "adls.token",
    "gcs.oauth2.token",
];

/// Shorter values are not looked for in messages: they would hit by accident.
const MIN_SECRET_LEN: usize = 3;

impl StorageProperties {
    /// No properties: everything comes from the environment.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a property, replacing an earlier one of that name.
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.insert(name, value);
        self
    }

    /// Adds a property, replacing an earlier one of that name.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.values.insert(name.into(), value.into());
    }

    /// Whether `name` is a property that is understood here.
    pub fn is_known(name: &str) -> bool {
        KNOWN.iter().any(|(known, _)| *known == name)
            || ALIASES.iter().any(|(alias, _)| *alias == name)
            || KNOWN_BY_ACCOUNT.iter().any(|prefix| name.len() > prefix.len() && name.starts_with(prefix))
    }

    /// The value of a property, under its name or another spelling of it; empty ones are absent.
    pub fn get(&self, name: &str) -> Option<&str> {
        let aliases = ALIASES.iter().filter(|(_, known)| *known == name).map(|(alias, _)| *alias);
        std::iter::once(name)
            .chain(aliases)
            .find_map(|n| self.values.get(n))
            .map(String::as_str)
            .filter(|v| !v.is_empty())
    }

    /// Removes a property under its name and other spellings of it.
    pub(super) fn remove(&mut self, name: &str) {
        self.values.remove(name);
        for (alias, _) in ALIASES.iter().filter(|(_, known)| *known == name) {
            self.values.remove(*alias);
        }
    }

    /// All properties, by the names that they were given under.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The first of several properties that is there.
    #[cfg(any(feature = "s3", feature = "azure"))]
    pub(crate) fn first(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.get(name))
    }

    /// A property that is `true` or `false`.
    #[cfg(any(feature = "s3", feature = "gcs"))]
    pub(crate) fn flag(&self, name: &str) -> crate::Result<Option<bool>> {
        match self.get(name) {
            None => Ok(None),
            Some(v) if v.eq_ignore_ascii_case("true") => Ok(Some(true)),
            Some(v) if v.eq_ignore_ascii_case("false") => Ok(Some(false)),
            Some(_) => {
                Err(crate::Error::invalid("expected true or false").context(format!("property `{name}`")))
            }
        }
    }

    /// A property of a storage account: `prefix` + the account's name, or its name and host.
    #[cfg(feature = "azure")]
    pub(crate) fn of_account(&self, prefix: &str, account: &str) -> Option<&str> {
        let mut found = self.values.iter().filter(|(name, value)| {
            let rest = name.strip_prefix(prefix).and_then(|rest| rest.strip_prefix(account));
            !value.is_empty() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        });
        found.next().map(|(_, value)| value.as_str())
    }

    /// Fails for values that no header can hold, such as a token with a line break at its end: the
    /// clients of stores panic for them.
    #[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
    pub(crate) fn check_sent(&self) -> crate::Result<()> {
        SENT.iter().try_for_each(|name| match self.get(name) {
            Some(value) => check_sent(&format!("property `{name}`"), value),
            None => Ok(()),
        })
    }

    /// Where the stores are, without how to sign in: stores with equal fingerprints hold the same files.
    pub(crate) fn fingerprint(&self) -> String {
        let mut out = String::new();
        for (name, value) in &self.values {
            if is_harmless(name) || name.starts_with("adls.connection-string.") {
                out.push_str(&format!("{}={value:?};", name.escape_default()));
            }
        }
        out
    }

    /// Replaces every secret in `text`: the secret properties, and signatures in URLs.
    pub(crate) fn scrub(&self, text: &str) -> String {
        let mut out = text.to_owned();
        for (name, value) in &self.values {
            if is_harmless(name) {
                continue;
            }
            for secret in secrets_in(value) {
                out = out.replace(secret, "***");
            }
        }
        for marker in ["sig=", "Signature=", "Security-Token=", "Credential=", "AccountKey="] {
            let mut from = 0;
            while let Some(at) = out.get(from..).and_then(|rest| rest.find(marker)) {
                let start = from + at + marker.len();
                let rest = out.get(start..).unwrap_or_default();
                let len = rest.find(['&', ';', ' ', '"', '\'', ')', '\n']).unwrap_or(rest.len());
                out.replace_range(start..start + len, "***");
                from = start + 3;
            }
        }
        out
    }
}

/// Fails for a value, of what `place` tells, that no header can hold.
#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
pub(crate) fn check_sent(place: &str, value: &str) -> crate::Result<()> {
    match value.bytes().all(|b| matches!(b, b' '..=b'~')) {
        true => Ok(()),
        false => {
            let message = "a value with line breaks or other characters that can't be sent";
            Err(crate::Error::invalid(message).context(place))
        }
    }
}

/// A secret value, and the parts of it that a message may hold on their own.
fn secrets_in(value: &str) -> impl Iterator<Item = &str> {
    let parts = value.split(['&', ';']).filter_map(|part| part.split_once('=').map(|(_, v)| v));
    // A part of a SAS token such as `sv=2024` is no secret, and shorter than any key.
    std::iter::once(value).filter(|v| v.len() >= MIN_SECRET_LEN).chain(parts.filter(|v| v.len() >= 20))
}

fn is_harmless(name: &str) -> bool {
    let name = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, known)| known);
    KNOWN.iter().any(|(known, harmless)| *known == name && *harmless)
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for StorageProperties {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(iter: I) -> Self {
        Self { values: iter.into_iter().map(|(k, v)| (k.into(), v.into())).collect() }
    }
}

impl fmt::Debug for StorageProperties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.values.iter().map(|(name, value)| {
            // An endpoint could hold a password, although that is refused later.
            let harmless = is_harmless(name) && !value.contains('@');
            (name, if harmless { value.as_str() } else { "***" })
        });
        f.debug_map().entries(shown).finish()
    }
}

impl fmt::Display for StorageProperties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_never_shown() {
        let secret = "hunter2/hunter2";
        let mut properties =
            StorageProperties::new().with("s3.region", "eu-west-1").with("x.unknown", secret);
        for (name, harmless) in KNOWN {
            if !harmless {
                properties.insert(*name, secret);
            }
        }
        for (alias, known) in ALIASES {
            if !is_harmless(known) {
                properties.insert(*alias, secret);
            }
        }
        for prefix in KNOWN_BY_ACCOUNT {
            properties.insert(format!("{prefix}acc"), secret);
        }
        properties.insert("s3.endpoint", format!("https://me:{secret}@host"));
        for text in [format!("{properties}"), format!("{properties:?}"), format!("{properties:#?}")] {
            assert!(!text.contains("hunter2"), "{text}");
            assert!(text.contains("eu-west-1") && text.contains("s3.secret-access-key"), "{text}");
        }
        assert!(!properties.fingerprint().replace("me:hunter2/hunter2", "").contains("s3.secret"));
    }

    #[test]
    fn secrets_are_scrubbed_from_messages() {
        let properties = StorageProperties::new()
            .with("s3.secret-access-key", "hunter2")
            .with("adls.sas-token.acc", "sv=2024&sig=AbCdEfGhIjKlMnOpQrStUv%3D")
            .with("s3.region", "eu");
        let text = "GET https://h/x?sv=2024&sig=AbCdEfGhIjKlMnOpQrStUv%3D&e=1 with hunter2 in eu: \
                    X-Amz-Signature=00ff X-Amz-Security-Token=tok";
        let scrubbed = properties.scrub(text);
        for gone in ["hunter2", "AbCd", "00ff", "=tok"] {
            assert!(!scrubbed.contains(gone), "{scrubbed}");
        }
        assert!(scrubbed.contains("in eu:") && scrubbed.contains("&e=1"), "{scrubbed}");
    }

    #[test]
    fn names_and_their_other_spellings() {
        let properties: StorageProperties =
            [("fs.s3a.access.key", "a"), ("s3.region", ""), ("client.region", "r")].into_iter().collect();
        assert_eq!(properties.get("s3.access-key-id"), Some("a"));
        assert_eq!(properties.get("s3.region"), None);
        let own = properties.clone().with("s3.access-key-id", "b");
        assert_eq!(own.get("s3.access-key-id"), Some("b"));
        for known in ["s3.endpoint", "fs.s3a.endpoint", "adls.sas-token.acc.dfs.core.windows.net"] {
            assert!(StorageProperties::is_known(known), "{known}");
        }
        for unknown in ["s3.endpoints", "adls.sas-token.", "allow_moved_paths"] {
            assert!(!StorageProperties::is_known(unknown), "{unknown}");
        }
    }

    #[test]
    #[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
    fn what_no_header_can_hold_is_refused() {
        for (name, value) in [
            ("s3.session-token", "hunter2\n"),
            ("s3.region", "eu\r"),
            ("client.region", "ü"),
            ("adls.token", "hunter2\0"),
            ("gcs.oauth2.token", "hunter2\t"),
        ] {
            let e = [(name, value)].into_iter().collect::<StorageProperties>().check_sent().unwrap_err();
            assert!(e.to_string().contains(name) && !e.to_string().contains("hunter2"), "{e}");
        }
        let pretty = [("gcs.credentials-json", "{\n}"), ("s3.session-token", "a+/= ~")];
        pretty.into_iter().collect::<StorageProperties>().check_sent().unwrap();
    }
}
