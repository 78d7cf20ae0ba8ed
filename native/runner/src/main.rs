//! The command line of the runner.

use runner::init::{Arguments, DEFAULT_SOCKET};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "usage: runner init [options] | --client '<json>' | relay | probe | disk-usage DIRECTORY... | version";

const MEASURE_TIME: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = match arguments.split_first() {
        // As an image's entry point, the runner is started without arguments.
        None => ("init", &[][..]),
        Some((command, rest)) => (command.as_str(), rest),
    };
    match command {
        "init" => init(rest),
        "--client" | "client" => {
            let Some(line) = rest.first() else {
                return fail(USAGE);
            };
            let answer = runner::subcommands::client::run(&socket(), line);
            println!("{answer}");
            if answer["type"] == "error" {
                ExitCode::FAILURE
            } else {
                ExitCode::SUCCESS
            }
        }
        "relay" => relay(),
        "probe" => {
            println!("{}", runner::subcommands::probe::run());
            ExitCode::SUCCESS
        }
        "disk-usage" => {
            println!(
                "{}",
                runner::subcommands::disk_usage::measure(rest, MEASURE_TIME)
            );
            ExitCode::SUCCESS
        }
        "version" | "--version" => {
            println!("{}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        _ => fail(USAGE),
    }
}

fn init(arguments: &[String]) -> ExitCode {
    let parsed = match Arguments::parse(arguments) {
        Ok(parsed) => parsed,
        Err(problem) => return fail(&problem),
    };
    match runner::init::run(parsed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&format!("cannot start: {error}")),
    }
}

/// SECURITY: an engine starts this inside a hostile sandbox as its root. It only needs to own the
/// socket, so everything else is dropped first (threats: replaced sockets and attacks on PID 1).
fn relay() -> ExitCode {
    runner::sandbox::capabilities::hide_from_tracers();
    let done = runner::sandbox::capabilities::keep_only(&[])
        .and_then(|()| runner::subcommands::relay::run(&socket()));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&format!("cannot reach the runner: {error}")),
    }
}

fn socket() -> PathBuf {
    std::env::var_os("SANDKASTEN_SOCKET").map_or_else(|| DEFAULT_SOCKET.into(), PathBuf::from)
}

fn fail(message: &str) -> ExitCode {
    eprintln!("runner: {message}");
    ExitCode::FAILURE
}
