//! Finds and reads the metadata file of a table (spec, "File System Tables").

use futures::future::{try_join, try_join_all};

use crate::error::{Error, ErrorKind, Result, ResultExt};
use crate::spec::TableMetadata;
use crate::storage::{Location, Storage};

/// The directory of a table's metadata.
pub(crate) const METADATA_DIR: &str = "metadata";
/// The file in it that names the current version.
const VERSION_HINT: &str = "version-hint.text";
/// The ends of a metadata file's name. The order is that of preference within one version.
const SUFFIXES: [&str; 3] = [".metadata.json", ".gz.metadata.json", ".metadata.json.gz"];
/// A longer name in a hint is garbage.
const MAX_NAME_LEN: usize = 255;

/// Whether a location is a metadata file, not a table's directory, by its name.
pub(crate) fn is_metadata_file(location: &Location) -> bool {
    is_metadata_name(location.file_name())
}

/// Whether a file of that name is a metadata file.
pub(crate) fn is_metadata_name(name: &str) -> bool {
    stem(name).is_some()
}

/// A metadata file's name without its end.
fn stem(name: &str) -> Option<&str> {
    // The longest end first: `v1.gz.metadata.json` ends with `.metadata.json` too.
    let ends = [".gz.metadata.json", ".metadata.json.gz", ".metadata.json"];
    ends.iter().find_map(|end| name.strip_suffix(end)).filter(|stem| !stem.is_empty())
}

