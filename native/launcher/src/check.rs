//! Tests which sandbox features this machine supports, and leaves nothing behind.

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsFd;
use std::path::Path;

use crate::fault::{Context, Fault, Outcome};
use crate::hierarchy::Hierarchies;
use crate::ids::{IdRange, RANGE_SIZE};
use crate::responses::Checked;
use crate::{child, disk, loops, mounts, rootless, sys, user_namespace};

/// One check: its name, how to run it, and what to do if it fails.
struct Check {
    name: &'static str,
    remedy: &'static str,
    try_it: fn() -> Outcome<String>,
}

const CHECKS: [Check; 11] = [
    Check {
        name: "root",
        remedy: "run the daemon as root for disk, memory, process and cpu limits; without root, `sandkasten isolation` shows what is missing",
        try_it: root,
    },
    Check {
        name: "user_namespace",
        remedy: "set user.max_user_namespaces above 0 (and kernel.unprivileged_userns_clone to 1 without root)",
        try_it: user_namespace,
    },
    Check {
        name: "subordinate_ids",
        remedy: "install uidmap and give the user 65,535 ids or more in /etc/subuid and /etc/subgid",
        try_it: subordinate_ids,
    },
    Check {
        name: "private_mounts",
        remedy: "allow mounts: outside of a container, or in one with CAP_SYS_ADMIN",
        try_it: private_mounts,
    },
    Check {
        name: "idmapped_mounts",
        remedy: "use Linux 5.12 or newer and keep data on ext4, xfs or btrfs; needs root",
        try_it: idmapped_mounts,
    },
    Check {
        name: "overlay",
        remedy: "load the overlay module; without root use Linux 5.11 or newer",
        try_it: overlay,
    },
    Check {
        name: "loop",
        remedy: "load the loop module; needs root",
        try_it: loop_device,
    },
    Check {
        name: "mkfs_ext4",
        remedy: "install e2fsprogs",
        try_it: mkfs,
    },
    Check {
        name: "cgroups",
        remedy: "mount cgroup v2, or v1 with memory, pids and cpu, and make it writable for the daemon",
        try_it: cgroups,
    },
    Check {
        name: "cgroup_kill",
        remedy: "use Linux 5.14 or newer with the unified hierarchy mounted; without it teardown is slower",
        try_it: cgroup_kill,
    },
    Check {
        name: "openat2",
        remedy: "use Linux 5.6 or newer",
        try_it: openat2,
    },
];

pub fn check() -> Vec<Checked> {
    CHECKS
        .iter()
        .map(|check| {
            let found = child::ask(check.try_it);
            Checked {
                name: check.name.to_owned(),
                ok: found.is_ok(),
                remedy: found.is_err().then(|| check.remedy.to_owned()),
                detail: found.unwrap_or_else(|fault| fault.to_string()),
            }
        })
        .collect()
}

fn is_root() -> bool {
    sys::geteuid() == 0
}

fn root() -> Outcome<String> {
    if is_root() {
        return Ok("running as root".into());
    }
    Err(Fault::new(format!("running as user {}", sys::geteuid())))
}

fn user_namespace() -> Outcome<String> {
    sys::unshare(libc::CLONE_NEWUSER).context(|| "creating a user namespace".into())?;
    Ok("can be created".into())
}

fn subordinate_ids() -> Outcome<String> {
    if is_root() {
        return Ok("not needed with root: every sandbox gets a separate range".into());
    }
    match rootless::granted() {
        Some(_) => Ok("granted".into()),
        None => Err(Fault::new(
            "no usable range: code runs with the same id as the runner",
        )),
    }
}

/// As in a create: without root, everything else happens in a user namespace.
fn become_able() -> Outcome<()> {
    if !is_root() {
        rootless::enter()?;
    }
    Ok(())
}

fn private_mounts() -> Outcome<String> {
    become_able()?;
    mounts::enter_private_namespace()?;
    Ok("can be created".into())
}

fn idmapped_mounts() -> Outcome<String> {
    // Any range will do: the mount is never attached.
    let range = IdRange {
        base: 1_000_000,
        size: RANGE_SIZE,
    };
    let (namespace, _) = user_namespace::make(range, None)?;
    let tree = sys::clone_tree(Path::new("/usr"), false).context(|| "opening /usr".into())?;
    sys::set_mount_attributes(
        tree.as_fd(),
        sys::MOUNT_ATTR_RDONLY,
        Some(namespace.as_fd()),
        false,
    )
    .context(|| "mapping the owners of /usr".into())?;
    Ok("work on the filesystem of /usr".into())
}

fn overlay() -> Outcome<String> {
    become_able()?;
    mounts::enter_private_namespace()?;
    mounts::try_overlay()?;
    Ok("can be mounted".into())
}

fn loop_device() -> Outcome<String> {
    let image = sys::bounded_memory_file(c"check", 1 << 20)
        .context(|| "creating a file in memory".into())?;
    let device = loops::attach_loop(&File::from(image), Path::new("check"))?;
    Ok(format!("{} was free and worked", device.path.display()))
}

fn mkfs() -> Outcome<String> {
    match disk::find_mkfs() {
        Some(path) => Ok(path.display().to_string()),
        None => Err(Fault::new("mkfs.ext4 was not found")),
    }
}

fn cgroups() -> Outcome<String> {
    let hierarchies = Hierarchies::discover()?;
    let mode = hierarchies.mode();
    let controllers = hierarchies.controllers()?;
    let missing: Vec<&str> = ["memory", "pids", "cpu"]
        .into_iter()
        .filter(|name| !controllers.iter().any(|found| found == name))
        .collect();
    if !missing.is_empty() {
        return Err(Fault::new(format!(
            "mode {mode}, without {}",
            missing.join(", ")
        )));
    }
    if let Some(hierarchy) = hierarchies
        .0
        .iter()
        .find(|hierarchy| !sys::is_writable(&hierarchy.root))
    {
        return Err(Fault::new(format!(
            "mode {mode}, but {} is not writable",
            hierarchy.root.display()
        )));
    }
    Ok(format!("mode {mode} with {}", controllers.join(", ")))
}

/// Only a cgroup below the root has the file, so one is created and removed.
fn cgroup_kill() -> Outcome<String> {
    let hierarchies = Hierarchies::discover()?;
    let unified = hierarchies
        .unified()
        .ok_or_else(|| Fault::new("no unified hierarchy is mounted"))?;
    let path = unified
        .root
        .join(format!("sandkasten-check-{}", std::process::id()));
    fs::create_dir(&path).context(|| format!("creating the cgroup {}", path.display()))?;
    let found = path.join("cgroup.kill").exists();
    fs::remove_dir(&path).context(|| format!("removing the cgroup {}", path.display()))?;
    if found {
        Ok("available".into())
    } else {
        Err(Fault::new("this kernel does not support it"))
    }
}

fn openat2() -> Outcome<String> {
    let root = OpenOptions::new()
        .read(true)
        .open("/")
        .context(|| "opening /".into())?;
    sys::open_beneath(
        root.as_fd(),
        Path::new("proc"),
        libc::O_PATH,
        libc::RESOLVE_NO_SYMLINKS,
    )
    .context(|| "opening /proc without following links".into())?;
    Ok("works".into())
}
