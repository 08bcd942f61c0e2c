//! Makes the versions of tables parse, in every dialect, before the parser sees them.
//!
//! `t VERSION AS OF 'x' AS a` becomes `t AS a WITH ("…"('x'))`: every dialect parses table hints,
//! after the alias, and keeps them in the tree, from which [`super::parse`] takes them again.
//! Only the tokens of a version are touched, and only behind the name (or the alias) of a table in
//! FROM, JOIN and the like; strings, identifiers and comments are single tokens and never match.

use datafusion::error::{DataFusionError, Result};
use datafusion::sql::sqlparser::ast::Expr;
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::keywords::{Keyword, RESERVED_FOR_TABLE_ALIAS};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan, Word};

/// The function that stands for `VERSION AS OF` between the rewrite and the parsed tree.
pub(super) const VERSION_MARK: &str = "icefloe VERSION AS OF";
/// The same for `TIMESTAMP AS OF`.
pub(super) const TIMESTAMP_MARK: &str = "icefloe TIMESTAMP AS OF";

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Version,
    Timestamp,
}

/// Rewrites the versions of tables in `tokens`; the second value says whether there are any.
pub(super) fn rewrite(
    tokens: Vec<TokenWithSpan>,
    dialect: &dyn Dialect,
    recursion_limit: usize,
) -> Result<(Vec<TokenWithSpan>, bool)> {
    let solid: Vec<usize> = tokens
        .iter()
        .enumerate()
        .filter(|(_, t)| !matches!(t.token, Token::Whitespace(_)))
        .map(|(i, _)| i)
        .collect();
    let scan = Scan { tokens: &tokens, solid: &solid };
    let mut out = Vec::new();
    // The first token that is not in `out` yet.
    let mut copied = 0;
    let mut n = 0;
    while n < solid.len() {
        let Some((kind, operand)) = scan.version_at(n).filter(|_| scan.follows_a_table(n)) else {
            n += 1;
            continue;
        };
        let parser = || Parser::new(dialect).with_recursion_limit(recursion_limit);
        let (Some(clause), Some(from)) = (solid.get(n), solid.get(operand)) else {
            return Err(missing(kind, scan.solid(n)));
        };
        let length = match kind {
            Kind::Version => scan.version_operand(operand)?,
            Kind::Timestamp => {
                let mut parser = parser().with_tokens_with_locations(tail(&tokens, *from));
                let expr = parser.parse_expr().map_err(|e| DataFusionError::SQL(Box::new(e), None))?;
                if matches!(expr, Expr::Wildcard(_) | Expr::QualifiedWildcard(..)) {
                    return Err(missing(kind, scan.solid(n)));
                }
                parser.index()
            }
        };
        let end = from + length;
        let mut parser = parser().with_tokens_with_locations(tail(&tokens, end));
        // What does not parse as an alias is left where it is, for the parser to complain about.
        let alias = match parser.maybe_parse_table_alias() {
            Ok(Some(_)) => parser.index(),
            _ => 0,
        };
        let span = tokens.get(*clause).map_or(Span::empty(), |t| t.span);
        let add = |out: &mut Vec<TokenWithSpan>, token| out.push(TokenWithSpan::new(token, span));
        out.extend_from_slice(tokens.get(copied..*clause).unwrap_or_default());
        out.extend_from_slice(tokens.get(end..end + alias).unwrap_or_default());
        add(&mut out, Token::make_keyword("WITH"));
        add(&mut out, Token::LParen);
        let mark = if kind == Kind::Version { VERSION_MARK } else { TIMESTAMP_MARK };
        let value = mark.to_string();
        add(&mut out, Token::Word(Word { value, quote_style: Some('"'), keyword: Keyword::NoKeyword }));
        add(&mut out, Token::LParen);
        out.extend_from_slice(tokens.get(*from..end).unwrap_or_default());
        add(&mut out, Token::RParen);
        add(&mut out, Token::RParen);
        copied = end + alias;
        n = solid.partition_point(|i| *i < copied);
    }
    if copied == 0 {
        return Ok((tokens, false));
    }
    out.extend_from_slice(tokens.get(copied..).unwrap_or_default());
    Ok((out, true))
}

fn tail(tokens: &[TokenWithSpan], from: usize) -> Vec<TokenWithSpan> {
    tokens.get(from..).unwrap_or_default().to_vec()
}

