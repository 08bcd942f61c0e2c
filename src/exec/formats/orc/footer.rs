//! What the tail of a file and the footers of its stripes say (ORC specification, "File Tail",
//! "Stripe Footer").

use super::input::Compression;
use super::wire::{Message, Value};
use super::{Corrupt, Decoded};
use crate::error::{Error, Result};

/// The last bytes of the file, from which the rest is found.
#[derive(Debug, Clone)]
pub(super) struct PostScript {
    pub(super) footer_length: u64,
    pub(super) compression: Compression,
    /// Of the statistics, which lie before the footer.
    pub(super) metadata_length: u64,
    /// Which faults the writer no longer has.
    pub(super) writer_version: u64,
}

/// What the whole file holds.
#[derive(Debug, Clone, Default)]
pub(super) struct Footer {
    pub(super) stripes: Vec<Stripe>,
    /// The types of all columns; that of the rows first, children after their parents.
    pub(super) types: Vec<ColumnType>,
    pub(super) rows: u64,
    /// Which program wrote the file.
    pub(super) writer: u64,
}

/// Where a stripe lies.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Stripe {
    pub(super) offset: u64,
    pub(super) index_length: u64,
    pub(super) data_length: u64,
    pub(super) footer_length: u64,
    pub(super) rows: u64,
}

/// The type of a column.
#[derive(Debug, Clone, Default)]
pub(super) struct ColumnType {
    pub(super) kind: Kind,
    /// The columns below it.
    pub(super) children: Vec<usize>,
    /// The names of a struct's fields.
    pub(super) names: Vec<String>,
    pub(super) precision: Option<u64>,
    pub(super) scale: Option<u64>,
    /// The field id that Iceberg gave it.
    pub(super) id: Option<i32>,
}

/// Kinds of types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Kind {
    #[default]
    Boolean,
    Byte,
    Short,
    Int,
    Long,
    Float,
    Double,
    String,
    Binary,
    Timestamp,
    List,
    Map,
    Struct,
    Union,
    Decimal,
    Date,
    Varchar,
    Char,
    TimestampInstant,
    Unknown(u64),
}

/// The columns of a stripe.
#[derive(Debug, Clone, Default)]
pub(super) struct StripeFooter {
    /// In the order in which they lie in the stripe.
    pub(super) streams: Vec<Stream>,
    /// By column.
    pub(super) encodings: Vec<Encoding>,
    /// The zone of timestamps that are no points in time.
    pub(super) timezone: Option<String>,
}

/// A part of a column's data.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Stream {
    pub(super) kind: u64,
    pub(super) column: u64,
    pub(super) length: u64,
}

/// How a column is encoded.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Encoding {
    pub(super) kind: u64,
    pub(super) dictionary_size: u64,
}

impl PostScript {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self> {
        let (mut footer_length, mut codec, mut chunk) = (None, 0, 0);
        let (mut metadata_length, mut writer_version) = (0, 0);
        let mut is_orc = false;
        let mut message = Message::new(bytes);
        while let Some((field, value)) = message.next()? {
            match field {
                1 => footer_length = Some(value.number()?),
                2 => codec = value.number()?,
                3 => chunk = value.number()?,
                5 => metadata_length = value.number()?,
                6 => writer_version = value.number()?,
                8000 => is_orc = value.bytes()? == b"ORC",
                _ => {}
            }
        }
        if !is_orc {
            return Err(Error::invalid("not an orc file"));
        }
        Ok(Self {
            footer_length: footer_length.ok_or(Corrupt("orc postscript lacks the footer's length"))?,
            compression: Compression::new(codec, chunk)?,
            metadata_length,
            writer_version,
        })
    }
}

impl Footer {
    /// Parses the footer of a file in which stripes may lie up to `end`.
    pub(super) fn parse(bytes: &[u8], end: u64) -> Result<Self> {
        let mut footer = Footer::default();
        let mut message = Message::new(bytes);
        while let Some((field, value)) = message.next()? {
            match field {
                3 => footer.stripes.push(Stripe::parse(value.message()?)?),
                4 => footer.types.push(ColumnType::parse(value.message()?)?),
                6 => footer.rows = value.number()?,
                9 => footer.writer = value.number()?,
                10 => return Err(Error::unsupported("orc files with encrypted columns")),
                _ => {}
            }
        }
        footer.check_stripes(end)?;
        footer.check_types()?;
        Ok(footer)
    }

