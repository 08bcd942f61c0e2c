//! The URLs of the protocol.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use url::Url;

use crate::error::{Error, Result, ResultExt};
use crate::table::{Namespace, TableIdent};

/// All but the characters that mean nothing in any part of a URL (RFC 3986, "unreserved").
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Between the levels of a namespace, unless the server says otherwise.
pub(super) const DEFAULT_SEPARATOR: &str = "%1F";

/// Makes URLs below the server's.
#[derive(Debug, Clone)]
pub(super) struct Paths {
    /// Without a slash at its end.
    base: String,
    /// `v1` and the prefix.
    root: String,
    /// As it is written in URLs.
    separator: String,
    /// What it stands for.
    decoded: String,
}

impl Paths {
    /// The URLs of the server at `uri`, with the prefix and the separator that it configured.
    pub(super) fn new(uri: &str, prefix: Option<&str>, separator: &str) -> Result<Self> {
        let base = base(uri)?;
        let prefix = prefix.map(|p| p.trim_matches('/')).filter(|p| !p.is_empty());
        let root = prefix.map_or("v1".to_owned(), |prefix| format!("v1/{prefix}"));
        let invalid = || {
            Error::invalid("expected the separator in a URL-encoded form, such as `%1F`")
                .context("property `namespace-separator`")
        };
        let harmless =
            |c: char| c.is_ascii_graphic() && !matches!(c, '/' | '?' | '#' | '\\' | '"' | '<' | '>');
        if separator.is_empty() || !separator.chars().all(harmless) {
            return Err(invalid());
        }
        let decoded = percent_decode_str(separator).decode_utf8().map_err(|_| invalid())?.into_owned();
        Ok(Self { base, root, separator: separator.to_owned(), decoded })
    }

    /// The configuration's URL, which no prefix precedes.
    pub(super) fn config(uri: &str, warehouse: Option<&str>) -> Result<Url> {
        let query: Vec<_> = warehouse.map(|w| ("warehouse", w.to_owned())).into_iter().collect();
        url(&base(uri)?, "v1/config", &query)
    }

    /// A location that is relative to the server's unless it is a whole URL.
    pub(super) fn resolve(uri: &str, location: &str) -> Result<Url> {
        match location.starts_with("http://") || location.starts_with("https://") {
            true => Url::parse(location).map_err(|e| Error::invalid(format!("`{}`: {e}", plain(location)))),
            false => url(&base(uri)?, location.trim_start_matches('/'), &[]),
        }
    }

    fn at(&self, path: &[&str], query: &[(&str, String)]) -> Result<Url> {
        url(&self.base, &format!("{}/{}", self.root, path.join("/")), query)
    }

    fn check<'a>(&self, name: &'a str) -> Result<&'a str> {
        match name.contains(&self.decoded) {
            true => Err(Error::invalid(format!(
                "`{}` holds the character that separates the levels of namespaces in this catalog",
                name.escape_debug()
            ))),
            false => Ok(name),
        }
    }

    fn levels(&self, namespace: &Namespace) -> Result<String> {
        let levels: Vec<String> = namespace
            .levels()
            .iter()
            .map(|level| self.check(level).map(encode))
            .collect::<Result<_>>()
            .context(|| format!("namespace `{namespace}`"))?;
        segment(levels.join(&self.separator))
    }

    pub(super) fn namespaces(&self, query: &[(&str, String)]) -> Result<Url> {
        self.at(&["namespaces"], query)
    }

    /// A namespace as the value of a query parameter, before that is encoded.
    pub(super) fn parent(&self, namespace: &Namespace) -> Result<String> {
        let levels: Vec<&str> =
            namespace.levels().iter().map(|level| self.check(level)).collect::<Result<_>>()?;
        Ok(levels.join(&self.decoded))
    }

    pub(super) fn namespace(&self, namespace: &Namespace) -> Result<Url> {
        self.at(&["namespaces", &self.levels(namespace)?], &[])
    }

    /// Something in a namespace: `tables`, `views`, `properties`, `register`.
    pub(super) fn within(&self, namespace: &Namespace, what: &str, query: &[(&str, String)]) -> Result<Url> {
        self.at(&["namespaces", &self.levels(namespace)?, what], query)
    }

    pub(super) fn table(&self, table: &TableIdent, query: &[(&str, String)]) -> Result<Url> {
        self.at(&["namespaces", &self.levels(table.namespace())?, "tables", &name(table)?], query)
    }

    pub(super) fn credentials(&self, table: &TableIdent, query: &[(&str, String)]) -> Result<Url> {
        let namespace = self.levels(table.namespace())?;
        self.at(&["namespaces", &namespace, "tables", &name(table)?, "credentials"], query)
    }

    /// Something of a table: `sign`, `plan`, `tasks`, `metrics`.
    pub(super) fn of_table(&self, table: &TableIdent, what: &str) -> Result<Url> {
        let namespace = self.levels(table.namespace())?;
        self.at(&["namespaces", &namespace, "tables", &name(table)?, what], &[])
    }

    /// A plan of a scan.
    pub(super) fn plan(&self, table: &TableIdent, id: &str) -> Result<Url> {
        let namespace = self.levels(table.namespace())?;
        let id = segment(encode(id))?;
        self.at(&["namespaces", &namespace, "tables", &name(table)?, "plan", &id], &[])
    }

    pub(super) fn view(&self, view: &TableIdent) -> Result<Url> {
        self.at(&["namespaces", &self.levels(view.namespace())?, "views", &name(view)?], &[])
    }

    /// What stands beside the namespaces: `tables/rename`, `views/rename`, `transactions/commit`.
    pub(super) fn beside(&self, what: &str) -> Result<Url> {
        self.at(&[what], &[])
    }
}

