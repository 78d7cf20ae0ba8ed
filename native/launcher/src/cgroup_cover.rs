//! Covers the cgroup tree in our mount namespace, so the runtime leaves cgroups to us.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use crate::fault::{Context, Outcome};
use crate::hierarchy::Hierarchies;
use crate::spec::RuntimeKind;
use crate::sys;

/// Shows the runtime only the part of the cgroup tree that it requires, in this mount namespace.
///
/// The processes are in their cgroups before the runtime starts, so it has nothing to do there. An
/// empty unified hierarchy next to version 1 even makes crun fail, and runc creates cgroups in whatever
/// it finds; it only refuses to run without `devices`.
pub fn hide_from_runtime(
    hierarchies: &Hierarchies,
    runtime: RuntimeKind,
    tolerant: bool,
) -> Outcome<()> {
    let mount_point = Path::new("/sys/fs/cgroup");
    if hierarchies.is_pure_v2() || !mount_point.exists() {
        return Ok(());
    }
    if tolerant && runtime == RuntimeKind::Runc {
        // Without root a cover cannot replace the mounts, and runc tolerates those it may not use.
        return Ok(());
    }
    let devices = hierarchies
        .0
        .iter()
        .find(|hierarchy| hierarchy.has("devices"));
    let kept = match devices {
        Some(hierarchy) if runtime == RuntimeKind::Runc => Some(
            sys::clone_tree(&hierarchy.root, false)
                .context(|| format!("opening {}", hierarchy.root.display()))?,
        ),
        _ => None,
    };
    match sys::detach_mount(mount_point) {
        Ok(()) => {}
        // We cannot remove it without root; covering it works as well.
        Err(error) if tolerant && error.raw_os_error() == Some(libc::EINVAL) => {}
        Err(error) => {
            return Err(error).context(|| "hiding /sys/fs/cgroup from the runtime".into());
        }
    }
    sys::mount_tmpfs(mount_point, c"mode=0755,size=16k,nr_inodes=8")
        .context(|| "covering /sys/fs/cgroup".into())?;
    if let Some(mount) = kept {
        let at = mount_point.join("devices");
        fs::create_dir(&at).context(|| format!("making {}", at.display()))?;
        sys::attach_mount(mount.as_fd(), &at).context(|| format!("attaching {}", at.display()))?;
    }
    Ok(())
}

/// Removes the cover, for a namespace that cannot simply be left.
pub fn unhide() -> io::Result<()> {
    sys::detach_mount(Path::new("/sys/fs/cgroup"))
}
