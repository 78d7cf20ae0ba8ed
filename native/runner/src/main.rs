//! The command line of the runner.

use runner::init::{Arguments, DEFAULT_SOCKET};
use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "usage: runner init [options] | --client '<json>' | relay | probe | version";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = match arguments.split_first() {
        // As an image's entry point it is started without arguments.
        None => ("init", &[][..]),
        Some((command, rest)) => (command.as_str(), rest),
    };
    match command {
        "init" => init(rest),
        "--client" | "client" => {
            let Some(line) = rest.first() else {
                return fail(USAGE);
            };
            let answer = runner::client::run(&socket(), line);
            println!("{answer}");
            if answer["type"] == "error" {
                ExitCode::FAILURE
            } else {
                ExitCode::SUCCESS
            }
        }
        "relay" => match runner::relay::run(&socket()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&format!("cannot reach the runner: {error}")),
        },
        "probe" => {
            println!("{}", runner::probe::run());
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

fn socket() -> PathBuf {
    std::env::var_os("SANDKASTEN_SOCKET").map_or_else(|| DEFAULT_SOCKET.into(), PathBuf::from)
}

fn fail(message: &str) -> ExitCode {
    eprintln!("runner: {message}");
    ExitCode::FAILURE
}
