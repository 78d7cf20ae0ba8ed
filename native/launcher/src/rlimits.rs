//! Limits of the sandbox's first process that the launcher has to set because the runtime cannot.

use libc::{__rlimit_resource_t as Resource, rlim_t};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::fault::{Context, Fault, Outcome};
use crate::spec::RuntimeKind;
use crate::sys;

/// A limit as the kernel takes it.
#[derive(Clone, Copy, Debug)]
pub struct Rlimit {
    pub resource: Resource,
    pub soft: rlim_t,
    pub hard: rlim_t,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    #[serde(rename = "type")]
    kind: String,
    soft: rlim_t,
    hard: rlim_t,
}

/// Whether a runtime may not limit a process in a user namespace that root did not create.
///
/// runc sets limits from outside, for which it needs CAP_SYS_RESOURCE over that namespace. Root of a
/// container often has it only over namespaces that it created itself.
pub fn are_ours_to_set(runtime: RuntimeKind) -> bool {
    runtime == RuntimeKind::Runc && !sys::will_have_capability(sys::CAP_SYS_RESOURCE)
}

/// Removes the limits from the configuration, to be set on the runtime, which passes them on.
///
/// SECURITY: an unknown limit is an error, since it would otherwise silently be missing (threat: using
/// up descriptors; guarded by `process_limits_are_enforced`).
pub fn take(config: &mut Map<String, Value>) -> Outcome<Vec<Rlimit>> {
    let process = config.get_mut("process").and_then(Value::as_object_mut);
    let Some(list) = process.and_then(|process| process.remove("rlimits")) else {
        return Ok(Vec::new());
    };
    let wanted: Vec<Wanted> =
        serde_json::from_value(list).context(|| "reading process.rlimits".into())?;
    wanted.iter().map(parse).collect()
}

fn parse(wanted: &Wanted) -> Outcome<Rlimit> {
    Ok(Rlimit {
        resource: resource(&wanted.kind)
            .ok_or_else(|| Fault::new(format!("unknown limit {:?}", wanted.kind)))?,
        soft: wanted.soft,
        hard: wanted.hard,
    })
}

fn resource(name: &str) -> Option<Resource> {
    Some(match name.strip_prefix("RLIMIT_")? {
        "AS" => libc::RLIMIT_AS,
        "CORE" => libc::RLIMIT_CORE,
        "CPU" => libc::RLIMIT_CPU,
        "DATA" => libc::RLIMIT_DATA,
        "FSIZE" => libc::RLIMIT_FSIZE,
        "LOCKS" => libc::RLIMIT_LOCKS,
        "MEMLOCK" => libc::RLIMIT_MEMLOCK,
        "MSGQUEUE" => libc::RLIMIT_MSGQUEUE,
        "NICE" => libc::RLIMIT_NICE,
        "NOFILE" => libc::RLIMIT_NOFILE,
        "NPROC" => libc::RLIMIT_NPROC,
        "RSS" => libc::RLIMIT_RSS,
        "RTPRIO" => libc::RLIMIT_RTPRIO,
        "RTTIME" => libc::RLIMIT_RTTIME,
        "SIGPENDING" => libc::RLIMIT_SIGPENDING,
        "STACK" => libc::RLIMIT_STACK,
        _ => return None,
    })
}
