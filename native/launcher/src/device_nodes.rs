//! The sandbox's /dev: device nodes for this sandbox only, on a private tmpfs.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::fault::{Context, Outcome};
use crate::mounts::{Owner, attach_clone, devices_path};
use crate::sys::{self, FsOption, MOUNT_ATTR_NOEXEC, MOUNT_ATTR_NOSUID, MOUNT_ATTR_RDONLY};

/// The character devices of a sandbox: name, major and minor number.
pub const NODES: [(&str, u32, u32); 6] = [
    ("null", 1, 3),
    ("zero", 1, 5),
    ("full", 1, 7),
    ("random", 1, 8),
    ("urandom", 1, 9),
    ("tty", 5, 0),
];

pub const NODE_MODE: u32 = 0o666;

const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// runc gives a tmpfs the mode of the directory that it covers, whatever its options say.
const MOUNT_POINTS: [(&str, u32); 2] = [("pts", 0o755), ("shm", 0o1777)];

/// Creates the sandbox's /dev and attaches it where the runtime finds it.
///
/// SECURITY: a runtime in a user namespace cannot create device nodes and exposes the host's own, on
/// which root inside can change owner, mode and times. These nodes are the sandbox's, or the host's
/// behind a read-only mount, which does not affect device access but prevents every change (threat:
/// device access; guarded by `device_nodes_belong_to_the_sandbox` and isolation-devices.test.ts).
pub fn make(owner: Owner<'_>) -> Outcome<()> {
    let at = devices_path();
    let base = match owner {
        Owner::Range { base, .. } => base,
        Owner::Ourselves => 0,
    };
    let id = base.to_string();
    let options = [
        FsOption::Value("mode", b"0755"),
        FsOption::Value("size", b"64k"),
        FsOption::Value("nr_inodes", b"64"),
        FsOption::Value("uid", id.as_bytes()),
        FsOption::Value("gid", id.as_bytes()),
    ];
    let mount = sys::new_mount("tmpfs", &options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC)
        .context(|| "mounting a tmpfs for device nodes".into())?;
    sys::attach_mount(mount.as_fd(), &at)
        .context(|| format!("attaching the tmpfs for device nodes at {}", at.display()))?;
    let filling = || format!("filling {}", at.display());
    fill(&at, base).context(filling)?;
    for (name, major, minor) in NODES {
        let node = at.join(name);
        match owner {
            Owner::Range { base, .. } => {
                sys::make_character_node(&node, major, minor, NODE_MODE)
                    .and_then(|()| sys::chown(&node, base, base))
                    .context(|| format!("making {}", node.display()))?;
            }
            Owner::Ourselves => show_host_node(name, &node)?,
        }
    }
    Ok(())
}

fn fill(at: &Path, base: u32) -> io::Result<()> {
    for (name, mode) in MOUNT_POINTS {
        let path = at.join(name);
        fs::create_dir(&path)?;
        sys::chown(&path, base, base)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
    }
    for (name, target) in LINKS {
        symlink(target, at.join(name))?;
        sys::chown(&at.join(name), base, base)?;
    }
    Ok(())
}

/// Without root the kernel does not allow creating device nodes.
fn show_host_node(name: &str, at: &Path) -> Outcome<()> {
    File::create(at).context(|| format!("making {}", at.display()))?;
    let host = PathBuf::from("/dev").join(name);
    attach_clone(
        &host,
        at,
        MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC,
        None,
        false,
    )
}
