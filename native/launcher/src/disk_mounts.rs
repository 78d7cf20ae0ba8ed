//! The sandbox's disks, mounted with its owners: its own, and that of a persistent workspace.

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

/// Where the disk of a persistent workspace is mounted as a whole, and where its files are shown.
pub struct Place {
    pub disk: PathBuf,
    pub files: PathBuf,
    pub read_only: bool,
}

impl Place {
    /// Over the workspace of the sandbox's own disk.
    pub fn own() -> Place {
        Place {
            disk: workspace_disk_path(),
            files: workspace_path(),
            read_only: false,
        }
    }

    /// The directories of a further workspace, made now.
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

    /// SECURITY: a read-only one is so on the mount itself, whatever the runtime makes of its options
    /// (guarded by `further_workspaces_are_mounted_where_they_are_wanted`).
    fn attributes(&self) -> u64 {
        if self.read_only {
            HARMLESS | MOUNT_ATTR_RDONLY
        } else {
            HARMLESS
        }
    }
}

/// Mounts the disk of a persistent workspace, and shows its files at their place.
///
/// SECURITY: other sandboxes have written what is on this disk, and may be writing now: it is as
/// harmless as the own one, and its root, with what names the workspace, stays out of reach. The
/// image is read by the kernel as root, and only the kernel has ever written it: code reaches neither
/// the file nor the block device, so that it cannot make a filesystem to attack the kernel with
/// (threats: device access and gaining privileges; guarded by
/// `a_workspace_gives_no_power_to_what_is_in_it`).
pub fn mount_workspace(
    device: &LoopDevice,
    bytes: u64,
    idmap: BorrowedFd<'_>,
    state_dir: &Path,
    place: &Place,
) -> Outcome<()> {
    mount_loop(device, bytes, idmap, &place.disk, state_dir)?;
    // A copy of a mount has its attributes and its id map too.
    bind_workspace(&place.disk.join("workspace"), place)
}

/// Mounts the disk of a loop device with the sandbox's owners. A device that is mounted elsewhere
/// already is the same filesystem here.
///
/// SECURITY: fails closed: what is at the mount point afterwards must be the ext4 of that device,
/// else the sandbox would write to the host's disk without a limit (threats: filling a disk and using
/// up inodes; guarded by `a_full_disk_is_full_inside_only`).
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
        // SECURITY: a damaged disk turns read-only; it never panics the host.
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
    let looking = || format!("looking at the mounted disk {}", at.display());
    let kind = sys::filesystem_type(at).context(looking)?;
    let found = fs::metadata(at).context(looking)?.dev();
    let wanted = device.number().context(looking)?;
    let host = fs::metadata(state_dir).context(looking)?.dev();
    if kind != EXT4_MAGIC || found != wanted || found == host {
        return Err(Fault::new(
            "the disk was mounted, but something else is at its mount point",
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

/// Uses a plain directory in place of a disk; it has no limit of its own.
pub fn bind_disk(directory: &Path, owner: Owner<'_>) -> Outcome<()> {
    attach_clone(directory, &disk_path(), HARMLESS, owner.idmap(), false)
}

/// Shows a directory as a workspace. A plain one of the host has no limit of its own.
pub fn bind_workspace(directory: &Path, place: &Place) -> Outcome<()> {
    attach_clone(directory, &place.files, place.attributes(), None, false)
}
