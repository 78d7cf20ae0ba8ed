//! The daemon's requests as JSON, checked before use.

use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::fault::{Fault, Outcome};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RuntimeKind {
    Crun,
    Runc,
    Runsc,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Runtime {
    pub kind: RuntimeKind,
    pub path: PathBuf,
    /// The runtime's state directory (`--root`).
    pub root: PathBuf,
    /// Additional options of the runtime, before its command.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bind {
    pub from: PathBuf,
    pub to: PathBuf,
}

/// A file that covers the image's entry at its path, in this sandbox only.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RootFile {
    pub path: PathBuf,
    pub content: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rootfs {
    pub path: PathBuf,
    #[serde(default)]
    pub binds: Vec<Bind>,
    #[serde(default)]
    pub writable: bool,
    /// Not part of the recorded intent.
    #[serde(default, skip_serializing)]
    pub files: Vec<RootFile>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    pub bytes: u64,
    pub inodes: u64,
    pub templates_dir: PathBuf,
}

/// A persistent disk for /workspace, which several sandboxes may use at once.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workspace {
    pub id: String,
    /// The directory of all workspaces, each in a sub-directory with its name.
    pub workspaces_dir: PathBuf,
    /// How to create it if it does not exist.
    pub disk: Disk,
}

/// A persistent disk at a chosen path of the sandbox.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FurtherWorkspace {
    pub workspace: Workspace,
    pub path: PathBuf,
    #[serde(default)]
    pub read_only: bool,
}

