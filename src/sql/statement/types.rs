//! The types of columns, in Spark's, Iceberg's and SQL's words.

use datafusion::error::Result;
use datafusion::sql::sqlparser::tokenizer::Token;

use super::cursor::{Cursor, error};
use crate::spec::{ListType, MapType, NestedField, PrimitiveType as P, StructType, Type};

/// How deep types may be nested.
const MAX_DEPTH: usize = 50;

/// A type. Its fields have no ids yet.
pub(super) fn parse_type(cursor: &mut Cursor<'_>) -> Result<Type> {
    at_depth(cursor, 0)
}

fn at_depth(cursor: &mut Cursor<'_>, depth: usize) -> Result<Type> {
    if depth > MAX_DEPTH {
        return Err(error(format!("types are nested more than {MAX_DEPTH} deep")));
    }
    let mut parsed = simple(cursor, depth)?;
    while cursor.token(&Token::LBracket) {
        cursor.expect_token(&Token::RBracket)?;
        parsed = Type::List(ListType::new(0, parsed, false));
    }
    Ok(parsed)
}

fn simple(cursor: &mut Cursor<'_>, depth: usize) -> Result<Type> {
    if cursor.take_one(&["array", "list"]).is_some() {
        cursor.expect_token(&Token::Lt)?;
        let element = at_depth(cursor, depth + 1)?;
        cursor.expect_end_of_type()?;
        return Ok(Type::List(ListType::new(0, element, false)));
    }
    if cursor.take("map") {
        cursor.expect_token(&Token::Lt)?;
        let key = at_depth(cursor, depth + 1)?;
        cursor.expect_token(&Token::Comma)?;
        let value = at_depth(cursor, depth + 1)?;
        cursor.expect_end_of_type()?;
        return Ok(Type::Map(MapType::new(0, key, 0, value, false)));
    }
    if cursor.take("struct") {
        cursor.expect_token(&Token::Lt)?;
        let mut fields = Vec::new();
        loop {
            fields.push(field(cursor, depth + 1)?);
            if cursor.at_end_of_type() || !cursor.token(&Token::Comma) {
                break;
            }
        }
        cursor.expect_end_of_type()?;
        return Ok(Type::Struct(StructType::new(fields)));
    }
    primitive(cursor)
}

/// `name: type [NOT NULL] [COMMENT 'text']`; the colon may be left out.
fn field(cursor: &mut Cursor<'_>, depth: usize) -> Result<NestedField> {
    let name = cursor.ident()?;
    cursor.token(&Token::Colon);
    let field_type = at_depth(cursor, depth)?;
    let mut field = NestedField::optional(0, name, field_type);
    if !cursor.at_end_of_type() {
        field.required = cursor.take("not null");
        if cursor.take("comment") {
            field.doc = Some(cursor.text()?);
        }
    }
    Ok(field)
}

fn primitive(cursor: &mut Cursor<'_>) -> Result<Type> {
    // The longer words first.
    let words = [
        ("double precision", P::Double),
        ("timestamp with time zone", P::Timestamptz),
        ("timestamp without time zone", P::Timestamp),
        ("character varying", P::String),
        ("int2", P::Int),
        ("int4", P::Int),
        ("int8", P::Long),
        ("float4", P::Float),
        ("float8", P::Double),
        ("boolean", P::Boolean),
        ("bool", P::Boolean),
        ("tinyint", P::Int),
        ("byte", P::Int),
        ("smallint", P::Int),
        ("short", P::Int),
        ("integer", P::Int),
        ("int", P::Int),
        ("bigint", P::Long),
        ("long", P::Long),
        ("real", P::Float),
        ("float", P::Float),
        ("double", P::Double),
        ("date", P::Date),
        ("time", P::Time),
        ("timestamp_ntz", P::Timestamp),
        ("timestamp_ltz", P::Timestamptz),
        ("timestamptz_ns", P::TimestamptzNs),
        ("timestamp_ns", P::TimestampNs),
        ("timestamptz", P::Timestamptz),
        ("timestamp", P::Timestamp),
        ("string", P::String),
        ("text", P::String),
        ("uuid", P::Uuid),
        ("binary", P::Binary),
        ("varbinary", P::Binary),
        ("bytea", P::Binary),
        ("blob", P::Binary),
        ("unknown", P::Unknown),
        ("void", P::Unknown),
    ];
    for (word, primitive) in words {
        if cursor.take(word) {
            if primitive == P::Timestamp && cursor.is_token(&Token::LParen) {
                let digits: Vec<u32> = cursor.in_parentheses(Cursor::number)?;
                return match digits.as_slice() {
                    [6] => Ok(P::Timestamp.into()),
                    [9] => Ok(P::TimestampNs.into()),
                    _ => Err(error("timestamps have 6 or 9 digits of a second".to_owned())),
                };
            }
            return Ok(primitive.into());
        }
    }
    if cursor.take("variant") {
        return Ok(Type::Variant);
    }
    if cursor.take_one(&["varchar", "char"]).is_some() {
        // Iceberg has no lengths of strings.
        if cursor.is_token(&Token::LParen) {
            let _: Vec<u64> = cursor.in_parentheses(Cursor::number)?;
        }
        return Ok(P::String.into());
    }
    if cursor.take_one(&["decimal", "numeric", "dec"]).is_some() {
        let sizes: Vec<u32> = match cursor.is_token(&Token::LParen) {
            true => cursor.in_parentheses(Cursor::number)?,
            false => vec![10, 0],
        };
        let name = match sizes.as_slice() {
            [precision] => format!("decimal({precision}, 0)"),
            [precision, scale] => format!("decimal({precision}, {scale})"),
            _ => return Err(cursor.unexpected("precision and scale")),
        };
        return Ok(P::parse(&name)?.into());
    }
    if cursor.take("fixed") {
        let lengths: Vec<u64> = cursor.in_parentheses(Cursor::number)?;
        let [length] = lengths.as_slice() else { return Err(cursor.unexpected("one length")) };
        return Ok(P::parse(&format!("fixed[{length}]"))?.into());
    }
    if cursor.take("geometry") {
        let crs = match cursor.is_token(&Token::LParen) {
            true => cursor.in_parentheses(Cursor::text)?.into_iter().next(),
            false => None,
        };
        return Ok(P::Geometry { crs }.into());
    }
    if cursor.take("geography") {
        let given = match cursor.is_token(&Token::LParen) {
            true => cursor.in_parentheses(Cursor::text)?,
            false => Vec::new(),
        };
        let mut given = given.into_iter();
        return Ok(P::Geography { crs: given.next(), algorithm: given.next() }.into());
    }
    Err(cursor
        .unexpected("a type of Iceberg, such as int, bigint, string, decimal(9, 2), timestamp or array<int>"))
}
