//! The shell: SQL over Iceberg tables, from a terminal, a script or the command line.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod args;
mod commands;
mod complete;
mod config;
mod input;
mod output;
mod print;
mod progress;
mod repl;
mod report;
mod script;
mod shell;

use std::io::IsTerminal;
use std::process::ExitCode;

use datafusion::error::Result;
use icefloe::write::cleaned_up;

use args::{Args, Input};
use report::describe;
use script::{Origin, Outcome};
use shell::Shell;

// With glibc's allocator, scans on many threads take up to twice as long.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let (args, inputs) = Args::from_command_line();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("the runtime can't start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let outcome = runtime.block_on(async {
        if !is_dialogue(&inputs) {
            tokio::spawn(script::listen_for_ctrl_c());
        }
        let outcome = run(&args, inputs).await;
        // Of statements that failed or were cancelled; whoever is in a hurry presses Ctrl-C once more.
        tokio::select! {
            () = cleaned_up() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        outcome
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", describe(&error));
            ExitCode::FAILURE
        }
    }
}

/// Whether somebody types statements.
fn is_dialogue(inputs: &[Input]) -> bool {
    inputs.is_empty() && std::io::stdin().is_terminal()
}

async fn run(args: &Args, inputs: Vec<Input>) -> Result<()> {
    let mut shell = Shell::new(args).await?;
    if is_dialogue(&inputs) {
        return repl::run(&mut shell).await;
    }
    if inputs.is_empty() {
        script::run(&mut shell, std::io::BufReader::new(std::io::stdin()), Origin::Stdin).await?;
        return Ok(());
    }
    for input in inputs {
        let outcome = match &input {
            Input::Command(sql) => script::run(&mut shell, sql.as_bytes(), Origin::Argument).await?,
            Input::File(path) => script::run_file(&mut shell, path).await?,
        };
        if outcome == Outcome::Quit {
            break;
        }
    }
    Ok(())
}
