//! Reads the tokens of a statement one by one.

use std::collections::BTreeMap;

use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::Expr as SqlExpr;
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The place in a statement.
pub(super) struct Cursor<'a> {
    parser: Parser<'a>,
    dialect: &'a dyn Dialect,
    normalizer: IdentNormalizer,
    /// Half of a `>>`, which ends two types.
    half: bool,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(tokens: Vec<TokenWithSpan>, dialect: &'a dyn Dialect, options: &ConfigOptions) -> Self {
        let limit = options.sql_parser.recursion_limit.get();
        let parser = Parser::new(dialect).with_recursion_limit(limit).with_tokens_with_locations(tokens);
        let normalizer = IdentNormalizer::new(options.sql_parser.enable_ident_normalization);
        Self { parser, dialect, normalizer, half: false }
    }

    fn peek(&self, n: usize) -> Token {
        self.parser.peek_nth_token_ref(n).token.clone()
    }

    fn is_at(&self, n: usize, word: &str) -> bool {
        matches!(&self.peek(n), Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
    }

    /// Whether the next words are these.
    pub(super) fn is(&self, words: &str) -> bool {
        words.split(' ').enumerate().all(|(n, word)| self.is_at(n, word))
    }

    /// Goes behind these words, if they are next.
    pub(super) fn take(&mut self, words: &str) -> bool {
        let is_next = self.is(words);
        if is_next {
            for _ in words.split(' ') {
                self.parser.next_token();
            }
        }
        is_next
    }

    /// The first of these that is next, behind which it goes.
    pub(super) fn take_one<'w>(&mut self, choices: &[&'w str]) -> Option<&'w str> {
        choices.iter().copied().find(|words| self.take(words))
    }

    pub(super) fn expect(&mut self, words: &str) -> Result<()> {
        if self.take(words) { Ok(()) } else { Err(self.unexpected(words)) }
    }

    /// Goes behind a token, if it is next.
    pub(super) fn token(&mut self, token: &Token) -> bool {
        self.parser.consume_token(token)
    }

    pub(super) fn expect_token(&mut self, token: &Token) -> Result<()> {
        if self.token(token) { Ok(()) } else { Err(self.unexpected(&format!("`{token}`"))) }
    }

    pub(super) fn is_token(&self, token: &Token) -> bool {
        self.peek(0) == *token
    }

    /// The `>` that ends a type.
    pub(super) fn expect_end_of_type(&mut self) -> Result<()> {
        if std::mem::take(&mut self.half) {
            return Ok(());
        }
        if self.token(&Token::ShiftRight) {
            self.half = true;
            return Ok(());
        }
        self.expect_token(&Token::Gt)
    }

    /// Whether a type has ended whose `>` was the second half of another's.
    pub(super) fn at_end_of_type(&self) -> bool {
        self.half
    }

    pub(super) fn ident(&mut self) -> Result<String> {
        match self.peek(0) {
            Token::Word(_) => {
                let ident = self.parser.parse_identifier().map_err(parse_error)?;
                Ok(self.normalizer.normalize(ident))
            }
            _ => Err(self.unexpected("a name")),
        }
    }

    /// The parts of a dotted name.
    pub(super) fn name(&mut self) -> Result<Vec<String>> {
        let mut parts = vec![self.ident()?];
        while self.token(&Token::Period) {
            parts.push(self.ident()?);
        }
        Ok(parts)
    }

    pub(super) fn text(&mut self) -> Result<String> {
        match self.peek(0) {
            Token::SingleQuotedString(text) | Token::DoubleQuotedString(text) => {
                self.parser.next_token();
                Ok(text)
            }
            _ => Err(self.unexpected("a string in single quotes")),
        }
    }

    pub(super) fn number<T: std::str::FromStr>(&mut self) -> Result<T> {
        if let Token::Number(digits, _) = self.peek(0)
            && let Ok(number) = digits.parse()
        {
            self.parser.next_token();
            return Ok(number);
        }
        Err(self.unexpected("a number"))
    }

    /// One or more, separated by commas.
    pub(super) fn list<T>(&mut self, one: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut all = vec![one(self)?];
        while self.token(&Token::Comma) {
            all.push(one(self)?);
        }
        Ok(all)
    }

    /// One or more, separated by commas, up to a comma with another of these words behind it.
    pub(super) fn list_before<T>(
        &mut self,
        words: &[&str],
        one: impl Fn(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut all = vec![one(self)?];
        while self.is_token(&Token::Comma) && !words.iter().any(|word| self.is_at(1, word)) {
            self.token(&Token::Comma);
            all.push(one(self)?);
        }
        Ok(all)
    }

    /// One or more in parentheses.
    pub(super) fn in_parentheses<T>(&mut self, one: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.expect_token(&Token::LParen)?;
        let all = self.list(one)?;
        self.expect_token(&Token::RParen)?;
        Ok(all)
    }

    /// `('name' = 'value', …)`; names may come without quotes, and values be numbers or truth values.
    pub(super) fn properties(&mut self) -> Result<BTreeMap<String, String>> {
        let pairs = self.in_parentheses(|cursor| {
            let name = cursor.property_name()?;
            cursor.token(&Token::Eq);
            let value = match cursor.peek(0) {
                Token::Number(number, _) => {
                    cursor.parser.next_token();
                    number
                }
                Token::Minus => {
                    cursor.parser.next_token();
                    let Token::Number(number, _) = cursor.peek(0) else {
                        return Err(cursor.unexpected("a number"));
                    };
                    cursor.parser.next_token();
                    format!("-{number}")
                }
                _ if cursor.take("true") => "true".to_owned(),
                _ if cursor.take("false") => "false".to_owned(),
                _ => cursor.text()?,
            };
            Ok((name, value))
        })?;
        let mut properties = BTreeMap::new();
        for (name, value) in pairs {
            if properties.insert(name.clone(), value).is_some() {
                return Err(error(format!("the property `{name}` is there twice")));
            }
        }
        Ok(properties)
    }

    /// A name that may have dashes without quotes.
    pub(super) fn branch_name(&mut self) -> Result<String> {
        if !matches!(self.peek(0), Token::Word(_)) {
            return self.text();
        }
        let mut name = self.ident()?;
        while self.token(&Token::Minus) {
            name.push('-');
            name += &match self.peek(0) {
                Token::Number(digits, _) => {
                    self.parser.next_token();
                    digits
                }
                _ => self.ident()?,
            };
        }
        Ok(name)
    }

    pub(super) fn property_name(&mut self) -> Result<String> {
        match self.peek(0) {
            // Names of properties have dots, and are as they are in case.
            Token::Word(_) => {
                let mut name = String::new();
                loop {
                    let ident = self.parser.parse_identifier().map_err(parse_error)?;
                    name += &ident.value;
                    match self.peek(0) {
                        Token::Period => name.push('.'),
                        Token::Minus => name.push('-'),
                        _ => return Ok(name),
                    }
                    self.parser.next_token();
                }
            }
            _ => self.text(),
        }
    }

    /// The name before `=>`, if there is one.
    pub(super) fn named_argument(&mut self) -> Result<Option<String>> {
        if self.peek(1) != Token::RArrow {
            return Ok(None);
        }
        let name = self.ident()?;
        self.expect_token(&Token::RArrow)?;
        Ok(Some(name))
    }

    /// The value of a column's default. What follows it (`NOT NULL`, `COMMENT`, …) would be taken for a part
    /// of the expression.
    pub(super) fn default_value(&mut self) -> Result<SqlExpr> {
        let ends = ["not", "null", "comment", "after", "first", "primary", "default", "type", "set", "drop"];
        let (mut tokens, mut depth) = (Vec::new(), 0usize);
        loop {
            let next = self.parser.peek_nth_token_ref(tokens.len()).clone();
            let is_end =
                depth == 0 && !tokens.is_empty() && ends.iter().any(|word| self.is_at(tokens.len(), word));
            match next.token {
                Token::EOF | Token::SemiColon => break,
                Token::Comma | Token::RParen if depth == 0 => break,
                _ if is_end => break,
                Token::LParen => depth += 1,
                Token::RParen => depth = depth.saturating_sub(1),
                _ => {}
            }
            tokens.push(next);
        }
        let count = tokens.len();
        let mut parser = Parser::new(self.dialect).with_tokens_with_locations(tokens);
        let expr = parser.parse_expr().map_err(parse_error)?;
        let rest = parser.peek_token_ref();
        if rest.token != Token::EOF {
            return Err(error(format!(
                "Expected: the end of the default, found: {}{}",
                rest.token, rest.span.start
            )));
        }
        for _ in 0..count {
            self.parser.next_token();
        }
        Ok(expr)
    }

    pub(super) fn expr(&mut self) -> Result<SqlExpr> {
        self.parser.parse_expr().map_err(parse_error)
    }

    pub(super) fn next_is(&self) -> Token {
        self.peek(0)
    }

    /// How many tokens are behind.
    pub(super) fn index(&self) -> usize {
        self.parser.index()
    }

    /// The end of the statement.
    pub(super) fn end(&mut self) -> Result<()> {
        self.token(&Token::SemiColon);
        match self.peek(0) {
            Token::EOF => Ok(()),
            _ => Err(self.unexpected("the end of the statement")),
        }
    }

    pub(super) fn unexpected(&self, wanted: &str) -> DataFusionError {
        let found = self.parser.peek_token_ref();
        error(format!("Expected: {wanted}, found: {}{}", found.token, found.span.start))
    }
}

pub(super) fn error(message: String) -> DataFusionError {
    parse_error(ParserError::ParserError(message))
}

fn parse_error(e: ParserError) -> DataFusionError {
    DataFusionError::SQL(Box::new(e), None)
}
