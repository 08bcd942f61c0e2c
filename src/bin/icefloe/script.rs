//! Running scripts: `-c`, `-f`, `\i` and standard input.

use std::io::BufRead;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::error::{DataFusionError, Result};
use tokio::sync::Notify;

use crate::commands::{self, Next};
use crate::input::{Action, Feeder};
use crate::report::{describe, message};
use crate::shell::Shell;

/// Why a script is over.
#[derive(Debug, PartialEq)]
pub enum Outcome {
    /// All of it ran.
    Finished,
    /// It asked to leave.
    Quit,
}

/// Where the statements come from, for messages.
#[derive(Clone, Copy)]
pub enum Origin<'a> {
    /// The command line.
    Argument,
    /// A file.
    File(&'a Path),
    /// Standard input.
    Stdin,
}

/// Runs the statements and commands of `lines` in order, up to the first that fails.
pub async fn run(shell: &mut Shell, mut lines: impl BufRead, origin: Origin<'_>) -> Result<Outcome> {
    let mut feeder = Feeder::default();
    loop {
        let mut line = String::new();
        let place = |e: std::io::Error| match origin {
            Origin::File(path) => message(format!("{}: {e}", path.display())),
            _ => message(format!("standard input: {e}")),
        };
        let end = lines.read_line(&mut line).map_err(place)? == 0;
        let dialect = shell.dialect()?;
        let items = match end {
            true => std::mem::take(&mut feeder).finish(dialect.as_ref()),
            false => feeder.line(&line, dialect.as_ref()),
        };
        for item in items {
            match run_item(shell, &item.action).await {
                Ok(Outcome::Finished) => {}
                Ok(Outcome::Quit) => return Ok(Outcome::Quit),
                Err(error) => return Err(at(error, origin, item.line)),
            }
        }
        if end {
            return Ok(Outcome::Finished);
        }
    }
}

/// Adds the place in the script to an error.
fn at(error: DataFusionError, origin: Origin<'_>, line: usize) -> DataFusionError {
    let text = describe(&error);
    match origin {
        Origin::Argument => error,
        Origin::File(path) => message(format!("{}:{line}: {text}", path.display())),
        Origin::Stdin => message(format!("line {line}: {text}")),
    }
}

/// Runs the script in a file.
pub async fn run_file(shell: &mut Shell, path: &Path) -> Result<Outcome> {
    let file = std::fs::File::open(path).map_err(|e| message(format!("{}: {e}", path.display())))?;
    run(shell, std::io::BufReader::new(file), Origin::File(path)).await
}

/// Runs one statement or command.
pub async fn run_item(shell: &mut Shell, action: &Action) -> Result<Outcome> {
    let sql = match action {
        Action::Sql(sql) => sql.clone(),
        Action::Command(line) => match commands::run(line, shell)? {
            Next::Continue => return Ok(Outcome::Finished),
            Next::Quit => return Ok(Outcome::Quit),
            Next::Sql(sql) => sql,
            Next::Include(file) => {
                // Boxed, as it may include others.
                let included: Pin<Box<dyn Future<Output = Result<Outcome>> + '_>> =
                    Box::pin(run_file(shell, Path::new(&file)));
                return included.await;
            }
        },
    };
    run_sql(shell, sql).await?;
    Ok(Outcome::Finished)
}

/// Whether there is a statement that Ctrl-C stops.
static IS_RUNNING: AtomicBool = AtomicBool::new(false);

/// That it is to stop.
static STOP: Notify = Notify::const_new();

/// Outside of the dialogue: lets the first Ctrl-C of a statement stop it, and any other end the process.
pub async fn listen_for_ctrl_c() {
    while tokio::signal::ctrl_c().await.is_ok() {
        if !IS_RUNNING.swap(false, Ordering::SeqCst) {
            // As shells tell of a signal.
            std::process::exit(130);
        }
        STOP.notify_one();
    }
}

/// Runs a statement as a task of its own, on the runtime's threads. Ctrl-C stops it.
async fn run_sql(shell: &Shell, sql: String) -> Result<()> {
    IS_RUNNING.store(true, Ordering::SeqCst);
    let outcome = run_until_ctrl_c(shell, sql).await;
    IS_RUNNING.store(false, Ordering::SeqCst);
    outcome
}

async fn run_until_ctrl_c(shell: &Shell, sql: String) -> Result<()> {
    let interrupted = async {
        match shell.interactive {
            true => drop(tokio::signal::ctrl_c().await),
            false => STOP.notified().await,
        }
    };
    let shell = shell.clone();
    let mut task = tokio::spawn(async move { shell.run(&sql).await });
    tokio::select! {
        outcome = &mut task => outcome.unwrap_or_else(|e| Err(message(format!("the statement failed: {e}")))),
        _ = interrupted => {
            task.abort();
            // It cleans up what it shows before the next prompt.
            let _ = task.await;
            Err(message("cancelled"))
        }
    }
}
