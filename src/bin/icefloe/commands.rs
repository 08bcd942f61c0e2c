//! Commands: lines that start with a backslash.

use std::io::Write;
use std::str::FromStr;

use clap::ValueEnum;
use datafusion::error::Result;

use crate::args::{Format, MaxRows};
use crate::output::output;
use crate::report::message;
use crate::shell::Shell;

/// What `\?` prints; the completion offers the first words.
pub const COMMANDS: &[(&str, &str)] = &[
    ("\\?", "this list"),
    ("\\d", "list the tables"),
    ("\\d NAME", "describe a table"),
    ("\\h", "list the functions"),
    ("\\h NAME", "describe the functions with this name"),
    ("\\pset", "show how results are printed"),
    ("\\pset format NAME", "table, csv, tsv, json, nd-json or automatic"),
    ("\\pset maxrows N", "how many rows of a table are shown: a number or inf"),
    ("\\quiet [on|off]", "print no row counts and times, or do"),
    ("\\timing [on|off]", "print row counts and times, or don't"),
    ("\\i FILE", "run a script"),
    ("\\q", "quit"),
];

/// A parsed command.
#[derive(Debug, PartialEq)]
pub enum Command {
    /// Print the list of commands.
    Help,
    /// Leave.
    Quit,
    /// Run a statement instead.
    Sql(String),
    /// Run a script.
    Include(String),
    /// Show how results are printed.
    ShowPrinting,
    /// Change the format.
    Format(Format),
    /// Change how many rows are shown.
    MaxRows(MaxRows),
    /// Set quiet mode, or flip it.
    Quiet(Option<bool>),
}

impl FromStr for Command {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let line = line.trim().trim_end_matches(';').trim_end();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        let text = |text: &str| format!("'{}'", text.replace('\'', "''"));
        Ok(match (word, rest) {
            ("\\?" | "\\help", "") => Self::Help,
            ("\\q" | "\\quit", "") => Self::Quit,
            ("\\d" | "\\dt" | "\\l", "") => Self::Sql(
                "SELECT table_catalog, table_schema, table_name, table_type FROM information_schema.tables \
                 WHERE table_schema <> 'information_schema' ORDER BY 1, 2, 3"
                    .to_string(),
            ),
            ("\\d", name) => Self::Sql(format!("DESCRIBE {name}")),
            ("\\h", "") => {
                let sql = "SELECT DISTINCT routine_name, function_type FROM information_schema.routines ORDER BY 1, 2";
                Self::Sql(sql.to_string())
            }
            ("\\h", name) => Self::Sql(format!("SHOW FUNCTIONS LIKE {}", text(name))),
            ("\\i", file) if !file.is_empty() => Self::Include(file.to_string()),
            ("\\quiet", flag) => Self::Quiet(switch(flag)?),
            ("\\timing", flag) => Self::Quiet(switch(flag)?.map(|on| !on)),
            ("\\pset", "") => Self::ShowPrinting,
            ("\\pset", setting) => {
                match setting.split_once(char::is_whitespace).map(|(k, v)| (k, v.trim())) {
                    Some(("format", name)) => Self::Format(Format::from_str(name, true)?),
                    Some(("maxrows", number)) => Self::MaxRows(number.parse()?),
                    _ => return Err(format!("`\\pset {setting}`: expected `format NAME` or `maxrows N`")),
                }
            }
            _ => return Err(format!("`{line}` is no command; \\? lists them")),
        })
    }
}

fn switch(flag: &str) -> Result<Option<bool>, String> {
    match flag.to_ascii_lowercase().as_str() {
        "" => Ok(None),
        "on" | "true" => Ok(Some(true)),
        "off" | "false" => Ok(Some(false)),
        _ => Err(format!("`{flag}` is neither on nor off")),
    }
}

/// What to do after a command.
#[derive(Debug, PartialEq)]
pub enum Next {
    /// Go on.
    Continue,
    /// Leave.
    Quit,
    /// Run this statement.
    Sql(String),
    /// Run the script in this file.
    Include(String),
}

/// Does what the command says, or says what is to be done.
pub fn run(line: &str, shell: &mut Shell) -> Result<Next> {
    let printing = &mut shell.printing;
    match line.parse::<Command>().map_err(message)? {
        Command::Help => {
            for (command, what) in COMMANDS {
                writeln!(output(), "{command:<22}{what}")?;
            }
        }
        Command::Quit => return Ok(Next::Quit),
        Command::Sql(sql) => return Ok(Next::Sql(sql)),
        Command::Include(file) => return Ok(Next::Include(file)),
        Command::ShowPrinting => {
            let rows = match printing.maxrows.0 {
                usize::MAX => "inf".to_string(),
                rows => rows.to_string(),
            };
            writeln!(
                output(),
                "format {}, maxrows {rows}, quiet {}",
                printing.format.name(),
                printing.quiet
            )?;
        }
        Command::Format(format) => printing.format = format,
        Command::MaxRows(rows) => printing.maxrows = rows,
        Command::Quiet(quiet) => {
            printing.quiet = quiet.unwrap_or(!printing.quiet);
            writeln!(output(), "Quiet mode is {}.", if printing.quiet { "on" } else { "off" })?;
        }
    }
    Ok(Next::Continue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_recognised() {
        let sql = |s: &str| Command::Sql(s.to_string());
        for (line, want) in [
            ("\\?", Command::Help),
            ("\\q ;", Command::Quit),
            ("\\quit", Command::Quit),
            ("\\d  a.\"B\" ", sql("DESCRIBE a.\"B\"")),
            ("\\h it's", sql("SHOW FUNCTIONS LIKE 'it''s'")),
            ("\\pset", Command::ShowPrinting),
            ("\\pset format  CSV", Command::Format(Format::Csv)),
            ("\\pset maxrows 7", Command::MaxRows(MaxRows(7))),
            ("\\quiet", Command::Quiet(None)),
            ("\\quiet on", Command::Quiet(Some(true))),
            ("\\timing on", Command::Quiet(Some(false))),
            ("\\i a b.sql", Command::Include("a b.sql".into())),
        ] {
            assert_eq!(line.parse(), Ok(want), "{line}");
        }
        for line in ["\\x", "\\", "\\i", "\\quiet perhaps", "\\pset format xml", "\\pset width 5", "\\q now"]
        {
            assert!(line.parse::<Command>().is_err(), "{line}");
        }
    }

    #[test]
    fn the_list_holds_commands_only() {
        for (command, _) in COMMANDS {
            let line =
                command.replace("[on|off]", "on").replace("format NAME", "format csv").replace(" N", " 1");
            assert!(line.parse::<Command>().is_ok(), "{line}");
        }
    }
}
