//! The launcher's commands, independent of how requests arrive.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::fault::{Context, Kind, Outcome};
use crate::responses::{self, Destroyed, Failed};
use crate::{check, create, destroy, host_devices, list, workspaces};

/// Handles a request: returns the answer or a failure, or none if there is no such command.
/// `server` is the requesting process, if it may end before the request is done.
pub fn run(
    command: &str,
    request: impl FnOnce() -> Outcome<Vec<u8>>,
    server: Option<u32>,
) -> Option<Result<Value, Value>> {
    let failed = |step: &str, fault| responses::value(Failed::at(step, &fault));
    let respond = |outcome: Outcome<Value>| outcome.map_err(|fault| failed(command, fault));
    Some(match command {
        "create" => match parse(request) {
            Ok(spec) => {
                create::create(spec, server).map_err(|failure| failed(failure.step, failure.fault))
            }
            Err(fault) => Err(failed("spec", fault)),
        },
        "destroy" => respond(
            parse(request)
                .and_then(|request| destroy::destroy(&request))
                .map(|()| responses::value(Destroyed { ok: true })),
        ),
        "list" => respond(answer(request, list::list)),
        "list-workspaces" => respond(answer(request, workspaces::list)),
        "destroy-workspace" => respond(answer(request, workspaces::destroy)),
        "repair-devices" => respond(answer(request, host_devices::repair)),
        "check" => Ok(responses::value(check::check())),
        "steps" => Ok(responses::value(create::step_names())),
        "version" => Ok(json!({ "launcher": env!("CARGO_PKG_VERSION") })),
        _ => return None,
    })
}

fn answer<Q: DeserializeOwned, A: Serialize>(
    request: impl FnOnce() -> Outcome<Vec<u8>>,
    work: fn(&Q) -> Outcome<A>,
) -> Outcome<Value> {
    work(&parse(request)?).map(responses::value)
}

fn parse<T: DeserializeOwned>(request: impl FnOnce() -> Outcome<Vec<u8>>) -> Outcome<T> {
    serde_json::from_slice(&request()?)
        .context(|| "invalid request".into())
        .map_err(|fault| fault.or_kind(Kind::InvalidRequest))
}
