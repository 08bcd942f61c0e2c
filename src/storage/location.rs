//! Locations as Iceberg writes them: a scheme, an authority, and a raw path.
//!
//! The path is the file's real name, byte for byte: `%2F`, spaces, `#`, `?` and `:` stand for
//! themselves, nothing is percent-encoded (spec, "Paths in Metadata"). That rules out parsing
//! locations as URLs.

use std::fmt;
use std::sync::Arc;

use object_store::path::{Path, PathPart};
use url::Url;

use crate::error::{Error, Result};

/// The kind of store that a location lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum StoreKind {
    /// The local file system: `file:` and bare paths.
    File,
    /// The memory of this process: `memory:`.
    Memory,
    /// Amazon S3 and compatible stores: `s3:`, `s3a:`, `s3n:`.
    S3,
    /// Google Cloud Storage: `gs:`.
    Gcs,
    /// Azure Blob Storage and Data Lake Storage: `abfs(s):`, `wasb(s):`, `az:`, `adl:`.
    Azure,
    /// A web server: `http:`, `https:`.
    Http,
}

/// What identifies a store: a scheme in its canonical spelling and an authority, such as
/// `s3://bucket`, `abfs://container@account.dfs.core.windows.net`, `https://host:8080` or `file://`.
///
/// Two locations with one key lie in one store, however their schemes are spelled.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StoreKey {
    kind: StoreKind,
    key: Arc<str>,
}

impl StoreKey {
    /// The kind of store.
    pub fn kind(&self) -> StoreKind {
        self.kind
    }

    /// The key as a URL without a path.
    pub fn as_str(&self) -> &str {
        &self.key
    }

    /// The part behind the scheme: a bucket, `container@host`, `host:port`, or nothing.
    pub fn authority(&self) -> &str {
        self.key.split_once("://").map_or("", |(_, authority)| authority)
    }
}

impl fmt::Display for StoreKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key)
    }
}

/// A file or directory in a store, taken apart.
///
/// Equal locations are the same file: `file:/x`, `file:///x`, `file://localhost/x` and `/x`;
/// `s3://b/x`, `s3a://b/x` and `s3n://b/x`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Location {
    store: StoreKey,
    /// Without a leading and a trailing `/`.
    path: String,
}

impl Location {
    /// Takes a location apart as metadata records it: nothing is decoded.
    ///
    /// A path without a scheme is a local one; a relative one starts at the working directory.
    ///
    /// # Errors
    /// `Unsupported` for a scheme that no store has; `DataInvalid` for a malformed authority.
    pub fn parse(location: &str) -> Result<Self> {
        Self::parse_inner(location).map_err(|e| e.context(format!("location `{}`", redact(location))))
    }

    /// Takes a location apart as a user types it. It differs from [`Location::parse`] only for
    /// `http:` and `https:`, where users give real URLs, which are percent-decoded.
    ///
    /// # Errors
    /// As [`Location::parse`]; and `Unsupported` for an HTTP URL with a query or a fragment.
    pub fn from_user(location: &str) -> Result<Self> {
        match split_scheme(location) {
            Some((scheme, _))
                if scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https") =>
            {
                Self::from_http_url(location)
                    .map_err(|e| e.context(format!("location `{}`", redact(location))))
            }
            _ => Self::parse(location),
        }
    }

    fn from_http_url(location: &str) -> Result<Self> {
        let parsed = Self::parse_inner(location)?;
        if parsed.path.contains(['?', '#']) {
            return Err(Error::unsupported("an HTTP location with a query or a fragment"));
        }
        let path = percent_encoding::percent_decode_str(&parsed.path)
            .decode_utf8()
            .map_err(|_| Error::invalid("percent-encoded bytes that are not UTF-8"))?;
        Ok(Self { path: path.into_owned(), ..parsed })
    }

