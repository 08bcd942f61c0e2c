//! MERGE's `UPDATE SET *` and `INSERT *`, which no dialect of the parser knows: marks are put in their
//! place, which [`super::dml`] makes the columns of the table.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use datafusion::sql::sqlparser::keywords::Keyword;

/// What stands for all columns between the tokens and the parsed tree.
pub(super) const ALL_COLUMNS: &str = "icefloe all columns";

/// Puts marks in the place of stars.
pub(super) fn mark_stars(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is = |token: &TokenWithSpan, word: Keyword| matches!(&token.token, Token::Word(w) if w.keyword == word && w.quote_style.is_none());
    let solid: Vec<usize> = tokens
        .iter()
        .enumerate()
        .filter(|(_, token)| !matches!(token.token, Token::Whitespace(_)))
        .map(|(i, _)| i)
        .collect();
    let at = |n: usize, word: Keyword| solid.get(n).and_then(|i| tokens.get(*i)).is_some_and(|t| is(t, word));
    if !(0..solid.len()).any(|n| at(n, Keyword::MERGE)) {
        return tokens;
    }
    let token = |n: usize| solid.get(n).and_then(|i| tokens.get(*i)).map(|token| &token.token);
    let ends = |n: usize| match token(n) {
        None | Some(Token::SemiColon | Token::EOF) => true,
        Some(_) => at(n, Keyword::WHEN),
    };
    let mut marks = Vec::new();
    for n in 0..solid.len() {
        if !at(n, Keyword::THEN) {
            continue;
        }
        let star = match (at(n + 1, Keyword::UPDATE) && at(n + 2, Keyword::SET), at(n + 1, Keyword::INSERT)) {
            (true, _) => (n + 3, false),
            (_, true) => (n + 2, true),
            _ => continue,
        };
        if token(star.0) == Some(&Token::Mul) && ends(star.0 + 1) {
            marks.extend(solid.get(star.0).map(|place| (*place, star.1)));
        }
    }
    let mut out = Vec::with_capacity(tokens.len() + 8 * marks.len());
    for (i, token) in tokens.into_iter().enumerate() {
        let Some((_, inserts)) = marks.iter().find(|(place, _)| *place == i) else {
            out.push(token);
            continue;
        };
        let name = Token::Word(Word {
            value: ALL_COLUMNS.to_owned(),
            quote_style: Some('"'),
            keyword: Keyword::NoKeyword,
        });
        let one = || Token::Number("1".to_owned(), false);
        let mark = match inserts {
            true => vec![
                Token::LParen,
                name,
                Token::RParen,
                Token::make_keyword("VALUES"),
                Token::LParen,
                one(),
                Token::RParen,
            ],
            false => vec![name, Token::Eq, one()],
        };
        out.extend(mark.into_iter().map(|mark| TokenWithSpan::new(mark, token.span)));
    }
    out
}