    /// Stripes follow each other and have as many rows as the file.
    fn check_stripes(&self, end: u64) -> Decoded<()> {
        const OVERLAP: Corrupt = Corrupt("orc stripes overlap or lie outside of the file");
        let (mut position, mut rows) = (0u64, 0u64);
        for stripe in &self.stripes {
            let after = [stripe.index_length, stripe.data_length, stripe.footer_length]
                .iter()
                .try_fold(stripe.offset, |sum, length| sum.checked_add(*length));
            let after = after.filter(|after| *after <= end).ok_or(OVERLAP)?;
            if stripe.offset < position {
                return Err(OVERLAP);
            }
            position = after;
            rows = rows.checked_add(stripe.rows).ok_or(OVERLAP)?;
        }
        if rows == self.rows {
            Ok(())
        } else {
            Err(Corrupt("orc stripes and file differ in the number of rows"))
        }
    }

    /// The types are a tree with the rows at its root, so that walks down it end.
    fn check_types(&self) -> Decoded<()> {
        if self.types.first().is_none_or(|root| root.kind != Kind::Struct) {
            return Err(Corrupt("orc rows are no structs"));
        }
        let mut has_parent = vec![false; self.types.len()];
        for (i, t) in self.types.iter().enumerate() {
            let expected = match t.kind {
                Kind::List => Some(1),
                Kind::Map => Some(2),
                Kind::Struct => Some(t.names.len()),
                Kind::Union | Kind::Unknown(_) => None,
                _ => Some(0),
            };
            if expected.is_some_and(|n| n != t.children.len()) {
                return Err(Corrupt("orc type has the wrong number of children"));
            }
            for child in &t.children {
                match has_parent.get_mut(*child) {
                    Some(has_parent) if !*has_parent && *child > i => *has_parent = true,
                    _ => return Err(Corrupt("orc types are no tree")),
                }
            }
        }
        Ok(())
    }
}

impl Stripe {
    fn parse(mut message: Message<'_>) -> Decoded<Self> {
        let mut stripe = Stripe::default();
        while let Some((field, value)) = message.next()? {
            match field {
                1 => stripe.offset = value.number()?,
                2 => stripe.index_length = value.number()?,
                3 => stripe.data_length = value.number()?,
                4 => stripe.footer_length = value.number()?,
                5 => stripe.rows = value.number()?,
                _ => {}
            }
        }
        Ok(stripe)
    }
}

impl ColumnType {
    fn parse(mut message: Message<'_>) -> Decoded<Self> {
        let mut t = ColumnType::default();
        let mut children = Vec::new();
        while let Some((field, value)) = message.next()? {
            match field {
                1 => t.kind = Kind::from_number(value.number()?),
                2 => value.numbers(&mut children)?,
                3 => t.names.push(value.text()?.to_owned()),
                5 => t.precision = Some(value.number()?),
                6 => t.scale = Some(value.number()?),
                7 => {
                    if let ("iceberg.id", id) = attribute(value)? {
                        t.id = Some(id.parse().map_err(|_| Corrupt("orc attribute `iceberg.id` is no id"))?);
                    }
                }
                _ => {}
            }
        }
        // An index that is too large is none of a type.
        t.children = children.into_iter().map(|c| usize::try_from(c).unwrap_or(usize::MAX)).collect();
        Ok(t)
    }
}

/// A name and its value.
fn attribute(value: Value<'_>) -> Decoded<(&str, &str)> {
    let (mut name, mut text) = ("", "");
    let mut message = value.message()?;
    while let Some((field, value)) = message.next()? {
        match field {
            1 => name = value.text()?,
            2 => text = value.text()?,
            _ => {}
        }
    }
    Ok((name, text))
}

impl Kind {
    fn from_number(number: u64) -> Self {
        match number {
            0 => Kind::Boolean,
            1 => Kind::Byte,
            2 => Kind::Short,
            3 => Kind::Int,
            4 => Kind::Long,
            5 => Kind::Float,
            6 => Kind::Double,
            7 => Kind::String,
            8 => Kind::Binary,
            9 => Kind::Timestamp,
            10 => Kind::List,
            11 => Kind::Map,
            12 => Kind::Struct,
            13 => Kind::Union,
            14 => Kind::Decimal,
            15 => Kind::Date,
            16 => Kind::Varchar,
            17 => Kind::Char,
            18 => Kind::TimestampInstant,
            other => Kind::Unknown(other),
        }
    }
}