    fn parse_inner(location: &str) -> Result<Self> {
        let Some((scheme, rest)) = split_scheme(location) else {
            return Self::local(location);
        };
        let scheme = scheme.to_ascii_lowercase();
        let (authority, path) = match rest.strip_prefix("//") {
            Some(rest) => rest.split_once('/').unwrap_or((rest, "")),
            // `file:/x` and `memory:/x`: no authority.
            None => ("", rest.strip_prefix('/').unwrap_or(rest)),
        };
        let (kind, key) = match scheme.as_str() {
            "file" => {
                if !authority.is_empty() && !authority.eq_ignore_ascii_case("localhost") {
                    let message =
                        format!("files of another host (`{authority}`); a local file is `file:///path`");
                    return Err(Error::unsupported(message));
                }
                return Self::local(&format!("/{path}"));
            }
            "memory" => (StoreKind::Memory, format!("memory://{authority}")),
            "s3" | "s3a" | "s3n" => (StoreKind::S3, format!("s3://{}", bucket(authority)?)),
            "gs" | "gcs" => (StoreKind::Gcs, format!("gs://{}", bucket(authority)?)),
            "abfs" | "abfss" | "wasb" | "wasbs" | "az" | "azure" | "adl" => {
                (StoreKind::Azure, format!("abfs://{}", azure_authority(authority)?))
            }
            "http" | "https" => (StoreKind::Http, http_origin(&scheme, authority)?),
            _ => {
                let message = format!(
                    "no store for the scheme `{scheme}`; there are file, memory, s3 (s3a, s3n), gs, \
                     abfs (abfss, wasb, wasbs, az, adl), http and https"
                );
                return Err(Error::unsupported(message));
            }
        };
        let path = path.strip_suffix('/').unwrap_or(path).to_owned();
        Ok(Self { store: StoreKey { kind, key: key.into() }, path })
    }

    /// A local path. `.`, `..` and doubled slashes are resolved by name, as Hadoop's paths are.
    fn local(path: &str) -> Result<Self> {
        let path = if cfg!(windows) { path.replace('\\', "/") } else { path.to_owned() };
        let is_absolute =
            path.starts_with('/') || (cfg!(windows) && std::path::Path::new(&path).is_absolute());
        let absolute = if is_absolute {
            path
        } else {
            let cwd = std::env::current_dir().map_err(|e| {
                Error::new(crate::ErrorKind::Io, "the working directory is unknown").with_source(e)
            })?;
            let cwd = cwd
                .to_str()
                .ok_or_else(|| Error::unsupported("a working directory whose name is not UTF-8"))?;
            format!("{cwd}/{path}")
        };
        let mut segments: Vec<&str> = Vec::new();
        for segment in absolute.split('/') {
            match segment {
                "" | "." => {}
                ".." => {
                    segments.pop();
                }
                name => segments.push(name),
            }
        }
        let store = StoreKey { kind: StoreKind::File, key: "file://".into() };
        Ok(Self { store, path: segments.join("/") })
    }

    /// The store that it lies in.
    pub fn store(&self) -> &StoreKey {
        &self.store
    }

    /// The kind of store that it lies in.
    pub fn kind(&self) -> StoreKind {
        self.store.kind
    }

    /// Its raw path in the store, without a leading slash.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The last segment of its path; empty for the root of a store.
    pub fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// The directory that it lies in; `None` for the root of a store.
    pub fn parent(&self) -> Option<Self> {
        if self.path.is_empty() {
            return None;
        }
        let parent = self.path.rsplit_once('/').map_or("", |(parent, _)| parent);
        Some(Self { store: self.store.clone(), path: parent.to_owned() })
    }

    /// The root of its store.
    pub(crate) fn root(&self) -> Self {
        Self { store: self.store.clone(), path: String::new() }
    }

    /// A file or directory below it; `child` is raw and may have several segments.
    pub fn join(&self, child: &str) -> Self {
        let path = match self.path.as_str() {
            "" => child.to_owned(),
            path => format!("{path}/{child}"),
        };
        Self { store: self.store.clone(), path }
    }

    /// What remains of it behind the directory `base`; empty if it is `base` itself.
    pub fn strip_prefix(&self, base: &Location) -> Option<&str> {
        if self.store != base.store {
            return None;
        }
        if base.path.is_empty() {
            return Some(&self.path);
        }
        match self.path.strip_prefix(base.path.as_str())? {
            "" => Some(""),
            rest => rest.strip_prefix('/'),
        }
    }

