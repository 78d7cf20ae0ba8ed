//! The launcher: creates and destroys sandboxes on the host. One request on stdin, one JSON line on
//! stdout; or, as a server, any number of them.

mod awaited_config;
mod bundle;
mod cgroup;
mod cgroup_cover;
mod check;
mod child;
mod commands;
mod create;
mod destroy;
mod device_nodes;
mod devices;
mod disk;
mod disk_mounts;
mod fault;
mod hierarchy;
mod host_devices;
mod ids;
mod limits;
mod list;
mod loops;
mod mount_points;
mod mounts;
mod network;
mod oom;
mod process;
mod programs;
mod record;
mod remove;
mod responses;
mod rlimits;
mod root_files;
mod rootless;
mod runtime;
mod runtime_files;
mod runtime_program;
mod runtime_steps;
mod serve;
mod spec;
mod steps;
mod sys;
mod user_namespace;
mod warm_up;
mod workspace;
mod workspaces;

use std::io::{Read, Write};
use std::process::ExitCode;

use fault::{Context, Outcome};

const USAGE: &str = "usage: launcher create|destroy|list|list-workspaces|destroy-workspace|repair-devices|check|steps|version (all but the last three read JSON from stdin), or launcher serve";

/// A request is a few kilobytes of policy; this only limits invalid input.
const MAX_REQUEST_BYTES: u64 = 8 << 20;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let command = match arguments.as_slice() {
        [command] => command.as_str(),
        _ => "",
    };
    if command == "serve" {
        return match serve::serve() {
            Ok(()) => ExitCode::SUCCESS,
            Err(fault) => {
                eprintln!("{fault}");
                ExitCode::FAILURE
            }
        };
    }
    let Some(outcome) = commands::run(command, read_request, None) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let (Ok(answer) | Err(answer)) = &outcome;
    // The reader may be gone; the work is done anyway, and a sweep finds it.
    let _ = writeln!(std::io::stdout(), "{answer}");
    ExitCode::from(u8::from(outcome.is_err()))
}

fn read_request() -> Outcome<Vec<u8>> {
    let mut text = Vec::new();
    std::io::stdin()
        .lock()
        .take(MAX_REQUEST_BYTES)
        .read_to_end(&mut text)
        .context(|| "reading the request from stdin".into())?;
    Ok(text)
}
