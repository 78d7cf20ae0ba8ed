//! The cgroups of one sandbox: one in every hierarchy, limited, with a part delegated to its
//! runner.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::fault::{Context, Fault, Outcome};
use crate::hierarchy::{Hierarchies, Hierarchy, UNIFIED};
use crate::spec::{Limits, RuntimeKind};
use crate::{devices, limits, sys};

const V2_CONTROLLERS: [&str; 3] = ["memory", "pids", "cpu"];
/// Attempts to create a cgroup. Enough, because each lost parent means that another sandbox was
/// destroyed.
const PARENT_ATTEMPTS: u32 = 64;
/// Enough for one cgroup per command that the runner tracks; limits what a compromised one can
/// create.
const MAX_DESCENDANTS: &str = "2048";

/// The newly created cgroups of a sandbox.
#[derive(Default)]
pub struct Made {
    /// Path by controller, for the record.
    pub paths: BTreeMap<String, PathBuf>,
    pub join: Join,
    /// The delegated directory for the runner.
    pub runner_dir: Option<OwnedFd>,
    /// The file that counts memory kills.
    pub memory_events: Option<File>,
    /// Kept open for changing the device rules after the start.
    pub devices: Option<File>,
    pub not_enforced: Vec<&'static str>,
}

/// How a process enters the cgroups of a sandbox.
///
/// For most moves of a process, the kernel waits for a grace period of 6 ms or more. It does not
/// wait if a process is created inside its cgroup, or if a thread moves only itself, which a
/// single-threaded process can do.
#[derive(Default)]
pub struct Join {
    /// The unified cgroup, for creating a process inside it.
    pub unified: Option<File>,
    /// Its `cgroup.procs`, for kernels that cannot create a process inside a cgroup.
    pub unified_procs: Option<File>,
    /// The `tasks` files of version 1; a thread that writes 0 to each enters these cgroups.
    pub tasks: Vec<File>,
}

/// How to create the cgroups.
pub struct Plan<'a> {
    pub parent: &'a str,
    pub id: &'a str,
    pub limits: Limits,
    /// The host id of the sandbox's root.
    pub owner: u32,
    pub runtime: RuntimeKind,
    /// Without root, hierarchies that were not delegated to us are left out and reported.
    pub tolerant: bool,
}

pub fn make(hierarchies: &Hierarchies, plan: &Plan<'_>) -> Outcome<Made> {
    let mut made = Made::default();
    for (hierarchy, path) in hierarchies.paths(plan.parent, plan.id) {
        let outcome = make_one(hierarchy, &path, hierarchies.is_pure_v2(), plan, &mut made);
        match outcome {
            Ok(()) => {
                for name in &hierarchy.names {
                    made.paths.insert((*name).to_owned(), path.clone());
                }
            }
            Err(Refused::Forbidden(_)) if plan.tolerant => {}
            Err(Refused::Forbidden(fault) | Refused::Failed(fault)) => return Err(fault),
        }
    }
    let v2 = hierarchies.is_pure_v2() && made.paths.contains_key(UNIFIED);
    for (controller, limit) in [
        ("memory", "memory_limit"),
        ("pids", "pids_limit"),
        ("cpu", "cpu_limit"),
    ] {
        if v2 || made.paths.contains_key(controller) {
            continue;
        }
        // SECURITY: with root, every limit is enforced or there is no sandbox (threats: fork bombs,
        // exhausting memory and hogging the CPU).
        if !plan.tolerant {
            return Err(Fault::new(format!(
                "no cgroup hierarchy with the {controller} controller is mounted; mount one below /sys/fs/cgroup"
            )));
        }
        made.not_enforced.push(limit);
    }
    Ok(made)
}

/// Why a cgroup could not be created: missing permission, or another error.
enum Refused {
    Forbidden(Fault),
    Failed(Fault),
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Refused::Failed(fault)
    }
}

fn make_one(
    hierarchy: &Hierarchy,
    path: &Path,
    pure_v2: bool,
    plan: &Plan<'_>,
    made: &mut Made,
) -> Result<(), Refused> {
    make_directory(hierarchy, path, plan.parent, pure_v2)?;
    if hierarchy.is_unified() {
        if pure_v2 {
            limits::write_v2(path, plan.limits)?;
            made.memory_events = Some(open_read(&path.join("memory.events"))?);
        }
        delegate(path, plan.owner)?;
        let init = path.join("init");
        made.join.unified = Some(open_read(&init)?);
        made.join.unified_procs = Some(open_both(&init.join("cgroup.procs"))?);
        // SECURITY: the runner gets a copy of the mount that begins at its own cgroup. With a plain
        // descriptor, `..` would lead it through the hierarchy and out into the host's files
        // (threat: leaked secrets and descriptors; guarded by `inherited_descriptors_lead_nowhere`).
        let tree =
            sys::clone_tree(path, false).context(|| format!("opening {}", path.display()))?;
        made.runner_dir = Some(open_dot(&tree).context(|| format!("opening {}", path.display()))?);
        return Ok(());
    }
    limits::write_v1(hierarchy, path, plan.limits)?;
    if hierarchy.has("memory") {
        made.memory_events = Some(open_read(&path.join("memory.oom_control"))?);
    }
    if hierarchy.has("devices") && !plan.tolerant {
        devices::restrict(path, plan.runtime)?;
        made.devices = Some(open_read(path)?);
    }
    made.join.tasks.push(open_both(&path.join("tasks"))?);
    Ok(())
}

