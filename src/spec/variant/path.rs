//! Paths into values: `$.a.b[0]`, `$['a b'][1]`, or just `a.b`.

use crate::error::{Error, Result};

use super::metadata::VariantMetadata;
use super::value::{VariantValue, exact_value};

/// The way to a part of a value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct VariantPath(Vec<Step>);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Step {
    Field(String),
    /// Counted from 0.
    Element(usize),
}

impl VariantPath {
    /// Reads a path. `$`, the value itself, may be left out before a field's name; names in
    /// brackets are quoted, with `\` before a quote in them.
    ///
    /// # Errors
    /// `DataInvalid` for what is no path.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let wrong = || Error::invalid(format!("`{text}` is no path into a variant, such as `$.a.b[0]`"));
        let mut steps = Vec::new();
        let mut rest = match text.strip_prefix('$') {
            Some(rest) if rest.is_empty() || rest.starts_with(['.', '[']) => rest,
            _ if text.starts_with(['.', '[']) || text.is_empty() => return Err(wrong()),
            _ => {
                let (name, rest) = name(text);
                steps.push(Step::Field(name.to_owned()));
                rest
            }
        };
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix('.') {
                let (name, after) = name(after);
                if name.is_empty() {
                    return Err(wrong());
                }
                steps.push(Step::Field(name.to_owned()));
                rest = after;
            } else {
                let inner = rest.strip_prefix('[').ok_or_else(wrong)?;
                let (step, after) = match inner.chars().next() {
                    Some(quote @ ('\'' | '"')) => quoted(inner.get(1..).ok_or_else(wrong)?, quote),
                    _ => element(inner),
                }
                .ok_or_else(wrong)?;
                steps.push(step);
                rest = after.strip_prefix(']').ok_or_else(wrong)?;
            }
        }
        Ok(Self(steps))
    }

    /// The bytes of the part of a value that the path leads to; `None` where there is none.
    ///
    /// # Errors
    /// `DataInvalid` for a malformed value.
    pub(crate) fn find<'v>(
        &self,
        metadata: &VariantMetadata<'_>,
        value: &'v [u8],
    ) -> Result<Option<&'v [u8]>> {
        let mut at = value;
        for step in &self.0 {
            let next = match (step, VariantValue::read(at)?) {
                (Step::Field(name), VariantValue::Object(object)) => object.field(name, metadata)?,
                (Step::Element(index), VariantValue::Array(elements)) => elements.get(*index)?,
                _ => None,
            };
            let Some(next) = next else { return Ok(None) };
            at = next;
        }
        exact_value(at).map(Some)
    }
}

/// A name up to the next step.
fn name(text: &str) -> (&str, &str) {
    text.split_at(text.find(['.', '[']).unwrap_or(text.len()))
}

fn element(text: &str) -> Option<(Step, &str)> {
    let (digits, rest) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    Some((Step::Element(digits.parse().ok()?), rest))
}

fn quoted(text: &str, quote: char) -> Option<(Step, &str)> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.push(chars.next()?.1),
            c if c == quote => return Some((Step::Field(name), text.get(at + 1..)?)),
            c => name.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet_variant::VariantBuilder;

    fn steps(text: &str) -> Vec<Step> {
        VariantPath::parse(text).unwrap().0
    }

    fn field(name: &str) -> Step {
        Step::Field(name.to_owned())
    }

    #[test]
    fn spellings() {
        assert_eq!(steps("$"), []);
        assert_eq!(steps("a"), [field("a")]);
        for same in ["$.a.b[0]", "a.b[0]", "$['a'][\"b\"][0]", "a['b'][00]"] {
            assert_eq!(steps(same), [field("a"), field("b"), Step::Element(0)], "{same}");
        }
        assert_eq!(steps("$[3]['it\\'s']"), [Step::Element(3), field("it's")]);
        assert_eq!(steps("$['']"), [field("")]);
        assert_eq!(steps("$price"), [field("$price")]);
        assert_eq!(steps("$.ü €"), [field("ü €")]);
        for wrong in
            ["", ".a", "[0]", "$.", "$..a", "a.", "$[", "$[a]", "$[-1]", "$[0", "$['a]", "$[0]b", "$[]"]
        {
            let error = VariantPath::parse(wrong).unwrap_err().to_string();
            assert!(error.contains(&format!("`{wrong}`")), "{error}");
        }
        assert!(VariantPath::parse("$[99999999999999999999]").is_err());
    }

    #[test]
    fn finds_parts_without_what_follows_them() {
        let mut builder = VariantBuilder::new();
        let mut object = builder.new_object();
        let mut list = object.new_list("a");
        list.append_value(1_i8);
        list.append_value("x");
        list.finish();
        object.insert("b", 2_i8);
        object.finish();
        let (metadata, value) = builder.finish();
        let metadata = VariantMetadata::parse(&metadata).unwrap();
        let find = |path: &str| VariantPath::parse(path).unwrap().find(&metadata, &value).unwrap();
        assert_eq!(find("$"), Some(&value[..]));
        assert_eq!(find("a[0]"), Some(&[0x0c, 1][..]));
        assert_eq!(find("a[1]"), Some(&[0x05, b'x'][..]));
        assert_eq!(find("b"), Some(&[0x0c, 2][..]));
        for missing in ["c", "a[2]", "a.b", "b[0]", "b.c", "$[0]"] {
            assert_eq!(find(missing), None, "{missing}");
        }
        let cut = &value[..value.len() - 1];
        assert!(VariantPath::parse("b").unwrap().find(&metadata, cut).is_err());
    }
}