fn missing(kind: Kind, at: Option<&TokenWithSpan>) -> DataFusionError {
    let place = at.map_or(String::new(), |t| t.span.start.to_string());
    let what = match kind {
        Kind::Version => {
            "VERSION AS OF takes the id of a snapshot, or the name of a branch or tag in single quotes"
        }
        Kind::Timestamp => "TIMESTAMP AS OF takes a constant expression",
    };
    DataFusionError::SQL(Box::new(ParserError::ParserError(format!("{what}{place}"))), None)
}

/// The tokens with the positions of those that are not white space.
struct Scan<'a> {
    tokens: &'a [TokenWithSpan],
    solid: &'a [usize],
}

impl Scan<'_> {
    fn solid(&self, n: usize) -> Option<&TokenWithSpan> {
        self.tokens.get(*self.solid.get(n)?)
    }

    fn token(&self, n: usize) -> Option<&Token> {
        self.solid(n).map(|t| &t.token)
    }

    /// Whether the word at `n` is `word`, unquoted.
    fn is(&self, n: usize, word: &str) -> bool {
        matches!(self.token(n), Some(Token::Word(w)) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
    }

    /// `[FOR] {VERSION | SYSTEM_VERSION | TIMESTAMP | SYSTEM_TIME} AS OF` at `n`, and where its
    /// operand starts.
    fn version_at(&self, n: usize) -> Option<(Kind, usize)> {
        let n = if self.is(n, "FOR") { n + 1 } else { n };
        let kind = if self.is(n, "VERSION") || self.is(n, "SYSTEM_VERSION") {
            Kind::Version
        } else if self.is(n, "TIMESTAMP") || self.is(n, "SYSTEM_TIME") {
            Kind::Timestamp
        } else {
            return None;
        };
        (self.is(n + 1, "AS") && self.is(n + 2, "OF")).then_some((kind, n + 3))
    }

    /// How many tokens the operand of VERSION AS OF at `n` takes.
    fn version_operand(&self, n: usize) -> Result<usize> {
        match self.token(n) {
            Some(Token::Number(..) | Token::SingleQuotedString(_)) => Ok(1),
            _ => Err(missing(Kind::Version, self.solid(n))),
        }
    }

    /// Whether the tokens before `n` are the name of a table, with or without an alias, where
    /// a table can stand.
    fn follows_a_table(&self, n: usize) -> bool {
        let Some(name) = self.name_before(n) else { return false };
        if self.opens_a_table(name) {
            return true;
        }
        // So far it may be the alias; it has no dots.
        if name + 1 != n {
            return false;
        }
        let alias = if name > 0 && self.is(name - 1, "AS") { name - 1 } else { name };
        self.name_before(alias).is_some_and(|table| self.opens_a_table(table))
    }

    /// The start of the dotted name that ends before `n`.
    fn name_before(&self, n: usize) -> Option<usize> {
        let mut start = n.checked_sub(1).filter(|i| self.can_be_a_name(*i))?;
        while start >= 2 && self.token(start - 1) == Some(&Token::Period) && self.is_word(start - 2) {
            start -= 2;
        }
        Some(start)
    }

    fn is_word(&self, n: usize) -> bool {
        matches!(
            self.token(n),
            Some(Token::Word(_) | Token::SingleQuotedString(_) | Token::DoubleQuotedString(_))
        )
    }

    fn can_be_a_name(&self, n: usize) -> bool {
        match self.token(n) {
            Some(Token::Word(w)) => {
                !RESERVED_FOR_TABLE_ALIAS.contains(&w.keyword) && w.keyword != Keyword::AS
            }
            _ => self.is_word(n),
        }
    }

    /// Whether a table can follow the token before `n`.
    fn opens_a_table(&self, n: usize) -> bool {
        let Some(before) = n.checked_sub(1) else { return false };
        match self.token(before) {
            Some(Token::Comma | Token::LParen) => true,
            Some(Token::Word(w)) => matches!(
                w.keyword,
                Keyword::FROM
                    | Keyword::JOIN
                    | Keyword::STRAIGHT_JOIN
                    | Keyword::APPLY
                    | Keyword::USING
                    | Keyword::INTO
                    | Keyword::UPDATE
            ),
            _ => false,
        }
    }
}
