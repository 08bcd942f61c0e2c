//! From the paths that metadata records to where the files are.

use crate::error::{Error, Result};
use crate::storage::{Location, StoreKey, StoreKind, split_scheme};

/// The first format version whose paths may be relative to the table's location.
const RELATIVE_PATHS_SINCE: u8 = 4;

/// How the recorded paths of one table become locations.
///
/// Without `allow_moved_paths` they are used as they are. With it, every path under the recorded
/// location of the table is looked for under the directory where the table lies now, however its
/// scheme is spelled; other paths stay as they are.
///
/// In any case the metadata, which may come from a stranger, can't reach where its own origin gives
/// no right to: a table that does not lie in the local file system can't name local files, only a
/// table that lies on a web server or locally can name files on one, and a table on a web server
/// can't name files anywhere else.
#[derive(Debug, Clone)]
pub(crate) struct Paths {
    /// The store that the metadata was read from.
    origin: StoreKey,
    /// What relative paths start at, as recorded; `None` before format version 4.
    base: Option<String>,
    moved: Option<Moved>,
}

#[derive(Debug, Clone)]
struct Moved {
    from: Recorded,
    to: Location,
}

/// The recorded location of a table.
#[derive(Debug, Clone)]
enum Recorded {
    Location(Location),
    /// In a store that is not known here, such as HDFS; without a slash at its end.
    Other(String),
}

impl Paths {
    /// `recorded` is the location in the metadata, `moved_to` the table's present directory if
    /// paths are to be re-rooted.
    pub(crate) fn new(
        format_version: u8,
        recorded: &str,
        origin: StoreKey,
        moved_to: Option<Location>,
    ) -> Self {
        let moved = moved_to.and_then(|to| {
            let from = match Location::parse(recorded) {
                Ok(location) => Recorded::Location(location),
                Err(_) => Recorded::Other(recorded.trim_end_matches('/').to_owned()),
            };
            // An empty location would make every path one of its own.
            let is_usable = match &from {
                Recorded::Location(location) => !location.path().is_empty() && *location != to,
                Recorded::Other(location) => !location.is_empty(),
            };
            is_usable.then_some(Moved { from, to })
        });
        let base = (format_version >= RELATIVE_PATHS_SINCE).then(|| recorded.to_owned());
        Self { origin, base, moved }
    }

    /// Where the file is that metadata records as `path`.
    ///
    /// # Errors
    /// Those of [`Location::parse`]; `DataInvalid` for an empty path; `Unsupported` if the table
    /// may not name the file.
    pub(crate) fn resolve(&self, path: &str) -> Result<Location> {
        if path.is_empty() {
            return Err(Error::invalid("an empty path"));
        }
        let location = self.locate(path)?;
        self.check(&location)?;
        Ok(location)
    }

    fn locate(&self, path: &str) -> Result<Location> {
        if let (Some(base), None) = (&self.base, split_scheme(path)) {
            if path.split('/').any(|segment| matches!(segment, "." | "..")) {
                return Err(Error::invalid(format!("`{path}`: a relative path with `.` or `..`")));
            }
            return match &self.moved {
                Some(moved) => Ok(moved.to.join(path)),
                None => Location::parse(&format!("{base}/{path}")),
            };
        }
        let Some(moved) = &self.moved else { return Location::parse(path) };
        match &moved.from {
            Recorded::Location(from) => {
                // A path in an unknown store is not below a location in a known one.
                let location = Location::parse(path)?;
                match location.strip_prefix(from) {
                    Some("") => Ok(moved.to.clone()),
                    Some(rest) => Ok(moved.to.join(rest)),
                    None => Ok(location),
                }
            }
            Recorded::Other(from) => match path.strip_prefix(from.as_str()) {
                Some("") => Ok(moved.to.clone()),
                Some(rest) if rest.starts_with('/') => Ok(moved.to.join(rest.trim_start_matches('/'))),
                _ => Location::parse(path),
            },
        }
    }

