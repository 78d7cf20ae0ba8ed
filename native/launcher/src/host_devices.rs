//! Repairs device nodes of the host that earlier launchers let sandboxes own.

use std::fs::{self, OpenOptions};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use crate::device_nodes::{NODE_MODE, NODES};
use crate::fault::{Context, Outcome};
use crate::responses::RepairedDevices;
use crate::spec::RepairDevicesRequest;
use crate::{ids, sys};

/// Returns damaged nodes to root, and lists them.
pub fn repair(request: &RepairDevicesRequest) -> Outcome<RepairedDevices> {
    request.check()?;
    let mut repaired = Vec::new();
    if sys::geteuid() == 0 {
        for (name, major, minor) in NODES {
            let path = request.dev_dir.join(name);
            if repair_node(&path, libc::makedev(major, minor))? {
                repaired.push(path);
            }
        }
    }
    Ok(RepairedDevices { repaired })
}

/// SECURITY: only a node with the expected number whose owner is a sandbox id is changed: an
/// administrator's other settings are left alone (guarded by `damaged_devices_are_repaired`).
fn repair_node(path: &Path, number: u64) -> Outcome<bool> {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_NOFOLLOW)
        .open(path);
    // Containers may have only some of them.
    let Ok(node) = opened else { return Ok(false) };
    let repairing = || format!("repairing {}", path.display());
    let found = sys::fstat(node.as_fd()).context(repairing)?;
    let is_device = found.st_mode & libc::S_IFMT == libc::S_IFCHR && found.st_rdev == number;
    if !is_device || !(ids::is_sandbox_id(found.st_uid) || ids::is_sandbox_id(found.st_gid)) {
        return Ok(false);
    }
    let held = format!("/proc/self/fd/{}", node.as_raw_fd());
    std::os::unix::fs::chown(&held, Some(0), Some(0))
        .and_then(|()| fs::set_permissions(&held, fs::Permissions::from_mode(NODE_MODE)))
        .context(repairing)?;
    Ok(true)
}
