//! Credentials that a catalog hands out for a while, by the prefix of the files that they open.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Mutex;

use super::location::Location;
use super::properties::StorageProperties;
use crate::error::{Error, ErrorKind, Result};

/// How much ahead of their end credentials are renewed, at most.
const AHEAD_MS: i64 = 300_000;
/// The wait after a renewal failed while the old ones still hold.
const PAUSE: Duration = Duration::from_secs(10);

/// Properties that say when credentials expire, in milliseconds since 1970 UTC; some names go on
/// with a storage account.
const EXPIRIES: &[&str] =
    &["s3.session-token-expires-at-ms", "gcs.oauth2.token-expires-at", "adls.sas-token-expires-at-ms"];

/// Properties of which one set replaces the other as a whole: a key of one and the token of another
/// open nothing.
const GROUPS: &[&[&str]] = &[
    &["s3.access-key-id", "s3.secret-access-key", "s3.session-token", "s3.anonymous"],
    &["gcs.oauth2.token", "gcs.service-account", "gcs.credentials-json", "gcs.no-auth"],
];

/// Credentials for the files whose location begins with a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixCredentials {
    /// What locations begin with, such as `s3://bucket/warehouse`, or a scheme alone; empty for all.
    pub prefix: String,
    /// The credentials, and whatever else is to be set for these files.
    pub properties: StorageProperties,
}

/// Hands out credentials again, or signs requests in place of that.
#[async_trait]
pub trait CredentialSource: fmt::Debug + Send + Sync {
    /// Fresh credentials in place of all earlier ones.
    ///
    /// # Errors
    /// If there are none to be had.
    async fn credentials(&self) -> Result<Vec<PrefixCredentials>>;

    /// Signs a request to S3, where the property `s3.remote-signing-enabled` says so.
    ///
    /// # Errors
    /// If the request may not be made, or nobody signs.
    async fn sign(&self, request: UnsignedRequest) -> Result<SignedRequest> {
        let _ = request;
        Err(Error::unsupported("signing of requests by a remote service (`s3.remote-signing-enabled`)"))
    }
}

/// A request to S3 that is to be signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsignedRequest {
    /// The method.
    pub method: String,
    /// The whole URI.
    pub uri: String,
    /// The region of the store.
    pub region: String,
    /// The headers, with names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body, if it says what the request does: which files it removes.
    pub body: Option<String>,
}

/// A signed request.
#[derive(Clone, PartialEq, Eq)]
pub struct SignedRequest {
    /// The whole URI, on the same host.
    pub uri: String,
    /// The headers that the signature is in, and those that it covers.
    pub headers: BTreeMap<String, String>,
}

impl fmt::Debug for SignedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A signature opens the file for a while.
        f.debug_struct("SignedRequest").finish_non_exhaustive()
    }
}

/// The credentials as they are now.
pub(super) struct Vended {
    base: StorageProperties,
    source: Option<Arc<dyn CredentialSource>>,
    state: RwLock<State>,
    /// Held by the one that renews.
    renewing: Mutex<()>,
}

struct State {
    credentials: Vec<PrefixCredentials>,
    /// When to renew them and when they are useless, in milliseconds since 1970 UTC.
    renew_at: Option<i64>,
    expires_at: Option<i64>,
    pause_until: Option<tokio::time::Instant>,
}

impl State {
    fn new(credentials: Vec<PrefixCredentials>) -> Self {
        let expires_at = credentials.iter().filter_map(|c| expires_at(&c.properties)).min();
        let now = now_ms();
        let renew_at =
            expires_at.map(|at| at.saturating_sub(AHEAD_MS.min(at.saturating_sub(now).max(0) / 5)));
        Self { credentials, renew_at, expires_at, pause_until: None }
    }
}

fn now_ms() -> i64 {
    chrono::Utc::now().timestamp_millis()
}

/// When the first of the credentials among some properties expires.
pub(crate) fn expires_at(properties: &StorageProperties) -> Option<i64> {
    let named = |name: &str| {
        EXPIRIES
            .iter()
            .any(|e| name.strip_prefix(e).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
    };
    properties.iter().filter(|(name, _)| named(name)).filter_map(|(_, value)| value.trim().parse().ok()).min()
}

#[cfg_attr(
    not(any(feature = "s3", feature = "gcs", feature = "azure")),
    allow(dead_code, reason = "only stores of the cloud ask for credentials")
)]
impl Vended {
    pub(super) fn new(
        base: StorageProperties,
        credentials: Vec<PrefixCredentials>,
        source: Option<Arc<dyn CredentialSource>>,
    ) -> Self {
        Self { base, source, state: RwLock::new(State::new(credentials)), renewing: Mutex::new(()) }
    }

