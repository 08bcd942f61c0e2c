//! The dialogue.

use std::io::Write;

use datafusion::error::Result;
use rustyline::config::Configurer;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Editor};

use crate::complete::ShellHelper;
use crate::config::history_file;
use crate::input::Feeder;
use crate::output::output;
use crate::report::{describe, message};
use crate::script;
use crate::shell::Shell;

/// Reads and runs statements until the user leaves.
pub async fn run(shell: &mut Shell) -> Result<()> {
    shell.interactive = true;
    let failed = |e: ReadlineError| message(format!("the terminal can't be read: {e}"));
    let mut editor: Editor<ShellHelper, FileHistory> = Editor::new().map_err(failed)?;
    editor.set_completion_type(CompletionType::List);
    editor.set_helper(Some(ShellHelper::new(shell.context.clone())));
    let history = history_file();
    if let Some(file) = &history {
        // There is none at first.
        let _ = editor.load_history(file);
    }
    writeln!(output(), "icefloe {} (\\? for help, \\q to quit)", env!("CARGO_PKG_VERSION"))?;
    loop {
        match editor.readline("icefloe> ") {
            Ok(text) if text.trim().is_empty() => {}
            Ok(text) => {
                let _ = editor.add_history_entry(text.trim());
                match execute(shell, &text).await {
                    Ok(script::Outcome::Finished) => {}
                    Ok(script::Outcome::Quit) => break,
                    Err(error) => eprintln!("{}", describe(&error)),
                }
            }
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(failed(error)),
        }
    }
    if let Some(file) = &history {
        let saved = file.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(ReadlineError::Io);
        if let Err(error) = saved.and_then(|()| editor.save_history(file)) {
            eprintln!("the history was not saved in {}: {error}", file.display());
        }
    }
    Ok(())
}

/// Runs what was typed.
async fn execute(shell: &mut Shell, text: &str) -> Result<script::Outcome> {
    let mut feeder = Feeder::default();
    let mut items = Vec::new();
    for line in text.lines() {
        items.extend(feeder.line(line, shell.dialect()?.as_ref()));
    }
    items.extend(feeder.finish(shell.dialect()?.as_ref()));
    for item in items {
        if script::run_item(shell, &item.action).await? == script::Outcome::Quit {
            return Ok(script::Outcome::Quit);
        }
    }
    Ok(script::Outcome::Finished)
}