const MAX_FURTHER_WORKSPACES: usize = 8;

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    pub memory_bytes: u64,
    pub cpu_millicores: u64,
    pub pids: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateSpec {
    pub id: String,
    pub state_dir: PathBuf,
    pub ids_dir: PathBuf,
    pub runtime: Runtime,
    pub rootfs: Rootfs,
    pub runner: PathBuf,
    pub disk: Option<Disk>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Workspace>,
    /// Workspaces in addition to the one at /workspace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workspaces: Vec<FurtherWorkspace>,
    pub limits: Limits,
    /// Whether addresses that represent other hosts are routed back into the sandbox.
    #[serde(default)]
    pub network: bool,
    pub cgroup_parent: String,
    /// The OCI configuration; not part of the recorded intent.
    #[serde(skip_serializing)]
    pub config: Map<String, Value>,
    /// Metadata that the daemon wants to find in the record.
    #[serde(default)]
    pub meta: Map<String, Value>,
    /// Keeps the runtime's files, its state at `runtime.root`, until the sandbox is destroyed.
    #[serde(default, skip_serializing)]
    pub keep_runtime_files: bool,
    /// For tests: fail, and clean up, right after this step.
    #[serde(default, skip_serializing)]
    pub fail_after: Option<String>,
    /// For tests: die as by SIGKILL right after this step.
    #[serde(default, skip_serializing)]
    pub die_after: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DestroyRequest {
    pub id: String,
    pub state_dir: PathBuf,
    pub ids_dir: PathBuf,
    pub cgroup_parent: String,
    #[serde(default)]
    pub runtime: Option<Runtime>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListRequest {
    pub sandboxes_dir: PathBuf,
    pub ids_dir: PathBuf,
    pub cgroup_parent: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListWorkspacesRequest {
    pub workspaces_dir: PathBuf,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DestroyWorkspaceRequest {
    pub id: String,
    pub workspaces_dir: PathBuf,
    /// The directory of sandboxes whose records name the workspaces they use.
    pub sandboxes_dir: PathBuf,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RepairDevicesRequest {
    /// The host's directory of device nodes.
    pub dev_dir: PathBuf,
}

/// SECURITY: ids become names of directories and cgroups, so anything that could lead elsewhere is
/// refused (threat: hostile names; guarded by `odd_names_are_refused`).
pub fn check_id(id: &str) -> Outcome<()> {
    let plain = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-'
    };
    let starts_plain = id
        .bytes()
        .next()
        .is_some_and(|first| first.is_ascii_alphanumeric());
    if starts_plain && id.len() <= 64 && id.bytes().all(plain) {
        return Ok(());
    }
    Err(Fault::new(format!(
        "the id {id:?} must have 1 to 64 characters of a-z, 0-9, _ and -, and start with a letter or digit"
    )))
}

/// SECURITY: as for ids; the name of a workspace becomes a directory name (threat: hostile names;
/// guarded by `odd_names_of_workspaces_are_refused`).
pub fn check_workspace_id(id: &str) -> Outcome<()> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    match id.strip_prefix("wsp_") {
        Some(rest) if (2..=48).contains(&rest.len()) && rest.bytes().all(plain) => Ok(()),
        _ => Err(Fault::new(format!(
            "the workspace id {id:?} must be wsp_ followed by 2 to 48 characters of a-z and 0-9"
        ))),
    }
}

/// SECURITY: as for ids; a parent may be a path of several plain names, without `..`.
pub fn check_cgroup_parent(parent: &str) -> Outcome<()> {
    let plain = |name: &str| {
        !name.is_empty()
            && name.len() <= 128
            && name
                .bytes()
                .next()
                .is_some_and(|first| first.is_ascii_alphanumeric())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_.-@:".contains(&byte))
    };
    if parent.split('/').all(plain) {
        return Ok(());
    }
    Err(Fault::new(format!(
        "the cgroup parent {parent:?} must be a relative path without . and .."
    )))
}

/// Only absolute paths without `.` and `..` are unambiguous.
pub fn check_path(name: &str, path: &Path) -> Outcome<()> {
    let plain = path
        .components()
        .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if path.is_absolute() && plain {
        return Ok(());
    }
    Err(Fault::new(format!(
        "{name} {} is not an absolute path without . and ..",
        path.display()
    )))
}

impl Disk {
    fn check(&self, name: &str, least_mebibytes: u64) -> Outcome<()> {
        check_path(&format!("{name}.templates_dir"), &self.templates_dir)?;
        if self.bytes < least_mebibytes << 20 || self.inodes < 64 {
            return Err(Fault::new(format!(
                "{name} must have at least {least_mebibytes} MiB and 64 inodes"
            )));
        }
        Ok(())
    }
}

impl CreateSpec {
    pub fn check(&self, steps: &[&str]) -> Outcome<()> {
        self.destroy_request().check()?;
        for step in [&self.fail_after, &self.die_after].into_iter().flatten() {
            if !steps.contains(&step.as_str()) {
                return Err(Fault::new(format!("unknown step {step:?}")));
            }
        }
        check_path("runtime.path", &self.runtime.path)?;
        check_path("rootfs.path", &self.rootfs.path)?;
        check_path("runner", &self.runner)?;
        for bind in &self.rootfs.binds {
            check_path("rootfs.binds.from", &bind.from)?;
            check_path("rootfs.binds.to", &bind.to)?;
        }
        for file in &self.rootfs.files {
            check_path("rootfs.files.path", &file.path)?;
        }
        if let Some(disk) = &self.disk {
            disk.check("disk", 4)?;
        }
        self.check_workspaces()?;
        if self.limits.memory_bytes == 0 || self.limits.pids == 0 || self.limits.cpu_millicores < 10
        {
            return Err(Fault::new(
                "limits must be above zero, and cpu_millicores at least 10",
            ));
        }
        Ok(())
    }

    fn check_workspaces(&self) -> Outcome<()> {
        let further = self.workspaces.iter().map(|further| &further.workspace);
        let mut ids = Vec::new();
        for workspace in self.workspace.iter().chain(further) {
            check_workspace_id(&workspace.id)?;
            check_path("workspace.workspaces_dir", &workspace.workspaces_dir)?;
            // A quarter of the minimum is the journal.
            workspace.disk.check("workspace.disk", 16)?;
            ids.push(&workspace.id);
        }
        for further in &self.workspaces {
            check_path("workspaces.path", &further.path)?;
        }
        ids.sort();
        ids.dedup();
        let all = self.workspaces.len() + usize::from(self.workspace.is_some());
        if ids.len() < all || self.workspaces.len() > MAX_FURTHER_WORKSPACES {
            return Err(Fault::new(format!(
                "a sandbox can mount each workspace once, and at most {MAX_FURTHER_WORKSPACES} besides the one at /workspace"
            )));
        }
        Ok(())
    }

    /// The request that undoes this create.
    pub fn destroy_request(&self) -> DestroyRequest {
        DestroyRequest {
            id: self.id.clone(),
            state_dir: self.state_dir.clone(),
            ids_dir: self.ids_dir.clone(),
            cgroup_parent: self.cgroup_parent.clone(),
            runtime: Some(self.runtime.clone()),
        }
    }
}

impl DestroyRequest {
    pub fn check(&self) -> Outcome<()> {
        check_id(&self.id)?;
        check_cgroup_parent(&self.cgroup_parent)?;
        check_path("state_dir", &self.state_dir)?;
        check_path("ids_dir", &self.ids_dir)?;
        if let Some(runtime) = &self.runtime {
            check_path("runtime.root", &runtime.root)?;
        }
        // SECURITY: the state directory is removed recursively, so it must be the sandbox's own, as
        // its name shows (guarded by `odd_names_are_refused`).
        if self.state_dir.file_name().and_then(|name| name.to_str()) != Some(&self.id) {
            return Err(Fault::new(format!(
                "the state directory {} does not end in the id {}",
                self.state_dir.display(),
                self.id
            )));
        }
        Ok(())
    }
}

impl ListRequest {
    pub fn check(&self) -> Outcome<()> {
        check_cgroup_parent(&self.cgroup_parent)?;
        check_path("sandboxes_dir", &self.sandboxes_dir)?;
        check_path("ids_dir", &self.ids_dir)
    }
}

impl ListWorkspacesRequest {
    pub fn check(&self) -> Outcome<()> {
        check_path("workspaces_dir", &self.workspaces_dir)
    }
}

impl DestroyWorkspaceRequest {
    pub fn check(&self) -> Outcome<()> {
        check_workspace_id(&self.id)?;
        check_path("workspaces_dir", &self.workspaces_dir)?;
        check_path("sandboxes_dir", &self.sandboxes_dir)
    }
}

impl RepairDevicesRequest {
    pub fn check(&self) -> Outcome<()> {
        check_path("dev_dir", &self.dev_dir)
    }
}