    /// The path in the form that object stores take, with every byte kept.
    ///
    /// # Errors
    /// `Unsupported` for names that the object store library can't address: control characters,
    /// `.` and `..` as a segment in a store other than the local one, or a key that begins with `/`.
    pub fn object_path(&self) -> Result<Path> {
        let fail = |what: String| Error::unsupported(what).context(format!("location `{self}`"));
        if !self.path.contains("//") {
            return match self.path.starts_with('/') {
                true => Err(fail("a key that begins with `/`".to_owned())),
                false => Path::parse(&self.path).map_err(|e| fail(e.to_string())),
            };
        }
        // An empty segment is part of a key's name. `Path::parse` refuses it, joining does not.
        if self.path.starts_with('/') {
            return Err(fail("a key that begins with `/`".to_owned()));
        }
        let mut path = Path::default();
        for segment in self.path.split('/') {
            path = path.join(PathPart::parse(segment).map_err(|e| fail(e.to_string()))?);
        }
        match path.as_ref() == self.path {
            true => Ok(path),
            false => Err(fail("a key with empty segments".to_owned())),
        }
    }
}

/// The canonical spelling, which [`Location::parse`] reads back to an equal location.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.store, self.path)
    }
}

/// The scheme of a location and what follows its colon; `None` for a bare path. A colon in a file
/// name is no scheme: only `name://` is one, and `file:/`, `memory:/`.
pub(crate) fn split_scheme(location: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = location.split_once(':')?;
    let mut chars = scheme.chars();
    let is_name = chars.next().is_some_and(|c| c.is_ascii_alphabetic())
        && chars.all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    let no_authority = scheme.eq_ignore_ascii_case("file") || scheme.eq_ignore_ascii_case("memory");
    (is_name && (rest.starts_with("//") || no_authority && rest.starts_with('/'))).then_some((scheme, rest))
}

