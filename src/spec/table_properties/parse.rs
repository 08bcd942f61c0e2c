//! Values of properties.

use std::fmt::Display;
use std::str::FromStr;

use crate::error::{Error, Result};

use super::TableProperties;

impl<'a> TableProperties<'a> {
    /// The value of a property, as it is written.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.map.get(name).map(String::as_str)
    }

    /// The properties whose names begin with `prefix`: the rest of the name, and the whole.
    pub(super) fn under<'b>(
        &self,
        prefix: &'b str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a, 'b> {
        self.map.keys().filter_map(move |name| Some((name.strip_prefix(prefix)?, name.as_str())))
    }

    /// A location without slashes at its end, if the property is set. An empty one would be the root of
    /// the machine.
    pub(in crate::spec) fn location(&self, name: &str) -> Result<Option<&'a str>> {
        match self.get(name) {
            Some(text) if text.trim().is_empty() => Err(bad_value(name, text, "a location")),
            text => Ok(text.map(without_slashes)),
        }
    }

    /// A number, or `default` if the property is not set.
    pub(super) fn number<T: FromStr>(&self, name: &str, default: T) -> Result<T> {
        Ok(self.opt_number(name)?.unwrap_or(default))
    }

    /// A number, if the property is set.
    pub(super) fn opt_number<T: FromStr>(&self, name: &str) -> Result<Option<T>> {
        let parse = |text: &str| text.trim().parse().map_err(|_| bad_value(name, text, "a number in range"));
        self.get(name).map(parse).transpose()
    }

    /// A number above 0.
    pub(super) fn positive(&self, name: &str, default: u64) -> Result<u64> {
        match self.number(name, default)? {
            0 => Err(bad_value(name, "0", "a number above 0")),
            n => Ok(n),
        }
    }

    /// A number above 0.
    pub(super) fn positive_usize(&self, name: &str, default: usize) -> Result<usize> {
        match self.number(name, default)? {
            0 => Err(bad_value(name, "0", "a number above 0")),
            n => Ok(n),
        }
    }

    /// A number of at least 0 that fits a signed one.
    pub(super) fn not_negative(&self, name: &str, default: i64) -> Result<i64> {
        match self.number(name, default)? {
            n if n < 0 => Err(bad_value(name, &n.to_string(), "a number of at least 0")),
            n => Ok(n),
        }
    }

    /// True or false, or `default` if the property is not set.
    pub(super) fn boolean(&self, name: &str, default: bool) -> Result<bool> {
        self.one_of(name, &[("true", true), ("false", false)], default)
    }

    /// One of several words, in any case; `default` if the property is not set.
    pub(super) fn one_of<T: Copy>(&self, name: &str, words: &[(&str, T)], default: T) -> Result<T> {
        let Some(text) = self.get(name) else { return Ok(default) };
        let found = words.iter().find(|(word, _)| word.eq_ignore_ascii_case(text.trim()));
        found.map(|(_, value)| *value).ok_or_else(|| {
            let words: Vec<String> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
            bad_value(name, text, format!("one of {}", words.join(", ")))
        })
    }
}

/// The error of a property that has the wrong value.
pub(super) fn bad_value(name: &str, value: &str, expected: impl Display) -> Error {
    wrong(name, Error::invalid(format!("expected {expected}, found `{value}`")))
}

/// A location without slashes at its end; those of `scheme://` stay.
pub(in crate::spec) fn without_slashes(location: &str) -> &str {
    let mut rest = location;
    while let Some(shorter) = rest.strip_suffix('/').filter(|_| !rest.ends_with("://")) {
        rest = shorter;
    }
    rest
}

/// An error of a property.
pub(super) fn wrong(name: &str, error: Error) -> Error {
    error.context(format!("property `{name}`"))
}
