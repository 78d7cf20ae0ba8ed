//! Mounts the sandbox's own disk and those of persistent workspaces, mapped to its ids.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::fault::{Context, Fault, Outcome};
use crate::loops::LoopDevice;
use crate::mounts::{
    HARMLESS, Owner, attach_clone, disk_path, further_workspace_paths, workspace_disk_path,
    workspace_path,
};
use crate::sys::{self, FsOption, MOUNT_ATTR_NOATIME, MOUNT_ATTR_RDONLY};

const EXT4_MAGIC: i64 = 0xEF53;

/// Mounts the sandbox's own disk.
pub fn mount_disk(
    device: &LoopDevice,
    bytes: u64,
    idmap: BorrowedFd<'_>,
    state_dir: &Path,
) -> Outcome<()> {
    mount_loop(device, bytes, idmap, &disk_path(), state_dir)
}

/// Where the disk of a persistent workspace is mounted, and where its files are exposed.
pub struct Place {
    pub disk: PathBuf,
    pub files: PathBuf,
    pub read_only: bool,
}

impl Place {
    /// Covers the workspace of the sandbox's own disk.
    pub fn own() -> Place {
        Place {
            disk: workspace_disk_path(),
            files: workspace_path(),
            read_only: false,
        }
    }

    /// Creates the directories of a further workspace.
    pub fn further(number: usize, read_only: bool) -> Outcome<Place> {
        let [disk, files] = further_workspace_paths(number);
        for path in [&disk, &files] {
            fs::create_dir(path).context(|| format!("making {}", path.display()))?;
        }
        Ok(Place {
            disk,
            files,
            read_only,
        })
    }

    /// SECURITY: the mount itself makes a workspace read-only, whatever the runtime does with its
    /// options (guarded by `further_workspaces_are_mounted_where_requested`).
    fn attributes(&self) -> u64 {
        if self.read_only {
            HARMLESS | MOUNT_ATTR_RDONLY
        } else {
            HARMLESS
        }
    }
}

/// Mounts the disk of a persistent workspace, and exposes its files at their place.
///
/// SECURITY: other sandboxes have written to this disk, and may be writing now: it gets the same
/// restrictions as the sandbox's own, and its root, with the name of the workspace, stays out of reach.
/// The kernel reads the image as root, and only the kernel has ever written it: code reaches neither the
/// file nor the block device, so it cannot create a filesystem that attacks the kernel (threats: device
/// access and gaining privileges; guarded by `workspace_files_grant_no_privileges`).
pub fn mount_workspace(
    device: &LoopDevice,
    bytes: u64,
    idmap: BorrowedFd<'_>,
    state_dir: &Path,
    place: &Place,
) -> Outcome<()> {
    mount_loop(device, bytes, idmap, &place.disk, state_dir)?;
    // A copy of a mount has the same attributes and id map.
    bind_workspace(&place.disk.join("workspace"), place)
}

/// Mounts the disk of a loop device with the sandbox's owners. If the device is already mounted
/// elsewhere, this is the same filesystem.
///
/// SECURITY: fails closed: the mount point must afterwards be the ext4 of that device, or the sandbox
/// would write to the host's disk without a limit (threats: filling a disk and using up inodes; guarded
/// by `a_full_disk_affects_only_its_sandbox`).
fn mount_loop(
    device: &LoopDevice,
    bytes: u64,
    idmap: BorrowedFd<'_>,
    at: &Path,
    state_dir: &Path,
) -> Outcome<()> {
    let source = device.path.as_os_str().as_encoded_bytes();
    let options = [
        FsOption::Value("source", source),
        // Inode tables are holes in the image and read as zeros; zeroing them would only fill it.
        FsOption::Flag("noinit_itable"),
        // SECURITY: a damaged disk becomes read-only; it never panics the host.
        FsOption::Value("errors", b"remount-ro"),
    ];
    let mount = sys::new_mount("ext4", &options, 0)
        .context(|| format!("mounting the disk on {}", device.path.display()))?;
    sys::set_mount_attributes(
        mount.as_fd(),
        HARMLESS | MOUNT_ATTR_NOATIME,
        Some(idmap),
        false,
    )
    .context(|| "mapping the owners of the disk".into())?;
    sys::attach_mount(mount.as_fd(), at)
        .context(|| format!("attaching the disk at {}", at.display()))?;
    verify_disk(device, at, bytes, state_dir)
}

fn verify_disk(device: &LoopDevice, at: &Path, bytes: u64, state_dir: &Path) -> Outcome<()> {
    let looking = || format!("inspecting the mounted disk {}", at.display());
    let kind = sys::filesystem_type(at).context(looking)?;
    let found = fs::metadata(at).context(looking)?.dev();
    let wanted = device.number().context(looking)?;
    let host = fs::metadata(state_dir).context(looking)?.dev();
    if kind != EXT4_MAGIC || found != wanted || found == host {
        return Err(Fault::new(
            "the disk was mounted, but another file system is at its mount point",
        ));
    }
    let total = sys::filesystem_bytes(at).context(looking)?;
    if total > bytes {
        return Err(Fault::new(format!(
            "the mounted disk has {total} bytes, more than the {bytes} allowed"
        )));
    }
    Ok(())
}

/// Uses a plain directory instead of a disk; it has no size limit.
pub fn bind_disk(directory: &Path, owner: Owner<'_>) -> Outcome<()> {
    attach_clone(directory, &disk_path(), HARMLESS, owner.idmap(), false)
}

/// Exposes a directory as a workspace. A plain host directory has no size limit.
pub fn bind_workspace(directory: &Path, place: &Place) -> Outcome<()> {
    attach_clone(directory, &place.files, place.attributes(), None, false)
}