    fn check(&self, location: &Location) -> Result<()> {
        let reason = match (self.origin.kind(), location.kind()) {
            (StoreKind::File, _) => return Ok(()),
            (_, StoreKind::File) => "a local file",
            (StoreKind::Http, _) if *location.store() != self.origin => "a file elsewhere",
            (StoreKind::Http, _) => return Ok(()),
            (_, StoreKind::Http) => "a file on a web server",
            _ => return Ok(()),
        };
        Err(Error::unsupported(format!(
            "the metadata of a table in `{}` names {reason}, `{location}`, which it may not; \
             a table that was moved is opened with `allow_moved_paths`",
            self.origin
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn location(s: &str) -> Location {
        Location::parse(s).unwrap()
    }

    fn moved(recorded: &str, to: &str) -> Paths {
        let to = location(to);
        Paths::new(2, recorded, to.store().clone(), Some(to))
    }

    fn stays(origin: &str) -> Paths {
        Paths::new(2, "s3://b/t", location(origin).store().clone(), None)
    }

    #[test]
    fn moved_paths_in_every_spelling() {
        for recorded in ["file:/old/t", "file:///old/t", "/old/t", "file:///old/t/"] {
            let paths = moved(recorded, "/new/place");
            for path in
                ["file:/old/t/data/p=a%2Fb/f", "file:///old/t/data/p=a%2Fb/f", "/old/t/data/p=a%2Fb/f"]
            {
                assert_eq!(paths.resolve(path).unwrap().to_string(), "file:///new/place/data/p=a%2Fb/f");
            }
            // A neighbour with the same beginning, and something elsewhere.
            for other in ["file:/old/t2/f", "/older/t/f", "s3://b/old/t/f"] {
                assert_eq!(paths.resolve(other).unwrap(), location(other));
            }
        }
        let paths = moved("s3a://b/t", "gs://c/u");
        for path in ["s3://b/t/data/f", "s3a://b/t/data/f", "s3n://b/t/data/f"] {
            assert_eq!(paths.resolve(path).unwrap().to_string(), "gs://c/u/data/f");
        }
        let paths = moved("hdfs://nn:8020/wh/t", "/here");
        assert_eq!(paths.resolve("hdfs://nn:8020/wh/t/data/f").unwrap().to_string(), "file:///here/data/f");
        assert_eq!(paths.resolve("hdfs://nn:8020/wh/t2/f").unwrap_err().kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn moved_paths_can_not_climb_out_of_the_table() {
        for (recorded, path) in
            [("s3://b/t", "s3://b/t/../../etc/passwd"), ("hdfs://n/t", "hdfs://n/t/../../etc/passwd")]
        {
            let resolved = moved(recorded, "/here").resolve(path).unwrap();
            assert_eq!(resolved.object_path().unwrap_err().kind(), ErrorKind::Unsupported, "{resolved}");
        }
        let resolved = moved("/t", "/here").resolve("/t/../etc/passwd").unwrap();
        assert_eq!(resolved.to_string(), "file:///etc/passwd");
    }

    #[test]
    fn paths_stay_as_they_are_unless_asked() {
        for path in ["s3://b/t/f", "gs://c/f", "abfss://c@a.dfs.core.windows.net/f"] {
            assert_eq!(stays("s3://b").resolve(path).unwrap(), location(path));
        }
        for path in ["s3://b/t/f", "/x", "file:/x", "https://h/x", "memory:///x"] {
            assert_eq!(stays("/t").resolve(path).unwrap(), location(path));
        }
        assert_eq!(stays("https://h").resolve("https://h:443/f").unwrap(), location("https://h/f"));
    }

    #[test]
    fn metadata_can_not_reach_beyond_its_origin() {
        for (origin, path) in [
            ("s3://b", "file:///etc/passwd"),
            ("s3://b", "/etc/passwd"),
            ("s3://b", "etc/passwd"),
            ("gs://b", "file:/etc/passwd"),
            ("https://h", "/etc/passwd"),
            ("memory:///", "/etc/passwd"),
            ("s3://b", "http://169.254.169.254/latest"),
            ("https://h", "http://169.254.169.254/latest"),
            ("https://h", "http://h/x"),
            ("https://h", "s3://private/x"),
        ] {
            let e = stays(origin).resolve(path).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Unsupported);
            assert!(e.to_string().contains("passwd") || e.to_string().contains(path), "{e}");
        }
        // Nor by being moved from there.
        assert!(moved("file:///old", "s3://b/t").resolve("file:///elsewhere").is_err());
        assert!(moved("file:///old", "s3://b/t").resolve("file:///old/f").is_ok());
        assert!(moved("/", "s3://b/t").resolve("/etc/passwd").is_err());
    }

    #[test]
    fn relative_paths_since_version_four() {
        let s3 = location("s3://b/t");
        let paths = |version, recorded: &str, to: Option<&str>| {
            Paths::new(version, recorded, s3.store().clone(), to.map(location))
        };
        let resolve = |paths: Paths, path: &str| paths.resolve(path).map(|l| l.to_string());
        assert_eq!(resolve(paths(4, "s3://b/t", None), "data/f").unwrap(), "s3://b/t/data/f");
        assert_eq!(resolve(paths(4, "s3://b/t/", None), "data/f").unwrap(), "s3://b/t//data/f");
        assert_eq!(resolve(paths(4, "s3://b/t", None), "/data/f").unwrap(), "s3://b/t//data/f");
        assert_eq!(resolve(paths(4, "s3://b/t", None), "s3://c/f").unwrap(), "s3://c/f");
        assert_eq!(resolve(paths(4, "s3://b/t", Some("s3://c/u")), "data/f").unwrap(), "s3://c/u/data/f");
        assert!(resolve(paths(4, "s3://b/t", None), "../f").is_err());
        assert!(resolve(paths(3, "s3://b/t", None), "data/f").is_err());
        assert!(resolve(paths(4, "s3://b/t", None), "").is_err());
    }
}
