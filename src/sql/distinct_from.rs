//! `a IS [NOT] DISTINCT FROM b AND c`: the parser takes all of `b AND c` for what `a` is compared with.
//! Parentheses around `b` make it what it says.

use datafusion::sql::sqlparser::dialect::{Dialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Puts the right sides of IS DISTINCT FROM in parentheses.
pub(super) fn bind_distinct_from(
    mut tokens: Vec<TokenWithSpan>,
    dialect: &dyn Dialect,
    recursion_limit: usize,
) -> Vec<TokenWithSpan> {
    // From the last to the first, so that those in an operand are right when it is looked at.
    for start in operands(&tokens).into_iter().rev() {
        let Some(first) = tokens.get(start) else { continue };
        let span = first.span;
        let rest = tokens.get(start..).unwrap_or_default().to_vec();
        let mut parser =
            Parser::new(dialect).with_recursion_limit(recursion_limit).with_tokens_with_locations(rest);
        // What does not parse is for the parser to complain about.
        if parser.parse_subexpr(dialect.prec_value(Precedence::Is)).is_ok() {
            tokens.insert(start + parser.index(), TokenWithSpan::new(Token::RParen, span));
            tokens.insert(start, TokenWithSpan::new(Token::LParen, span));
        }
    }
    tokens
}

/// Where the right sides begin.
fn operands(tokens: &[TokenWithSpan]) -> Vec<usize> {
    let solid: Vec<usize> = tokens
        .iter()
        .enumerate()
        .filter(|(_, token)| !matches!(token.token, Token::Whitespace(_)))
        .map(|(i, _)| i)
        .collect();
    let is = |n: usize, keyword: Keyword| {
        let token = solid.get(n).and_then(|i| tokens.get(*i)).map(|token| &token.token);
        matches!(token, Some(Token::Word(w)) if w.keyword == keyword && w.quote_style.is_none())
    };
    let operand = |n: usize| {
        let after = if is(n + 1, Keyword::NOT) { n + 2 } else { n + 1 };
        let found = is(n, Keyword::IS) && is(after, Keyword::DISTINCT) && is(after + 1, Keyword::FROM);
        solid.get(after + 2).copied().filter(|_| found)
    };
    (0..solid.len()).filter_map(operand).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    #[test]
    fn the_right_side_ends_where_it_ends() {
        for (sql, want) in [
            ("a IS DISTINCT FROM b AND c", "a IS DISTINCT FROM (b) AND c"),
            ("a IS NOT DISTINCT FROM b + 1 OR c", "a IS NOT DISTINCT FROM (b + 1) OR c"),
            ("p AND a is distinct from f(b, c) AND q", "p AND a is distinct from (f(b, c)) AND q"),
            ("a IS DISTINCT FROM (b AND c)", "a IS DISTINCT FROM ((b AND c))"),
            ("a IS DISTINCT FROM b", "a IS DISTINCT FROM (b)"),
            (
                "CASE WHEN a IS DISTINCT FROM b THEN 1 END IS NOT DISTINCT FROM c OR d",
                "CASE WHEN a IS DISTINCT FROM (b) THEN 1 END IS NOT DISTINCT FROM (c) OR d",
            ),
            (
                "a IS DISTINCT FROM (SELECT b IS DISTINCT FROM c AND d) AND e",
                "a IS DISTINCT FROM ((SELECT b IS DISTINCT FROM (c) AND d)) AND e",
            ),
            ("a IS DISTINCT FROM", "a IS DISTINCT FROM"),
            ("'IS DISTINCT FROM b AND c'", "'IS DISTINCT FROM b AND c'"),
        ] {
            let dialect = GenericDialect {};
            let tokens = Tokenizer::new(&dialect, sql).tokenize_with_location().unwrap();
            let bound = bind_distinct_from(tokens, &dialect, 50);
            let text: String = bound.iter().map(|token| token.token.to_string()).collect();
            assert_eq!(text.trim_end_matches("EOF"), want);
        }
    }
}