    /// The longest prefix that a location has.
    pub(super) fn prefix(&self, location: &Location) -> Option<String> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        longest(&state.credentials, |prefix| covers(prefix, location)).map(|c| c.prefix.clone())
    }

    /// The properties for the files below a prefix, as they are at the moment.
    pub(super) fn properties(&self, prefix: Option<&str>) -> StorageProperties {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let found = prefix.and_then(|p| longest(&state.credentials, |known| p.starts_with(known)));
        match found {
            Some(found) => overlay(&self.base, &found.properties),
            None => self.base.clone(),
        }
    }

    /// Who hands them out, and may sign.
    #[cfg(feature = "s3")]
    pub(super) fn source(&self) -> Option<Arc<dyn CredentialSource>> {
        self.source.clone()
    }

    /// Whether the credentials expire and others can be had.
    pub(super) fn renews(&self) -> bool {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        self.source.is_some() && state.expires_at.is_some()
    }

    fn due(&self) -> Option<(bool, bool)> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let now = now_ms();
        let paused = state.pause_until.is_some_and(|until| until > tokio::time::Instant::now());
        let expired = state.expires_at.is_some_and(|at| at <= now);
        state.renew_at.is_some_and(|at| at <= now).then_some((expired, paused))
    }

    /// The properties for the files below a prefix, with credentials that still hold.
    ///
    /// # Errors
    /// If they have expired and no others can be had.
    pub(super) async fn current(&self, prefix: &str) -> Result<StorageProperties> {
        if let (Some((expired, paused)), Some(source)) = (self.due(), &self.source)
            && (expired || !paused)
        {
            let _one = self.renewing.lock().await;
            // Somebody may have been faster.
            if self.due().is_some_and(|(expired, paused)| expired || !paused) {
                match source.credentials().await {
                    Ok(fresh) => {
                        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
                        *state = State::new(fresh);
                    }
                    Err(e) if expired => return Err(e.context("credentials that have expired")),
                    Err(e) => {
                        tracing::warn!(
                            "credentials could not be renewed and are used until they expire: {e}"
                        );
                        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
                        state.pause_until = Some(tokio::time::Instant::now() + PAUSE);
                    }
                }
            }
        }
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        match longest(&state.credentials, |known| prefix.starts_with(known)) {
            Some(found) => Ok(overlay(&self.base, &found.properties)),
            None => Err(Error::new(
                ErrorKind::Io,
                format!("the catalog has no credentials for `{prefix}` any more"),
            )),
        }
    }

    /// Replaces the credentials in `text`.
    pub(super) fn scrub(&self, text: String) -> String {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.credentials.iter().fold(text, |text, c| c.properties.scrub(&text))
    }
}

fn longest(
    credentials: &[PrefixCredentials],
    mut fits: impl FnMut(&str) -> bool,
) -> Option<&PrefixCredentials> {
    credentials.iter().filter(|c| fits(&c.prefix)).max_by_key(|c| c.prefix.len())
}

/// Whether the files of a prefix are those of a location, however their schemes are spelled.
fn covers(prefix: &str, location: &Location) -> bool {
    if prefix.is_empty() {
        return true;
    }
    if !prefix.contains(':') && !prefix.contains('/') {
        let example = Location::parse(&format!("{prefix}://container@account.example/x"))
            .or_else(|_| Location::parse(&format!("{prefix}://a/x")));
        return example.is_ok_and(|example| example.store().kind() == location.store().kind());
    }
    match Location::parse(prefix) {
        Ok(prefix) => prefix.store() == location.store() && location.path().starts_with(prefix.path()),
        Err(_) => location.to_string().starts_with(prefix),
    }
}

/// `base` with `credentials` in place of those that it has.
fn overlay(base: &StorageProperties, credentials: &StorageProperties) -> StorageProperties {
    let mut all = base.clone();
    for group in GROUPS {
        if group.iter().any(|name| credentials.get(name).is_some()) {
            group.iter().for_each(|name| all.remove(name));
        }
    }
    for (name, value) in credentials.iter() {
        all.insert(name, value);
    }
    all
}