impl StripeFooter {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self> {
        let mut footer = StripeFooter::default();
        let mut message = Message::new(bytes);
        while let Some((field, value)) = message.next()? {
            match field {
                1 => {
                    let mut stream = Stream::default();
                    let mut message = value.message()?;
                    while let Some((field, value)) = message.next()? {
                        match field {
                            1 => stream.kind = value.number()?,
                            2 => stream.column = value.number()?,
                            3 => stream.length = value.number()?,
                            _ => {}
                        }
                    }
                    footer.streams.push(stream);
                }
                2 => {
                    let mut encoding = Encoding::default();
                    let mut message = value.message()?;
                    while let Some((field, value)) = message.next()? {
                        match field {
                            1 => encoding.kind = value.number()?,
                            2 => encoding.dictionary_size = value.number()?,
                            _ => {}
                        }
                    }
                    footer.encodings.push(encoding);
                }
                3 => footer.timezone = Some(value.text()?.to_owned()),
                4 => return Err(Error::unsupported("orc files with encrypted columns")),
                _ => {}
            }
        }
        Ok(footer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message of fields that are numbers or bytes.
    fn message(fields: &[(u8, Result<u8, &[u8]>)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (field, value) in fields {
            match value {
                Ok(number) => bytes.extend([field << 3, *number]),
                Err(inner) => {
                    bytes.extend([field << 3 | 2, inner.len() as u8]);
                    bytes.extend_from_slice(inner);
                }
            }
        }
        bytes
    }

    fn types(types: &[&[u8]]) -> Result<Footer> {
        Footer::parse(&message(&types.iter().map(|t| (4, Err(*t))).collect::<Vec<_>>()), 0)
    }

    #[test]
    fn types_with_attributes() {
        let attribute = message(&[(1, Err(b"iceberg.id")), (2, Err(b"7"))]);
        let root = message(&[(1, Ok(12)), (2, Err(&[1])), (3, Err(b"a"))]);
        let footer = types(&[&root, &message(&[(1, Ok(3)), (7, Err(&attribute))])]).unwrap();
        assert_eq!((footer.types[1].kind, footer.types[1].id), (Kind::Int, Some(7)));
        assert_eq!(footer.types[0].names, ["a"]);
        let wrong = message(&[(1, Err(b"iceberg.id")), (2, Err(b"x"))]);
        assert!(types(&[&root, &message(&[(1, Ok(3)), (7, Err(&wrong))])]).is_err());
    }

    #[test]
    fn types_that_are_no_tree_are_errors() {
        let int = message(&[(1, Ok(3))]);
        let row = |children: &[u8]| {
            let names: Vec<(u8, Result<u8, &[u8]>)> = children.iter().map(|_| (3, Err(&b"a"[..]))).collect();
            message(&[&[(1, Ok(12)), (2, Err(children))], names.as_slice()].concat())
        };
        assert!(types(&[]).is_err(), "nothing");
        assert!(types(&[&int]).is_err(), "not a struct");
        assert!(types(&[&row(&[0])]).is_err(), "itself");
        assert!(types(&[&row(&[1])]).is_err(), "no such type");
        assert!(types(&[&row(&[1, 1]), &int]).is_err(), "twice");
        assert!(types(&[&row(&[1]), &row(&[0])]).is_err(), "upwards");
        assert!(types(&[&row(&[1]), &message(&[(1, Ok(10))])]).is_err(), "a list of nothing");
        assert!(types(&[&row(&[1]), &int]).is_ok());
    }

    #[test]
    fn stripes_that_overlap_are_errors() {
        let root = message(&[(1, Ok(12))]);
        let parse = |rows: u8, stripes: &[(u8, u8)]| {
            let stripes: Vec<_> = stripes
                .iter()
                .map(|(at, length)| message(&[(1, Ok(*at)), (3, Ok(*length)), (5, Ok(2))]))
                .collect();
            let mut fields: Vec<(u8, Result<u8, &[u8]>)> = stripes.iter().map(|s| (3, Err(&s[..]))).collect();
            fields.extend([(4, Err(&root[..])), (6, Ok(rows))]);
            Footer::parse(&message(&fields), 20)
        };
        assert_eq!(parse(4, &[(3, 5), (8, 12)]).unwrap().stripes.len(), 2);
        assert!(parse(4, &[(3, 5), (7, 5)]).is_err(), "overlap");
        assert!(parse(4, &[(3, 5), (8, 13)]).is_err(), "outside");
        assert!(parse(3, &[(3, 5), (8, 5)]).is_err(), "other rows");
    }

    #[test]
    fn a_postscript_says_that_it_is_one() {
        assert!(PostScript::parse(&message(&[(1, Ok(5))])).is_err());
        let magic = [0x82, 0xf4, 0x03, 3, b'O', b'R', b'C'];
        let bytes = [message(&[(1, Ok(5)), (2, Ok(1))]), magic.to_vec()].concat();
        assert_eq!(PostScript::parse(&bytes).unwrap().footer_length, 5);
        let lzo = [message(&[(1, Ok(5)), (2, Ok(3))]), magic.to_vec()].concat();
        assert!(PostScript::parse(&lzo).unwrap_err().to_string().contains("LZO"));
    }
}
