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

    /// A number, or `default` if the property is not set.
    pub(super) fn number<T: FromStr>(&self, name: &str, default: T) -> Result<T> {
        Ok(self.opt_number(name)?.unwrap_or(default))
    }

    /// A number, if the property is set.
    pub(super) fn opt_number<T: FromStr>(&self, name: &str) -> Result<Option<T>> {
        let parse = |text: &str| text.trim().parse().map_err(|_| bad_value(name, text, "a number in range"));
        self.get(name).map(parse).transpose()
    }

    /// True or false, or `default` if the property is not set.
    pub(super) fn boolean(&self, name: &str, default: bool) -> Result<bool> {
        match self.get(name).map(str::trim) {
            None => Ok(default),
            Some(text) if text.eq_ignore_ascii_case("true") => Ok(true),
            Some(text) if text.eq_ignore_ascii_case("false") => Ok(false),
            Some(text) => Err(bad_value(name, text, "true or false")),
        }
    }
}

/// The error of a property that has the wrong value.
pub(super) fn bad_value(name: &str, value: &str, expected: impl Display) -> Error {
    Error::invalid(format!("expected {expected}, found `{value}`")).context(format!("property `{name}`"))
}