impl fmt::Debug for Vended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        f.debug_struct("Vended")
            .field("credentials", &state.credentials)
            .field("expires_at", &state.expires_at)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn credentials(prefix: &str, list: &[(&str, &str)]) -> PrefixCredentials {
        PrefixCredentials { prefix: prefix.into(), properties: list.iter().copied().collect() }
    }

    fn keys(prefix: &str, id: &str, expires_at: Option<i64>) -> PrefixCredentials {
        let mut found = credentials(prefix, &[("s3.access-key-id", id), ("s3.secret-access-key", "hunter2")]);
        if let Some(at) = expires_at {
            found.properties.insert("s3.session-token-expires-at-ms", at.to_string());
        }
        found
    }

    fn id(properties: &StorageProperties) -> Option<&str> {
        properties.get("s3.access-key-id")
    }

    #[derive(Debug)]
    struct Source {
        calls: AtomicUsize,
        lifetime_ms: i64,
        fails: bool,
    }

    impl Source {
        fn new(lifetime_ms: i64, fails: bool) -> Arc<Self> {
            Arc::new(Self { calls: AtomicUsize::new(0), lifetime_ms, fails })
        }
    }

    #[async_trait]
    impl CredentialSource for Source {
        async fn credentials(&self) -> Result<Vec<PrefixCredentials>> {
            let call = self.calls.fetch_add(1, Ordering::SeqCst);
            match self.fails {
                true => Err(Error::new(ErrorKind::Io, "no")),
                false => Ok(vec![keys("s3://b", &format!("new{call}"), Some(now_ms() + self.lifetime_ms))]),
            }
        }
    }

    #[test]
    fn the_longest_prefix_wins() {
        let all = vec![
            keys("s3", "scheme", None),
            keys("s3://b/wh", "warehouse", None),
            keys("s3a://b/wh/t", "table", None),
            credentials("gs", &[("gcs.oauth2.token", "x")]),
            credentials("abfss", &[("adls.token", "x")]),
        ];
        let vended = Vended::new(StorageProperties::new().with("s3.region", "r"), all, None);
        for (location, prefix) in [
            ("s3://b/wh/t/data/x", "s3a://b/wh/t"),
            ("s3n://b/wh/u/x", "s3://b/wh"),
            ("s3://b/x", "s3"),
            ("s3://other/wh/t", "s3"),
            ("gs://b/wh/t", "gs"),
            ("abfss://c@a.dfs.core.windows.net/x", "abfss"),
        ] {
            let found = vended.prefix(&Location::parse(location).unwrap());
            assert_eq!(found.as_deref(), Some(prefix), "{location}");
        }
        assert_eq!(vended.prefix(&Location::parse("file:///x").unwrap()), None);
        let table = vended.properties(Some("s3a://b/wh/t"));
        assert_eq!((id(&table), table.get("s3.region")), (Some("table"), Some("r")));
        assert_eq!(id(&vended.properties(None)), None);
        let all = Vended::new(StorageProperties::new(), vec![keys("", "any", None)], None);
        assert_eq!(all.prefix(&Location::parse("memory:///x").unwrap()).as_deref(), Some(""));
    }

    #[test]
    fn credentials_replace_each_other_as_a_whole() {
        let base: StorageProperties =
            [("s3.access-key-id", "own"), ("s3.secret-access-key", "s"), ("s3.session-token", "t")]
                .into_iter()
                .collect();
        let merged = overlay(&base, &keys("", "vended", None).properties);
        assert_eq!((id(&merged), merged.get("s3.session-token")), (Some("vended"), None));
        let other = overlay(&base, &credentials("", &[("s3.endpoint", "https://h")]).properties);
        assert_eq!((id(&other), other.get("s3.session-token")), (Some("own"), Some("t")));
    }

    #[tokio::test]
    async fn credentials_are_renewed_before_they_expire() {
        let now = now_ms();
        for (left_ms, expected, calls) in [
            // Fresh enough; near their end; long gone.
            (3_600_000, "old", 0),
            (-1, "new0", 1),
        ] {
            let source = Source::new(3_600_000, false);
            let old = vec![keys("s3://b", "old", Some(now + left_ms))];
            let vended = Vended::new(StorageProperties::new(), old, Some(source.clone()));
            assert!(vended.renews());
            for _ in 0..3 {
                assert_eq!(id(&vended.current("s3://b").await.unwrap()), Some(expected), "{left_ms}");
            }
            assert_eq!(source.calls.load(Ordering::SeqCst), calls);
        }
        // The window before the end.
        let state = State::new(vec![keys("s3://b", "x", Some(now + 3_600_000))]);
        let window = state.expires_at.unwrap() - state.renew_at.unwrap();
        assert_eq!(window, AHEAD_MS);
        let short = State::new(vec![keys("s3://b", "x", Some(now_ms() + 10_000))]);
        let window = short.expires_at.unwrap() - short.renew_at.unwrap();
        assert!((1_900..=2_000).contains(&window), "{window}");
        let others = [("gcs.oauth2.token-expires-at", "5"), ("adls.sas-token-expires-at-ms.acc", "4")];
        assert_eq!(expires_at(&others.into_iter().collect()), Some(4));
    }

    #[tokio::test]
    async fn a_failed_renewal_is_an_error_only_at_the_end() {
        let source = Source::new(0, true);
        let vended = |at: i64| {
            Vended::new(StorageProperties::new(), vec![keys("s3://b", "old", Some(at))], Some(source.clone()))
        };
        let e = vended(now_ms() - 1).current("s3://b").await.unwrap_err();
        assert!(e.to_string().contains("expired") && !e.to_string().contains("hunter2"), "{e}");
        let early = vended(now_ms() + 3_600_000);
        early.state.write().unwrap().renew_at = Some(0);
        let before = source.calls.load(Ordering::SeqCst);
        for _ in 0..3 {
            assert_eq!(id(&early.current("s3://b").await.unwrap()), Some("old"));
        }
        // It is not asked again and again.
        assert_eq!(source.calls.load(Ordering::SeqCst), before + 1);
        assert!(!format!("{early:?}").contains("hunter2"));
        assert!(!early.scrub("x hunter2".into()).contains("hunter2"));
    }
}
