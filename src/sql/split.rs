//! Cutting a text into its statements.

use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer, Whitespace};

/// A text, cut at the semicolons that are not inside a string, an identifier or a comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split<'a> {
    /// The statements that a semicolon ends, without it; empty ones are left out.
    pub statements: Vec<&'a str>,
    /// What follows the last semicolon: an unfinished statement, comments or nothing.
    pub rest: &'a str,
    /// Whether `rest` holds nothing but spaces and comments.
    pub rest_is_blank: bool,
}

/// Cuts `sql` into its statements, in the words of `dialect`.
///
/// A text that can't be tokenised (a string without its end, say) is cut up to that place; what
/// follows is in [`Split::rest`], where parsing it gives the error.
pub fn split<'a>(sql: &'a str, dialect: &dyn Dialect) -> Split<'a> {
    let mut tokens = Vec::new();
    let whole = Tokenizer::new(dialect, sql).tokenize_with_location_into_buf(&mut tokens).is_ok();
    let mut offsets = Offsets::new(sql);
    let mut statements = Vec::new();
    let mut start = 0;
    let mut blank = true;
    for TokenWithSpan { token, span } in &tokens {
        match token {
            Token::SemiColon => {
                let at = offsets.of(span.start);
                if !blank {
                    statements.push(sql.get(start..at).unwrap_or_default().trim());
                }
                start = at + 1;
                blank = true;
            }
            token => blank &= is_blank(token),
        }
    }
    let rest = sql.get(start..).unwrap_or_default();
    Split { statements, rest, rest_is_blank: whole && blank }
}

fn is_blank(token: &Token) -> bool {
    matches!(
        token,
        Token::EOF
            | Token::Whitespace(
                Whitespace::Space
                    | Whitespace::Newline
                    | Whitespace::Tab
                    | Whitespace::SingleLineComment { .. }
                    | Whitespace::MultiLineComment(_)
            )
    )
}

/// Turns growing lines and columns (both from 1, columns in characters) into byte offsets.
struct Offsets<'a> {
    sql: &'a str,
    offset: usize,
    at: Location,
}

impl<'a> Offsets<'a> {
    fn new(sql: &'a str) -> Self {
        Self { sql, offset: 0, at: Location::new(1, 1) }
    }

    fn of(&mut self, location: Location) -> usize {
        let rest = self.sql.get(self.offset..).unwrap_or_default();
        for c in rest.chars() {
            if self.at >= location {
                break;
            }
            self.offset += c.len_utf8();
            self.at = match c {
                '\n' => Location::new(self.at.line + 1, 1),
                _ => Location::new(self.at.line, self.at.column + 1),
            };
        }
        self.offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::{GenericDialect, MySqlDialect, PostgreSqlDialect};
    use proptest::prelude::*;

    fn cut(sql: &str) -> (Vec<&str>, &str, bool) {
        let s = split(sql, &GenericDialect);
        (s.statements, s.rest, s.rest_is_blank)
    }

    #[test]
    fn semicolons_end_statements() {
        assert_eq!(cut("SELECT 1; SELECT 2 ;\n"), (vec!["SELECT 1", "SELECT 2"], "\n", true));
        assert_eq!(cut("SELECT 1"), (vec![], "SELECT 1", false));
        assert_eq!(cut(";;\n ; SELECT 1;x"), (vec!["SELECT 1"], "x", false));
        assert_eq!(cut(""), (vec![], "", true));
    }

    #[test]
    fn semicolons_inside_something_do_not() {
        assert_eq!(
            cut("SELECT ';' AS \"a;b\", `c;d` -- x;y\n, 1;").0,
            ["SELECT ';' AS \"a;b\", `c;d` -- x;y\n, 1"]
        );
        assert_eq!(cut("SELECT /* a; /* b; */ c; */ 1; ").0, ["SELECT /* a; /* b; */ c; */ 1"]);
        assert_eq!(cut("SELECT 'it''s; so'; ").0, ["SELECT 'it''s; so'"]);
        let s = split("SELECT $$a;b$$; SELECT $x$;$$;$x$;", &PostgreSqlDialect {});
        assert_eq!(s.statements, ["SELECT $$a;b$$", "SELECT $x$;$$;$x$"]);
        let s = split("SELECT \"a\\\";\" # b;\n;", &MySqlDialect {});
        assert_eq!(s.statements, ["SELECT \"a\\\";\" # b;"]);
    }

    #[test]
    fn comments_alone_are_no_statement() {
        assert_eq!(cut("-- a;\n/* b; */ ; -- c"), (vec![], " -- c", true));
    }

    #[test]
    fn what_can_not_be_tokenised_stays_in_the_rest() {
        assert_eq!(cut("SELECT 1; SELECT 'a; b"), (vec!["SELECT 1"], " SELECT 'a; b", false));
        assert_eq!(cut("SELECT 1; /* a"), (vec!["SELECT 1"], " /* a", false));
    }

    #[test]
    fn other_alphabets_and_line_ends() {
        assert_eq!(cut("SELECT 'ä€😀';\r\nSELECT 'ß';SELECT 3").0, ["SELECT 'ä€😀'", "SELECT 'ß'"]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost(sql in "[a-c ;'\"\\-\n/*ä$]{0,40}") {
            let s = split(&sql, &GenericDialect);
            prop_assert!(sql.ends_with(s.rest));
            let mut from = 0;
            for statement in s.statements {
                let at = sql[from..].find(statement);
                prop_assert!(at.is_some());
                from += at.unwrap() + statement.len();
            }
        }

        #[test]
        fn a_rest_that_is_not_blank_starts_no_later_than_the_last_semicolon(parts in prop::collection::vec("[a-z]{1,5}|'[;a-z]{0,5}'", 0..6)) {
            let sql = parts.iter().map(|p| format!("SELECT {p};")).collect::<String>();
            let s = split(&sql, &GenericDialect);
            prop_assert_eq!(s.statements.len(), parts.len());
            prop_assert!(s.rest_is_blank);
        }
    }
}
