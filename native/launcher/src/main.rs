//! The launcher: makes and unmakes sandboxes on the host. One request on stdin, one JSON line on stdout.

mod bundle;
mod cgroup;
mod cgroup_cover;
mod check;
mod child;
mod create;
mod destroy;
mod devices;
mod disk;
mod disk_mounts;
mod fault;
mod hierarchy;
mod ids;
mod limits;
mod list;
mod loops;
mod mount_points;
mod mounts;
mod process;
mod record;
mod remove;
mod rlimits;
mod rootless;
mod runtime;
mod spec;
mod steps;
mod sys;
mod user_namespace;
mod warm_up;
mod workspace;
mod workspaces;

use std::io::Write;
use std::process::ExitCode;

use serde_json::{Value, json};

use fault::Fault;

const USAGE: &str = "usage: launcher create|destroy|list|list-workspaces|destroy-workspace|check|steps|version (all but the last three read JSON from stdin)";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let command = match arguments.as_slice() {
        [command] => command.as_str(),
        _ => "",
    };
    let outcome = match command {
        "create" => run_create(),
        "destroy" => plain(
            "destroy",
            spec::read_request()
                .and_then(|request| destroy::destroy(&request))
                .map(|()| json!({ "ok": true })),
        ),
        "list" => plain(
            "list",
            spec::read_request().and_then(|request| list::list(&request)),
        ),
        "list-workspaces" => plain(
            "list-workspaces",
            spec::read_request().and_then(|request| workspaces::list(&request)),
        ),
        "destroy-workspace" => plain(
            "destroy-workspace",
            spec::read_request().and_then(|request| workspaces::destroy(&request)),
        ),
        "check" => Ok(check::check()),
        "steps" => Ok(json!(create::step_names())),
        "version" => Ok(json!({ "launcher": env!("CARGO_PKG_VERSION") })),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    let (answer, code) = match outcome {
        Ok(answer) => (answer, ExitCode::SUCCESS),
        Err(error) => (error, ExitCode::FAILURE),
    };
    // Nobody may be there to read any more; what was done stays done, and a sweep finds it.
    let _ = writeln!(std::io::stdout(), "{answer}");
    code
}

fn run_create() -> Result<Value, Value> {
    let spec = spec::read_request().map_err(|fault| failure("spec", &fault))?;
    create::create(spec).map_err(|failed| failure(failed.step, &failed.fault))
}

fn plain(step: &str, outcome: Result<Value, Fault>) -> Result<Value, Value> {
    outcome.map_err(|fault| failure(step, &fault))
}

fn failure(step: &str, fault: &Fault) -> Value {
    json!({ "error": { "step": step, "message": fault.to_string() } })
}