/// A location for a message: without a user and password in its authority, and without the query
/// of an HTTP URL, which may be a signature.
pub(super) fn redact(location: &str) -> String {
    let Some((scheme, rest)) = split_scheme(location) else { return location.to_owned() };
    let is_http = scheme.to_ascii_lowercase().starts_with("http");
    let rest = match rest.find(['?', '#']) {
        Some(at) if is_http => &rest[..at],
        _ => rest,
    };
    let location = &format!("{scheme}:{rest}");
    let Some(rest) = rest.strip_prefix("//") else { return location.to_owned() };
    let (authority, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    // `container@account` is no secret.
    let is_azure =
        ["abfs", "wasb", "adl", "az"].iter().any(|azure| scheme.to_ascii_lowercase().starts_with(azure));
    match authority.rsplit_once('@') {
        Some((user, host)) if user.contains(':') || !is_azure => {
            format!("{scheme}://***@{host}{path}")
        }
        _ => location.to_owned(),
    }
}

/// Checks the name of a bucket: it becomes part of host names and URLs.
fn bucket(authority: &str) -> Result<&str> {
    if authority.contains('@') {
        return Err(Error::unsupported("credentials in a location; give them as properties"));
    }
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    if authority.is_empty() || !authority.chars().all(good) || authority.chars().all(|c| c == '.') {
        return Err(Error::invalid(format!("`{authority}` is not the name of a bucket")));
    }
    Ok(authority)
}

/// `container`, or `container@account.dfs.core.windows.net` whichever service the host names.
fn azure_authority(authority: &str) -> Result<String> {
    let Some((container, host)) = authority.split_once('@') else {
        return bucket(authority).map(str::to_owned);
    };
    if container.contains(':') {
        return Err(Error::unsupported("credentials in a location; give them as properties"));
    }
    let (container, host) = (bucket(container)?, bucket(host)?.to_ascii_lowercase());
    let Some((account, service)) = host.split_once('.') else {
        return Ok(format!("{container}@{host}"));
    };
    let service = match service.strip_prefix("blob.") {
        Some(rest) => format!("dfs.{rest}"),
        None => service.to_owned(),
    };
    Ok(format!("{container}@{account}.{service}"))
}

/// Scheme, host and port in canonical form.
fn http_origin(scheme: &str, authority: &str) -> Result<String> {
    if authority.contains('@') {
        return Err(Error::unsupported("credentials in a location"));
    }
    let url = Url::parse(&format!("{scheme}://{authority}/"))
        .map_err(|e| Error::invalid(format!("`{authority}` is not a host")).with_source(e))?;
    match url.host_str() {
        Some(_) if url.path() == "/" && url.query().is_none() && url.fragment().is_none() => {
            Ok(url.as_str().trim_end_matches('/').to_owned())
        }
        _ => Err(Error::invalid(format!("`{authority}` is not a host"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn canonical(location: &str) -> String {
        Location::parse(location).unwrap().to_string()
    }

    #[test]
    fn spellings_of_one_file_are_equal() {
        for same in [
            "file:/t/x y",
            "file:///t/x y",
            "file://localhost/t/x y",
            "FILE:/t/x y",
            "/t/x y",
            "/t//./u/../x y/",
        ] {
            assert_eq!(canonical(same), "file:///t/x y", "{same}");
        }
        for same in ["s3://B/a/b", "s3a://B/a/b", "s3n://B/a/b", "S3://B/a/b/"] {
            assert_eq!(canonical(same), "s3://B/a/b", "{same}");
        }
        for same in [
            "abfs://c@acc.dfs.core.windows.net/p",
            "abfss://c@acc.dfs.core.windows.net/p",
            "wasb://c@acc.blob.core.windows.net/p",
            "wasbs://c@ACC.blob.core.windows.net/p",
        ] {
            assert_eq!(canonical(same), "abfs://c@acc.dfs.core.windows.net/p", "{same}");
        }
        assert_eq!(canonical("HTTPS://Host:443/a"), "https://host/a");
        assert_eq!(canonical("http://Host:9000/a"), "http://host:9000/a");
        assert_eq!(canonical("memory:/a"), canonical("memory:///a"));
        assert_ne!(canonical("s3://b/x"), canonical("gs://b/x"));
        assert_ne!(canonical("http://b/x"), canonical("https://b/x"));
    }

    #[test]
    fn nothing_is_decoded() {
        for name in [
            "p=a%2Fb/f",
            "p=a b/f",
            "p=100%25/f",
            "p=a#b/f",
            "p=a?b/f",
            "p=a:b/f",
            "p=ü😀/f",
            "p=%/f",
            "p=a\\b/f",
            "p=.../f",
        ] {
            for base in [
                "file:///t",
                "s3://b/t",
                "gs://b/t",
                "memory:///t",
                "http://h/t",
                "abfss://c@a.dfs.core.windows.net/t",
            ] {
                let location = Location::parse(&format!("{base}/{name}")).unwrap();
                assert_eq!(location.path(), format!("t/{name}"));
                assert_eq!(location.object_path().unwrap().as_ref(), format!("t/{name}"));
                assert_eq!(Location::parse(&location.to_string()).unwrap(), location);
            }
        }
    }

    #[test]
    fn a_colon_in_a_name_is_no_scheme() {
        let cwd = Location::parse(".").unwrap();
        for name in ["a:b/c", "p=a:/c", "s3:/x", "1s3://x", "ab:c"] {
            let location = Location::parse(name).unwrap();
            assert_eq!(location.kind(), StoreKind::File, "{name}");
            assert!(location.strip_prefix(&cwd).is_some(), "{name}: {location}");
        }
        assert_eq!(canonical("/t/p=s3://x"), "file:///t/p=s3:/x");
    }

    #[test]
    fn relative_paths_start_at_the_working_directory() {
        let cwd = std::env::current_dir().unwrap();
        assert_eq!(canonical("a/./b"), format!("file://{}/a/b", cwd.display()));
        let parent = cwd.parent().unwrap().display().to_string();
        assert_eq!(canonical("../b"), format!("file://{}/b", parent.trim_end_matches('/')));
    }

    #[test]
    fn users_give_real_urls_over_http_only() {
        let user = |s: &str| Location::from_user(s).map(|l| l.path().to_owned());
        assert_eq!(user("https://h/a%20b/%25").unwrap(), "a b/%");
        assert_eq!(user("s3://h/a%20b").unwrap(), "a%20b");
        assert_eq!(user("file:///a%20b").unwrap(), "a%20b");
        for bad in ["https://h/a?sig=x", "https://h/a#f"] {
            assert_eq!(user(bad).unwrap_err().kind(), ErrorKind::Unsupported);
        }
    }

    #[test]
    fn keys_with_empty_segments_keep_them() {
        let location = Location::parse("s3://b/t//data//f.parquet").unwrap();
        assert_eq!(location.object_path().unwrap().as_ref(), "t//data//f.parquet");
        for bad in
            ["s3://b//t/f", "s3://b/t/../f", "s3://b/t/./f", "s3://b/t/a\nb", "/t/a\nb", "s3://b/a//../f"]
        {
            let e = Location::parse(bad).unwrap().object_path().unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Unsupported, "{bad}");
        }
    }

    #[test]
    fn malformed_locations_are_errors() {
        for (bad, kind) in [
            ("hdfs://nn/x", ErrorKind::Unsupported),
            ("file://other/x", ErrorKind::Unsupported),
            ("s3:///x", ErrorKind::DataInvalid),
            ("s3://a b/x", ErrorKind::DataInvalid),
            ("s3://../x", ErrorKind::DataInvalid),
            ("s3://b?x/y", ErrorKind::DataInvalid),
            ("abfss://@a.dfs.core.windows.net/x", ErrorKind::DataInvalid),
            ("http:///x", ErrorKind::DataInvalid),
        ] {
            let e = Location::parse(bad).unwrap_err();
            assert_eq!(e.kind(), kind, "{bad}: {e}");
            assert!(e.to_string().contains(bad), "{e}");
        }
    }

    #[test]
    fn passwords_in_locations_are_refused_and_not_shown() {
        for bad in [
            "https://me:hunter2@host/x",
            "s3://AKIA:hunter2@bucket/x",
            "abfss://c:hunter2@a.dfs.core.windows.net/x",
            "http://hunter2@host/x",
        ] {
            for e in [Location::parse(bad).unwrap_err(), Location::from_user(bad).unwrap_err()] {
                assert!(!format!("{e} {e:?}").contains("hunter2"), "{e}");
            }
        }
    }

    #[test]
    fn directories_and_names() {
        let location = Location::parse("s3a://b/t/metadata/v1.metadata.json").unwrap();
        assert_eq!(location.file_name(), "v1.metadata.json");
        let table = location.parent().and_then(|p| p.parent()).unwrap();
        assert_eq!(table.to_string(), "s3://b/t");
        assert_eq!(location.strip_prefix(&table), Some("metadata/v1.metadata.json"));
        assert_eq!(table.strip_prefix(&table), Some(""));
        assert_eq!(Location::parse("s3://b/table2/x").unwrap().strip_prefix(&table), None);
        assert_eq!(Location::parse("s3://c/t/x").unwrap().strip_prefix(&table), None);
        let root = Location::parse("s3://b").unwrap();
        assert_eq!(root.parent(), None);
        assert_eq!(root.join("x"), Location::parse("s3://b/x").unwrap());
    }

    #[test]
    fn secrets_in_locations_are_not_told() {
        for location in [
            "s3://hunter2@b/t",
            "gs://a:hunter2@b/t",
            "https://hunter2@h/t",
            "abfss://c:hunter2@a.dfs.core.windows.net/t",
        ] {
            let e = Location::parse(location).map(|l| l.to_string()).map_err(|e| e.to_string());
            assert!(e.as_ref().is_err_and(|e| !e.contains("hunter2")), "{location}: {e:?}");
        }
        let kept = "abfss://c@a.dfs.core.windows.net/t";
        assert_eq!(redact(kept), kept);
    }
}
