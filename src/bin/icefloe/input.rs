//! Cutting what comes in line by line into statements and commands.

use datafusion::sql::sqlparser::dialect::Dialect;
use icefloe::sql::split;

/// One thing to do.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// What it is.
    pub action: Action,
    /// The line it starts on, from 1.
    pub line: usize,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// A statement, without its semicolon.
    Sql(String),
    /// A line that starts with a backslash.
    Command(String),
}

/// Collects lines until they are whole statements.
#[derive(Debug, Default)]
pub struct Feeder {
    buffer: String,
    /// Lines seen so far.
    lines: usize,
    /// The line that `buffer` starts on.
    start: usize,
}

impl Feeder {
    /// Takes the next line, with or without its line end, and gives what is whole by now.
    pub fn line(&mut self, line: &str, dialect: &dyn Dialect) -> Vec<Item> {
        self.lines += 1;
        let line = if self.lines == 1 { line.trim_start_matches('\u{feff}') } else { line };
        if self.lines == 1 && line.starts_with("#!") {
            return Vec::new();
        }
        if self.buffer.is_empty() {
            self.start = self.lines;
            let trimmed = line.trim();
            if trimmed.starts_with('\\') {
                return vec![Item { action: Action::Command(trimmed.to_string()), line: self.lines }];
            }
            if trimmed.is_empty() {
                return Vec::new();
            }
        }
        self.buffer.push_str(line.trim_end_matches(['\n', '\r']));
        self.buffer.push('\n');
        // Only a semicolon makes anything whole, and only blank text can be dropped.
        let worth_a_look = line.contains(';') || line.trim_start().starts_with("--") || line.contains("*/");
        if worth_a_look { self.take(dialect) } else { Vec::new() }
    }

    /// Gives what is left at the end of the input.
    pub fn finish(mut self, dialect: &dyn Dialect) -> Vec<Item> {
        let mut items = self.take(dialect);
        if !self.buffer.is_empty() && !split(&self.buffer, dialect).rest_is_blank {
            items.push(self.item(self.buffer.trim()));
        }
        items
    }

    /// Whether a statement has begun.
    #[cfg(test)]
    fn is_pending(&self) -> bool {
        !self.buffer.is_empty()
    }

    fn take(&mut self, dialect: &dyn Dialect) -> Vec<Item> {
        let cut = split(&self.buffer, dialect);
        let items: Vec<_> = cut.statements.iter().map(|s| self.item(s)).collect();
        let rest = if cut.rest_is_blank { "" } else { cut.rest };
        if rest.len() < self.buffer.len() {
            let gone = self.buffer.len() - rest.len();
            self.start += newlines(self.buffer.get(..gone).unwrap_or_default());
            self.buffer = rest.to_string();
        }
        items
    }

    /// `statement` is a part of the buffer.
    fn item(&self, statement: &str) -> Item {
        let before = statement.as_ptr().addr().saturating_sub(self.buffer.as_ptr().addr());
        let line = self.start + newlines(self.buffer.get(..before).unwrap_or_default());
        Item { action: Action::Sql(statement.to_string()), line }
    }
}

fn newlines(text: &str) -> usize {
    text.bytes().filter(|b| *b == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::GenericDialect;

    fn feed(text: &str) -> Vec<(usize, String)> {
        let mut feeder = Feeder::default();
        let mut items = Vec::new();
        for line in text.lines() {
            items.extend(feeder.line(line, &GenericDialect));
        }
        items.extend(feeder.finish(&GenericDialect));
        items
            .into_iter()
            .map(|i| match i.action {
                Action::Sql(sql) => (i.line, sql),
                Action::Command(command) => (i.line, format!("command {command}")),
            })
            .collect()
    }

    #[test]
    fn statements_with_their_lines() {
        assert_eq!(
            feed("SELECT 1; SELECT\n 2;\n\n-- three;\nSELECT 3; SELECT '4;\n4'"),
            [
                (1, "SELECT 1".to_string()),
                (1, "SELECT\n 2".to_string()),
                (5, "SELECT 3".to_string()),
                (5, "SELECT '4;\n4'".to_string()),
            ]
        );
    }

    #[test]
    fn commands_stand_between_statements() {
        assert_eq!(
            feed("\u{feff}#!/usr/bin/env icefloe\n\\pset format csv\n/* hello */\n  \\d t\nSELECT 1;\n\\q"),
            [
                (2, "command \\pset format csv".to_string()),
                (4, "command \\d t".to_string()),
                (5, "SELECT 1".to_string()),
                (6, "command \\q".to_string()),
            ]
        );
        assert_eq!(feed("SELECT '\n\\q\n';"), [(1, "SELECT '\n\\q\n'".to_string())]);
    }

    #[test]
    fn a_statement_is_given_as_soon_as_it_is_whole() {
        let mut feeder = Feeder::default();
        assert!(feeder.line("SELECT 1\n", &GenericDialect).is_empty());
        assert!(feeder.is_pending());
        assert_eq!(feeder.line("+ 1; -- done\r\n", &GenericDialect).len(), 1);
        assert!(!feeder.is_pending());
        assert!(feeder.finish(&GenericDialect).is_empty());
    }

    #[test]
    fn nothing_comes_from_nothing() {
        assert!(feed("").is_empty());
        assert!(feed("\n;\n -- c\n/* d\n */ ;;\n").is_empty());
    }
}
