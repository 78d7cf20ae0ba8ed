//! The runtime's configuration: the daemon's policy, completed with the facts of this sandbox.

use std::path::{Component, Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::fault::{Fault, Outcome};
use crate::ids::IdRange;
use crate::spec::FurtherWorkspace;
use crate::{device_nodes, mounts};

const DISK_PREFIX: &str = "@disk/";
const RUNNER: &str = "@runner";
const DEVICES: &str = "@dev";

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
    if source == DEVICES {
        return Ok(Some(mounts::devices_path()));
    }
    let Some(below) = source.strip_prefix(DISK_PREFIX) else {
        return if source.starts_with('@') {
            Err(Fault::new(format!(
                "the mount source {source} is neither {RUNNER} nor {DEVICES} nor {DISK_PREFIX}…"
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
            "the mount source {source} leads outside the disk"
        )));
    }
    Ok(Some(mounts::disk_path().join(below)))
}

/// Sets the root and the id maps, and removes the cgroup settings, because the launcher manages
/// cgroups.
pub fn finish(config: &mut Map<String, Value>, range: IdRange) -> Outcome<()> {
    let root = config.entry("root").or_insert_with(|| json!({}));
    root["path"] = json!(mounts::rootfs_path());
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

/// SECURITY: fails closed if the policy forgets a namespace that the mechanism relies on; without a
/// user namespace, root inside would be root outside (guarded by `a_missing_namespace_is_refused`).
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
                "the configuration does not request a new {kind} namespace"
            )));
        }
    }
    Ok(())
}

/// Makes the runtime join the user namespace at `path` instead of creating the one that the policy
/// requests.
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

/// If only root exists, terminals cannot belong to the group that owns them elsewhere.
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

/// Mounts further workspaces at their paths, after all other mounts.
pub fn add_workspaces(config: &mut Map<String, Value>, workspaces: &[FurtherWorkspace]) {
    let list = config.entry("mounts").or_insert_with(|| json!([]));
    let Some(list) = list.as_array_mut() else {
        return;
    };
    for (number, further) in workspaces.iter().enumerate() {
        let [_, files] = mounts::further_workspace_paths(number);
        let access = if further.read_only { "ro" } else { "rw" };
        list.push(json!({
            "destination": further.path,
            "type": "bind",
            "source": files,
            "options": ["bind", access, "nosuid", "nodev"],
        }));
    }
}

/// Lists each device node as a mount: crun 1.8 does not include mounts below /dev.
pub fn bind_device_nodes(config: &mut Map<String, Value>) {
    let from = mounts::devices_path();
    let Some(list) = config.get_mut("mounts").and_then(Value::as_array_mut) else {
        return;
    };
    let Some(dev) = list.iter().position(|mount| mount["source"] == json!(from)) else {
        return;
    };
    let at = PathBuf::from(list[dev]["destination"].as_str().unwrap_or_default());
    let nodes = device_nodes::NODES.iter().map(|(name, ..)| {
        json!({
            "destination": at.join(name),
            "type": "bind",
            "source": from.join(name),
            "options": ["bind", "ro", "nosuid", "noexec"],
        })
    });
    list.splice(dev + 1..dev + 1, nodes);
}