/// The number in a metadata file's name: `v3` and `3` (Hadoop tables), `00003-<uuid>` (others).
fn version(stem: &str) -> Option<u64> {
    // A bare UUID may begin with eight digits.
    if stem.len() == 36 && uuid::Uuid::try_parse(stem).is_ok() {
        return None;
    }
    let digits = match stem.strip_prefix('v') {
        Some(rest) => rest,
        None => stem.split_once('-').map_or(stem, |(number, _)| number),
    };
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// The version that a metadata file of a Hadoop table has by its name: 3 for `v3.metadata.json`.
pub(crate) fn hadoop_version(location: &Location) -> Option<u64> {
    let digits = stem(location.file_name())?.strip_prefix('v')?;
    // `v03` is not what anybody looks for.
    let version: u64 = digits.parse().ok()?;
    (version.to_string() == digits).then_some(version)
}

/// The metadata files that a Hadoop table may have for a version, by every name that readers know.
pub(crate) fn hadoop_files(table: &Location, version: u64) -> [Location; 3] {
    SUFFIXES.map(|suffix| table.join(METADATA_DIR).join(&format!("v{version}{suffix}")))
}

/// Where a table's version hint lies.
pub(crate) fn version_hint(table: &Location) -> Location {
    table.join(METADATA_DIR).join(VERSION_HINT)
}

/// The number in a table's version hint; `None` if there is none that is a number.
pub(crate) async fn hinted_version(storage: &Storage, table: &Location) -> Result<Option<u64>> {
    match storage.read(&version_hint(table)).await {
        Ok(text) => Ok(match Hint::parse(&text) {
            Some(Hint::Version(version)) => Some(version),
            _ => None,
        }),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Whether the directory is that of a table: it has a metadata directory with a metadata file in it.
pub(crate) async fn is_table(storage: &Storage, directory: &Location) -> Result<bool> {
    let listed = storage.list_dir(&directory.join(METADATA_DIR)).await?;
    Ok(listed.iter().any(|entry| !entry.is_dir && stem(&entry.name).is_some()))
}

/// What `version-hint.text` says.
#[derive(Debug, PartialEq)]
enum Hint {
    /// A number, as Hadoop tables have it.
    Version(u64),
    /// A file's name or the stem of one, as DuckDB writes it.
    Name(String),
}

impl Hint {
    fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?.trim();
        if text.is_empty()
            || text.len() > MAX_NAME_LEN
            || text.contains(['/', '\\'])
            || text.contains(char::is_control)
        {
            return None;
        }
        // `v3` is what the file of version 3 is called, which may lag behind as well.
        let digits = text.strip_prefix('v').unwrap_or(text);
        if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
            return digits.parse().ok().map(Self::Version);
        }
        Some(Self::Name(text.to_owned()))
    }
}

/// The current metadata file of the table in the directory `table`.
///
/// The version hint decides; where it is missing, stale or garbage, the highest number does.
///
/// # Errors
/// `NotFound` if there is no table; `DataInvalid` if it can't be told which file is the current one.
pub(crate) async fn find_current(storage: &Storage, table: &Location) -> Result<Location> {
    let dir = table.join(METADATA_DIR);
    let hint = match storage.read(&dir.join(VERSION_HINT)).await {
        Ok(text) => Hint::parse(&text),
        Err(e) if e.kind() == ErrorKind::NotFound => None,
        Err(e) => return Err(e),
    };
    let hinted = match &hint {
        Some(Hint::Version(version)) => find_version(storage, &dir, *version).await?,
        Some(Hint::Name(name)) => find_name(storage, &dir, name).await?,
        None => None,
    };
    match hinted {
        Some(found) => Ok(found),
        None => find_highest(storage, table, &dir).await,
    }
}

/// The file of a version, or of the last one that follows it without a gap: the hint is written
/// after the commit, so it may lag behind.
async fn find_version(storage: &Storage, dir: &Location, version: u64) -> Result<Option<Location>> {
    let file = |version: u64| async move {
        let stems = [format!("v{version}"), version.to_string()];
        let found = try_join_all(stems.iter().map(|stem| find_name(storage, dir, stem))).await?;
        Ok::<_, Error>(found.into_iter().flatten().next())
    };
    let (mut next, following) = (version.saturating_add(1), file(version.saturating_add(1)));
    let (found, mut following) = try_join(file(version), following).await?;
    let Some(mut found) = found else { return Ok(None) };
    while let Some(newer) = following {
        if newer == found {
            break;
        }
        found = newer;
        next = next.saturating_add(1);
        following = file(next).await?;
    }
    Ok(Some(found))
}

/// The file with that name, or with that stem and any of the ends.
async fn find_name(storage: &Storage, dir: &Location, name: &str) -> Result<Option<Location>> {
    let names = match stem(name) {
        Some(_) => vec![name.to_owned()],
        None => SUFFIXES.iter().map(|end| format!("{name}{end}")).collect(),
    };
    let files: Vec<_> = names.iter().map(|name| dir.join(name)).collect();
    let exist = try_join_all(files.iter().map(|file| storage.may_exist(file))).await?;
    Ok(files.into_iter().zip(exist).find(|(_, exists)| *exists).map(|(file, _)| file))
}

/// The file with the highest number of all that are there.
async fn find_highest(storage: &Storage, table: &Location, dir: &Location) -> Result<Location> {
    let listed = storage.list_dir(dir).await.context(|| {
        format!(
            "table `{table}`: it has no usable {METADATA_DIR}/{VERSION_HINT}, so its metadata files must be listed; \
             if that can't be, give the location of a metadata file"
        )
    })?;
    let files: Vec<(Option<u64>, &str, &str)> = listed
        .iter()
        .filter(|entry| !entry.is_dir)
        .filter_map(|entry| stem(&entry.name).map(|stem| (version(stem), stem, entry.name.as_str())))
        .collect();
    let Some(highest) = files.iter().map(|(version, _, _)| *version).max() else {
        return Err(Error::not_found(format!(
            "no Iceberg table at `{table}`: there is neither `{dir}/{VERSION_HINT}` nor a *.metadata.json file in \
             `{dir}`; give the directory that holds `{METADATA_DIR}`, or a metadata file"
        )));
    };
    let mut best: Vec<_> = files.into_iter().filter(|(version, _, _)| *version == highest).collect();
    // Both forms of one file are the same metadata.
    best.sort_by_key(|(_, stem, name)| SUFFIXES.iter().position(|end| format!("{stem}{end}") == *name));
    match best.as_slice() {
        [] => Err(Error::not_found(format!("no metadata file in `{dir}`"))),
        [(_, first, name), rest @ ..] if rest.iter().all(|(_, stem, _)| stem == first) => Ok(dir.join(name)),
        several => {
            let names: Vec<_> = several.iter().take(5).map(|(_, _, name)| *name).collect();
            Err(Error::invalid(format!(
                "which metadata file in `{dir}` is the current one can't be told ({}{}); give the location of one",
                names.join(", "),
                if several.len() > names.len() { ", …" } else { "" },
            )))
        }
    }
}

/// Reads a metadata file, compressed or not, whatever its name says.
///
/// # Errors
/// `NotFound`, `Io`, or `DataInvalid`, each with the file's location.
pub(crate) async fn read(storage: &Storage, location: &Location) -> Result<TableMetadata> {
    let bytes = storage.read(location).await?;
    TableMetadata::from_json(&bytes).context(|| format!("metadata file `{location}`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::StorageProperties;
    use object_store::ObjectStoreExt;

    #[test]
    fn names_and_numbers() {
        for (name, expected) in [
            ("v3.metadata.json", Some(Some(3))),
            ("v3.gz.metadata.json", Some(Some(3))),
            ("v3.metadata.json.gz", Some(Some(3))),
            ("00012-4d474b7f-6a2d-495b-a6cb-624812c78369.metadata.json", Some(Some(12))),
            ("12-x.gz.metadata.json", Some(Some(12))),
            ("7.metadata.json", Some(Some(7))),
            ("12345678-1234-1234-1234-123456789012.metadata.json", Some(None)),
            ("fa24be8e-a417-40a9-9f27-c156532e7251.metadata.json", Some(None)),
            ("v.metadata.json", Some(None)),
            ("v99999999999999999999.metadata.json", Some(None)),
            ("v3x.metadata.json", Some(None)),
            (".metadata.json", None),
            ("v3.json", None),
            ("snap-1.avro", None),
        ] {
            assert_eq!(stem(name).map(version), expected, "{name}");
        }
    }

    #[test]
    fn hints() {
        assert_eq!(Hint::parse(b"3"), Some(Hint::Version(3)));
        assert_eq!(Hint::parse(b" 3\r\n"), Some(Hint::Version(3)));
        assert_eq!(Hint::parse(b"v3"), Some(Hint::Version(3)));
        assert_eq!(Hint::parse(b"v"), Some(Hint::Name("v".into())));
        assert_eq!(Hint::parse(b"00003-x\n"), Some(Hint::Name("00003-x".into())));
        for garbage in [
            &b""[..],
            b" \n",
            b"../../x",
            b"a\\b",
            b"\xff\xfe",
            b"1\n2",
            b"99999999999999999999",
            &[b'x'; 256],
        ] {
            assert_eq!(Hint::parse(garbage), None, "{garbage:?}");
        }
    }

    /// The file that a directory with these files and this hint is resolved to.
    async fn current(hint: Option<&str>, files: &[&str]) -> Result<String> {
        let storage = Storage::new(StorageProperties::new());
        let (_, store, _) = storage.store("memory:///x").unwrap();
        for (name, content) in files.iter().map(|f| (*f, "{}")).chain(hint.map(|h| (VERSION_HINT, h))) {
            let (_, _, path) = storage.store(&format!("memory:///t/metadata/{name}")).unwrap();
            store.put(&path, content.to_owned().into()).await.unwrap();
        }
        let table = Location::parse("memory:///t").unwrap();
        find_current(&storage, &table).await.map(|l| l.file_name().to_owned())
    }

    #[tokio::test]
    async fn the_hint_decides() {
        for (hint, files, expected) in [
            ("2", &["v1.metadata.json", "v2.metadata.json"][..], "v2.metadata.json"),
            ("2", &["v1.metadata.json", "v2.gz.metadata.json"], "v2.gz.metadata.json"),
            ("2", &["v2.metadata.json.gz"], "v2.metadata.json.gz"),
            // It lags behind; but not over a gap.
            ("2", &["v2.metadata.json", "v3.metadata.json", "v4.gz.metadata.json"], "v4.gz.metadata.json"),
            ("2", &["v2.metadata.json", "v4.metadata.json"], "v2.metadata.json"),
            ("7", &["7.metadata.json", "8.metadata.json"], "8.metadata.json"),
            // A name of any kind, also where a higher number is there.
            ("abc", &["abc.metadata.json", "v9.metadata.json"], "abc.metadata.json"),
            ("abc\n", &["abc.gz.metadata.json"], "abc.gz.metadata.json"),
            ("00001-x", &["00001-x.metadata.json", "00002-y.metadata.json"], "00001-x.metadata.json"),
            ("abc.metadata.json", &["abc.metadata.json", "v9.metadata.json"], "abc.metadata.json"),
        ] {
            assert_eq!(current(Some(hint), files).await.unwrap(), expected, "{hint}");
        }
    }

    #[tokio::test]
    async fn without_a_usable_hint_the_highest_number_does() {
        for hint in [
            None,
            Some(""),
            Some("garbage/\0"),
            Some("5"),
            Some("no-such-name"),
            Some("99999999999999999999"),
        ] {
            for (files, expected) in [
                (&["v2.metadata.json", "v10.metadata.json", "v9.metadata.json"][..], "v10.metadata.json"),
                (
                    &["00009-a.metadata.json", "00010-b.gz.metadata.json", "snap-99.avro"],
                    "00010-b.gz.metadata.json",
                ),
                (&["v2.metadata.json.gz", "v2.metadata.json"], "v2.metadata.json"),
                (
                    &["fa24be8e-a417-40a9-9f27-c156532e7251.metadata.json"],
                    "fa24be8e-a417-40a9-9f27-c156532e7251.metadata.json",
                ),
                (&["x.metadata.json", "v0.metadata.json"], "v0.metadata.json"),
            ] {
                assert_eq!(current(hint, files).await.unwrap(), expected, "{hint:?}");
            }
        }
    }

    #[tokio::test]
    async fn no_guess_is_made_among_equals() {
        for files in
            [&["00002-a.metadata.json", "00002-b.metadata.json"][..], &["a.metadata.json", "b.metadata.json"]]
        {
            let e = current(None, files).await.unwrap_err();
            assert_eq!(e.kind(), ErrorKind::DataInvalid);
            assert!(files.iter().all(|f| e.to_string().contains(f)), "{e}");
        }
    }

    #[tokio::test]
    async fn a_missing_table_says_where_it_was_looked_for() {
        for hint in [None, Some("1")] {
            let e = current(hint, &[]).await.unwrap_err();
            assert_eq!(e.kind(), ErrorKind::NotFound);
            assert!(e.to_string().contains("memory:///t/metadata"), "{e}");
        }
    }
}
