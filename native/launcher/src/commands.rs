//! The requests that the launcher understands, however they reach it.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::fault::{Context, Fault, Outcome};
use crate::{check, create, destroy, host_devices, list, workspaces};

/// The answer to a request, or the failure as it is told; none when there is no such command.
/// `server` is the process that asks, if it is one that may be gone before we are done.
pub fn run(
    command: &str,
    request: impl FnOnce() -> Outcome<Vec<u8>>,
    server: Option<u32>,
) -> Option<Result<Value, Value>> {
    let told = |outcome: Outcome<Value>| outcome.map_err(|fault| failure(command, &fault));
    Some(match command {
        "create" => match parse(request) {
            Ok(spec) => {
                create::create(spec, server).map_err(|failed| failure(failed.step, &failed.fault))
            }
            Err(fault) => Err(failure("spec", &fault)),
        },
        "destroy" => told(
            parse(request)
                .and_then(|request| destroy::destroy(&request))
                .map(|()| json!({ "ok": true })),
        ),
        "list" => told(parse(request).and_then(|request| list::list(&request))),
        "list-workspaces" => told(parse(request).and_then(|request| workspaces::list(&request))),
        "destroy-workspace" => {
            told(parse(request).and_then(|request| workspaces::destroy(&request)))
        }
        "repair-devices" => told(parse(request).and_then(|request| host_devices::repair(&request))),
        "check" => Ok(check::check()),
        "steps" => Ok(json!(create::step_names())),
        "version" => Ok(json!({ "launcher": env!("CARGO_PKG_VERSION") })),
        _ => return None,
    })
}

fn parse<T: DeserializeOwned>(request: impl FnOnce() -> Outcome<Vec<u8>>) -> Outcome<T> {
    serde_json::from_slice(&request()?).context(|| "the request is not what is expected".into())
}

pub fn failure(step: &str, fault: &Fault) -> Value {
    json!({ "error": { "step": step, "message": fault.to_string() } })
}
