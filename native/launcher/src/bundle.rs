//! The runtime's configuration: the daemon's policy with the facts of this one sandbox filled in.

use std::path::{Component, Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::fault::{Fault, Outcome};
use crate::ids::IdRange;
use crate::mounts;
use crate::spec::RuntimeKind;

const DISK_PREFIX: &str = "@disk/";
const RUNNER: &str = "@runner";

/// Replaces the placeholders in the sources of mounts.
pub fn fill_sources(config: &mut Map<String, Value>) -> Outcome<()> {
    let Some(list) = config.get_mut("mounts").and_then(Value::as_array_mut) else {
        return Ok(());
    };
    for mount in list {
        let Some(source) = mount.get("source").and_then(Value::as_str) else {
            continue;
        };
        if let Some(path) = real_source(source)? {
            mount["source"] = json!(path);
        }
    }
    Ok(())
}

fn real_source(source: &str) -> Outcome<Option<PathBuf>> {
    if source == RUNNER {
        return Ok(Some(mounts::runner_path()));
    }
    let Some(below) = source.strip_prefix(DISK_PREFIX) else {
        return if source.starts_with('@') {
            Err(Fault::new(format!(
                "the mount source {source} is neither {RUNNER} nor {DISK_PREFIX}…"
            )))
        } else {
            Ok(None)
        };
    };
    let plain = Path::new(below)
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    if !plain || below.is_empty() {
        return Err(Fault::new(format!(
            "the mount source {source} does not stay on the disk"
        )));
    }
    Ok(Some(mounts::disk_path().join(below)))
}

/// Sets the root, the id maps and takes out the cgroups, which are the launcher's work.
pub fn finish(
    config: &mut Map<String, Value>,
    range: IdRange,
    runtime: RuntimeKind,
) -> Outcome<()> {
    let root = config.entry("root").or_insert_with(|| json!({}));
    root["path"] = json!(mounts::rootfs_path());
    if runtime == RuntimeKind::Runsc {
        // Its way of making the root read-only drops flags that it may not drop. SECURITY: nothing
        // is lost, for the mount itself is read-only unless the spec says writable.
        root["readonly"] = json!(false);
    }
    let linux = config
        .get_mut("linux")
        .and_then(Value::as_object_mut)
        .ok_or_else(|| Fault::new("the configuration has no linux section"))?;
    linux.remove("cgroupsPath");
    linux.remove("resources");
    require_namespaces(linux)?;
    let map = json!([{ "containerID": 0, "hostID": range.base, "size": range.size }]);
    linux.insert("uidMappings".into(), map.clone());
    linux.insert("gidMappings".into(), map);
    Ok(())
}

/// SECURITY: fails closed when the policy forgets a namespace that the mechanism relies on; without
/// a user namespace root inside would be root outside (guarded by `a_missing_namespace_is_refused`).
fn require_namespaces(linux: &Map<String, Value>) -> Outcome<()> {
    let namespaces = linux.get("namespaces").and_then(Value::as_array);
    for kind in ["user", "pid", "mount", "ipc", "uts", "network"] {
        let found = namespaces.is_some_and(|list| {
            list.iter().any(|entry| {
                entry.get("type").and_then(Value::as_str) == Some(kind)
                    && entry.get("path").is_none()
            })
        });
        if !found {
            return Err(Fault::new(format!(
                "the configuration asks for no new {kind} namespace"
            )));
        }
    }
    Ok(())
}

/// Makes the runtime join the user namespace at `path` instead of making the new one that the policy
/// asks for.
pub fn join_user_namespace(config: &mut Map<String, Value>, path: &Path) -> Outcome<()> {
    let entry = config
        .get_mut("linux")
        .and_then(|linux| linux.get_mut("namespaces"))
        .and_then(Value::as_array_mut)
        .and_then(|list| list.iter_mut().find(|entry| entry["type"] == "user"))
        .ok_or_else(|| Fault::new("the configuration has no user namespace"))?;
    entry["path"] = json!(path);
    Ok(())
}

/// Where nobody but root exists, terminals cannot be given to the group that has them elsewhere.
pub fn leave_out_other_groups(config: &mut Map<String, Value>) {
    let mounts = config.get_mut("mounts").and_then(Value::as_array_mut);
    for mount in mounts
        .into_iter()
        .flatten()
        .filter(|mount| mount["type"] == "devpts")
    {
        if let Some(options) = mount.get_mut("options").and_then(Value::as_array_mut) {
            options.retain(|option| !option.as_str().is_some_and(|text| text.starts_with("gid=")));
        }
    }
}