fn name(ident: &TableIdent) -> Result<String> {
    segment(encode(ident.name()))
}

fn encode(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// URLs have two segments that can't be written, however they are encoded.
fn segment(text: String) -> Result<String> {
    match matches!(text.as_str(), "." | "..") {
        true => Err(Error::unsupported(format!("`{text}` as a name: no URL can hold it"))),
        false => Ok(text),
    }
}

/// A server's URL without a slash at its end.
fn base(uri: &str) -> Result<String> {
    let place = "property `uri`";
    let parsed = Url::parse(uri).map_err(|e| {
        Error::invalid(format!("expected a URL such as `https://host/path`: {e}")).context(place)
    })?;
    if !matches!(parsed.scheme(), "http" | "https") || parsed.host_str().is_none() {
        return Err(Error::invalid("expected a URL such as `https://host/path`").context(place));
    }
    if !parsed.username().is_empty() || parsed.password().is_some() {
        let message = "credentials in a URL; set `rest.auth.basic.username` and `rest.auth.basic.password`";
        return Err(Error::unsupported(message).context(place));
    }
    if parsed.query().is_some() || parsed.fragment().is_some() {
        return Err(Error::unsupported("a query or a fragment in a catalog's URL").context(place));
    }
    Ok(parsed.as_str().trim_end_matches('/').to_owned())
}

fn url(base: &str, path: &str, query: &[(&str, String)]) -> Result<Url> {
    let mut text = format!("{base}/{path}");
    for (i, (name, value)) in query.iter().enumerate() {
        text.push(if i == 0 { '?' } else { '&' });
        text.push_str(name);
        text.push('=');
        text.push_str(&encode(value));
    }
    Url::parse(&text).map_err(|e| Error::invalid(format!("`{}`: {e}", plain(&text))))
}

/// A URL for errors: without a query, which may hold anything.
fn plain(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(levels: &[&str], name: &str) -> TableIdent {
        TableIdent::new(Namespace::new(levels.iter().copied()).unwrap(), name).unwrap()
    }

    #[test]
    fn names_are_encoded_and_levels_separated() {
        let paths = Paths::new("http://h:1/api/", Some("/p/q"), DEFAULT_SEPARATOR).unwrap();
        let url = |levels: &[&str], name: &str| paths.table(&table(levels, name), &[]).unwrap().to_string();
        assert_eq!(url(&["a", "b"], "t"), "http://h:1/api/v1/p/q/namespaces/a%1Fb/tables/t");
        assert_eq!(
            url(&["a/b c"], "ü%2F?#+*'."),
            "http://h:1/api/v1/p/q/namespaces/a%2Fb%20c/tables/%C3%BC%252F%3F%23%2B%2A%27."
        );
        let query = [("snapshots", "all".to_owned()), ("x", "a&b\u{1f}".to_owned())];
        let with_query = paths.table(&table(&["a"], "t"), &query).unwrap();
        assert!(with_query.as_str().ends_with("/tables/t?snapshots=all&x=a%26b%1F"), "{with_query}");
        let no_prefix = Paths::new("https://h", None, DEFAULT_SEPARATOR).unwrap();
        assert_eq!(no_prefix.namespaces(&[]).unwrap().as_str(), "https://h/v1/namespaces");
        assert_eq!(
            Paths::config("https://h/x/", Some("s3://b/w")).unwrap().as_str(),
            "https://h/x/v1/config?warehouse=s3%3A%2F%2Fb%2Fw"
        );
    }

    #[test]
    fn the_server_names_the_separator() {
        for (separator, path, parent) in
            [("%2E", "a%2Eb", "a.b"), (".", "a.b", "a.b"), ("%1F", "a%1Fb", "a\u{1f}b")]
        {
            let paths = Paths::new("http://h", None, separator).unwrap();
            let namespace = Namespace::new(["a", "b"]).unwrap();
            assert_eq!(paths.namespace(&namespace).unwrap().path(), format!("/v1/namespaces/{path}"));
            assert_eq!(paths.parent(&namespace).unwrap(), parent);
            // A level with the separator in it would be another namespace.
            let one = Namespace::new([parent]).unwrap();
            assert!(paths.namespace(&one).is_err() && paths.parent(&one).is_err(), "{separator}");
        }
        for bad in ["", "/", "\u{1f}", "?", "%ff"] {
            assert!(Paths::new("http://h", None, bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_name_stays_one_segment() {
        let paths = Paths::new("http://h", None, DEFAULT_SEPARATOR).unwrap();
        for (levels, name) in [(&["."][..], "t"), (&[".."], "t"), (&["a"], ".."), (&["a"], ".")] {
            assert!(paths.table(&table(levels, name), &[]).is_err(), "{levels:?} {name}");
        }
        let url = paths.table(&table(&["..", "a"], "%2e%2e"), &[]).unwrap();
        assert_eq!(url.path(), "/v1/namespaces/..%1Fa/tables/%252e%252e");
    }

    #[test]
    fn a_uri_holds_no_secrets() {
        for bad in ["https://me:hunter2@h", "h:1", "ftp://h", "https://h?token=hunter2", "", "hunter2"] {
            let e = Paths::new(bad, None, DEFAULT_SEPARATOR).unwrap_err().to_string();
            assert!(e.contains("`uri`") && !e.contains("hunter2"), "{e}");
        }
    }
}