fn make_directory(
    hierarchy: &Hierarchy,
    path: &Path,
    parent: &str,
    pure_v2: bool,
) -> Result<(), Refused> {
    make_below_parent(&hierarchy.root, path, parent)?;
    if !pure_v2 {
        return Ok(());
    }
    // From the top down, and only now that the parent is not empty and cannot be removed.
    let mut at = hierarchy.root.clone();
    enable_controllers(&at).map_err(|error| refused(error, &at))?;
    for name in parent.split('/') {
        at.push(name);
        enable_controllers(&at).map_err(|error| refused(error, &at))?;
    }
    Ok(())
}

/// Creates the parent if needed and the cgroup in it, and retries if the parent disappears in
/// between: it is removed with its last sandbox (guarded by
/// `concurrent_creates_and_destroys_share_a_parent`).
fn make_below_parent(root: &Path, path: &Path, parent: &str) -> Result<(), Refused> {
    let mut attempts = PARENT_ATTEMPTS;
    loop {
        attempts -= 1;
        match try_below_parent(root, path, parent) {
            Err((_, error)) if attempts > 0 && has_vanished(&error) => {}
            Err((at, error)) => return Err(refused(error, &at)),
            Ok(()) => return Ok(()),
        }
    }
}

/// A cgroup that does not exist, or is just being removed.
fn has_vanished(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV))
}

fn try_below_parent(root: &Path, path: &Path, parent: &str) -> Result<(), (PathBuf, io::Error)> {
    let mut at = root.to_owned();
    for name in parent.split('/') {
        at.push(name);
        match fs::create_dir(&at) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err((at, error)),
            _ => {}
        }
    }
    // SECURITY: an existing path may contain other processes and limits; it is never used (guarded
    // by `an_existing_cgroup_is_refused`).
    fs::DirBuilder::new()
        .mode(0o755)
        .create(path)
        .map_err(|error| (path.to_owned(), error))
}

fn refused(error: io::Error, at: &Path) -> Refused {
    let raw = error.raw_os_error();
    let fault = Fault::new(format!("creating the cgroup {}: {error}", at.display()));
    if matches!(raw, Some(libc::EACCES | libc::EPERM | libc::EROFS)) {
        Refused::Forbidden(fault)
    } else {
        Refused::Failed(fault)
    }
}

fn enable_controllers(at: &Path) -> io::Result<()> {
    let file = at.join("cgroup.subtree_control");
    let enabled = fs::read_to_string(&file)?;
    for controller in V2_CONTROLLERS {
        if !enabled
            .split_ascii_whitespace()
            .any(|name| name == controller)
        {
            fs::write(&file, format!("+{controller}"))?;
        }
    }
    Ok(())
}

/// Lets the sandbox's root create cgroups below its own and move its processes between them.
///
/// SECURITY: only these files change owner. Limits, `cgroup.kill`, `cgroup.freeze` and the bound on
/// descendants stay root's (guarded by `the_runner_owns_only_the_cgroup_files_it_needs`).
fn delegate(path: &Path, owner: u32) -> Outcome<()> {
    limits::set(path, "cgroup.max.descendants", MAX_DESCENDANTS)?;
    let init = path.join("init");
    fs::create_dir(&init).context(|| format!("creating the cgroup {}", init.display()))?;
    for directory in [path, &init] {
        give(directory, owner)?;
        for file in ["cgroup.procs", "cgroup.threads", "cgroup.subtree_control"] {
            give(&directory.join(file), owner)?;
        }
    }
    Ok(())
}

fn give(path: &Path, owner: u32) -> Outcome<()> {
    sys::chown(path, owner, owner)
        .context(|| format!("changing the owner of {} to the sandbox", path.display()))
}

fn open_read(path: &Path) -> Outcome<File> {
    File::open(path).context(|| format!("opening {}", path.display()))
}

fn open_both(path: &Path) -> Outcome<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .context(|| format!("opening {}", path.display()))
}

fn open_dot(tree: &OwnedFd) -> io::Result<OwnedFd> {
    sys::open_beneath(
        tree.as_fd(),
        Path::new("."),
        libc::O_RDONLY | libc::O_DIRECTORY,
        0,
    )
}
