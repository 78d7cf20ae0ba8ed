//! The sandbox's filesystems, assembled in a private mount namespace.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::disk;
use crate::fault::{Context, Fault, Outcome};
use crate::root_files;
use crate::spec::{Bind, Rootfs};
use crate::sys::{self, FsOption, MOUNT_ATTR_NODEV, MOUNT_ATTR_NOSUID, MOUNT_ATTR_RDONLY};

/// Where the private namespace keeps its mounts. The runtime enters them with the sandbox's rights,
/// so every parent must be accessible to all, which the state directory must not be. This directory
/// exists on every machine, and runtimes do not need it.
const SCRATCH: &str = "/sys/firmware";

/// SECURITY: device nodes and set-id bits on these mounts have no effect, whatever the image or the
/// sandbox creates (threat: gaining privileges).
pub const HARMLESS: u64 = MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID;
pub const READ_ONLY: u64 = HARMLESS | MOUNT_ATTR_RDONLY;

pub fn disk_path() -> PathBuf {
    Path::new(SCRATCH).join("disk")
}

pub fn rootfs_path() -> PathBuf {
    Path::new(SCRATCH).join("rootfs")
}

pub fn runner_path() -> PathBuf {
    Path::new(SCRATCH).join("runner")
}

/// The directory of the sandbox's own disk that becomes its /workspace, or is covered by one.
pub fn workspace_path() -> PathBuf {
    disk_path().join("workspace")
}

/// The mount point of a persistent workspace's whole disk.
pub fn workspace_disk_path() -> PathBuf {
    Path::new(SCRATCH).join("workspace-disk")
}

/// The sandbox's /dev.
pub fn devices_path() -> PathBuf {
    Path::new(SCRATCH).join("dev")
}

/// The whole disk of a further workspace, and its files.
pub fn further_workspace_paths(number: usize) -> [PathBuf; 2] {
    ["further-disk", "further-files"]
        .map(|name| Path::new(SCRATCH).join(format!("{name}-{number}")))
}

/// Files that only the runtime reads.
pub fn runtime_files_path() -> PathBuf {
    Path::new(SCRATCH).join("runtime")
}

/// A layer below the image, with mount points for further workspaces that the image lacks.
fn mount_points_path() -> PathBuf {
    Path::new(SCRATCH).join("mount-points")
}

fn lower_path() -> PathBuf {
    Path::new(SCRATCH).join("lower")
}

/// A layer over the image, with files that only this sandbox has.
fn root_files_path() -> PathBuf {
    Path::new(SCRATCH).join("files")
}

/// Always empty: the second layer that an overlay without a writable layer requires.
fn empty_path() -> PathBuf {
    Path::new(SCRATCH).join("empty")
}

/// The directory that contains the runner, and the same directory with its path hidden.
fn runner_directory_path() -> PathBuf {
    Path::new(SCRATCH).join("runner-directory")
}

fn runner_view_path() -> PathBuf {
    Path::new(SCRATCH).join("runner-view")
}

/// Enters a private mount namespace and creates its mount points.
///
/// SECURITY: everything is made private, not slave and not shared: no mount made here reaches the
/// host, and no later mount of the host reaches the sandbox (guarded by
/// `create_and_destroy_leave_nothing_with_crun`).
pub fn enter_private_namespace() -> Outcome<()> {
    sys::unshare(libc::CLONE_NEWNS).context(|| "creating a mount namespace".into())?;
    sys::make_mounts_private().context(|| "making the mount namespace private".into())?;
    let scratch = Path::new(SCRATCH);
    sys::mount_tmpfs(scratch, c"mode=0755,size=64m,nr_inodes=256")
        .context(|| format!("mounting a tmpfs at {SCRATCH}"))?;
    let prepared = (|| -> io::Result<()> {
        for directory in [
            disk_path(),
            workspace_disk_path(),
            rootfs_path(),
            lower_path(),
            devices_path(),
            empty_path(),
            mount_points_path(),
            root_files_path(),
            runner_directory_path(),
            runner_view_path(),
        ] {
            fs::create_dir(directory)?;
        }
        // The configuration has secrets of the sandbox.
        fs::DirBuilder::new()
            .mode(0o700)
            .create(runtime_files_path())?;
        fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o755)
            .open(runner_path())
            .map(drop)
    })();
    prepared.context(|| format!("preparing {SCRATCH}"))
}

/// Removes the cover over the scratch directory, for a namespace that cannot simply be left.
pub fn leave_scratch() -> io::Result<()> {
    sys::detach_mount(Path::new(SCRATCH))
}

pub fn attach_clone(
    from: &Path,
    to: &Path,
    attributes: u64,
    idmap: Option<BorrowedFd<'_>>,
    recursive: bool,
) -> Outcome<()> {
    let mount = clone_with(from, attributes, idmap, recursive)?;
    sys::attach_mount(mount.as_fd(), to)
        .context(|| format!("attaching {} at {}", from.display(), to.display()))
}

fn clone_with(
    from: &Path,
    attributes: u64,
    idmap: Option<BorrowedFd<'_>>,
    recursive: bool,
) -> Outcome<OwnedFd> {
    let mount =
        sys::clone_tree(from, recursive).context(|| format!("opening {}", from.display()))?;
    sys::set_mount_attributes(mount.as_fd(), attributes, idmap, recursive).context(|| {
        let mapped = if idmap.is_some() { " and id map" } else { "" };
        format!(
            "setting the attributes{mapped} of {} (does its filesystem support that?)",
            from.display()
        )
    })?;
    Ok(mount)
}

/// The owner that the mounts map files to.
#[derive(Clone, Copy)]
pub enum Owner<'a> {
    /// A range of host ids that begins at `base`, and the user namespace that maps to it.
    Range { base: u32, idmap: BorrowedFd<'a> },
    /// The user namespace that we are in.
    Ourselves,
}

impl<'a> Owner<'a> {
    pub fn idmap(self) -> Option<BorrowedFd<'a>> {
        match self {
            Owner::Range { idmap, .. } => Some(idmap),
            Owner::Ourselves => None,
        }
    }

    /// The host id that is root in the sandbox.
    pub fn base(self) -> u32 {
        match self {
            Owner::Range { base, .. } => base,
            Owner::Ourselves => 0,
        }
    }
}

/// Whether a sandbox can see, in its mount table, where on the host its files are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum HostPaths {
    Hidden,
    Visible,
}

/// Mounts the root filesystem: the image read-only, or below an overlay that writes to the disk.
pub fn mount_rootfs(rootfs: &Rootfs, owner: Owner<'_>) -> Outcome<HostPaths> {
    let at = rootfs_path();
    // SECURITY: sandboxes share the image: read-only whatever the configuration says. Not
    // recursive: what the host has mounted below the image is not part of it.
    let (files, lower, mount_points) = (root_files_path(), lower_path(), mount_points_path());
    attach_clone(&rootfs.path, &lower, READ_ONLY, owner.idmap(), false)?;
    let mut layers = vec![&*lower, &*mount_points];
    if !rootfs.files.is_empty() {
        root_files::mount_layer(&rootfs.files, &lower, &files, owner)?;
        layers.insert(0, &files);
    }
    let shown = if rootfs.writable {
        mount_writable_overlay(&layers, &at, owner)?;
        HostPaths::Hidden
    } else {
        mount_without_path(&rootfs.path, &layers, &at, owner)?
    };
    let root = open_root(&at)?;
    for bind in &rootfs.binds {
        mount_bind(root.as_fd(), bind)?;
    }
    Ok(shown)
}

fn mount_writable_overlay(layers: &[&Path], at: &Path, owner: Owner<'_>) -> Outcome<()> {
    let disk = disk_path();
    let overlay = new_overlay(
        layers,
        Some((&disk.join("upper"), &disk.join("work"))),
        owner,
    )?;
    sys::attach_mount(overlay.as_fd(), at)
        .context(|| format!("attaching the overlay at {}", at.display()))?;
    if sys::is_read_only(at).context(|| format!("inspecting {}", at.display()))? {
        return Err(Fault::new(
            "the kernel mounted the overlay of a writable root read-only; dmesg shows why",
        ));
    }
    Ok(())
}

/// Creates the directories of a path below the image.
pub fn make_mount_point(path: &Path, owner: Owner<'_>) -> io::Result<()> {
    let base = owner.base();
    let mut at = mount_points_path();
    for part in path.strip_prefix("/").unwrap_or(path) {
        at.push(part);
        match fs::create_dir(&at) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            other => other?,
        }
        fs::set_permissions(&at, fs::Permissions::from_mode(0o755))?;
        sys::chown(&at, base, base)?;
    }
    Ok(())
}

/// Mounts `from`, a directory of the host, read-only at `to`, as one of the layers of an overlay.
/// `layers` name places where the directory is already mounted.
///
/// SECURITY: a bind mount reveals its host path in /proc/self/mountinfo; an overlay only reveals where
/// its layers were mounted, which is the same for all sandboxes (threat: leaked secrets and descriptors;
/// guarded by `mounts_reveal_no_host_paths`). Kernels before 5.19 have no overlay on id-mapped
/// layers.
fn mount_without_path(
    from: &Path,
    layers: &[&Path],
    to: &Path,
    owner: Owner<'_>,
) -> Outcome<HostPaths> {
    match new_overlay(layers, None, owner) {
        Ok(overlay) => {
            sys::set_mount_attributes(overlay.as_fd(), READ_ONLY, None, false)
                .and_then(|()| sys::attach_mount(overlay.as_fd(), to))
                .context(|| format!("attaching the overlay at {}", to.display()))?;
            Ok(HostPaths::Hidden)
        }
        Err(_) => {
            attach_clone(from, to, READ_ONLY, owner.idmap(), false)?;
            Ok(HostPaths::Visible)
        }
    }
}

/// Tries an overlay in the scratch directory.
pub fn try_overlay() -> Outcome<()> {
    let disk = disk_path();
    disk::fill(&disk, disk::Purpose::Sandbox, disk::Owners::Root)
        .context(|| "creating directories for an overlay".into())?;
    let writable = (&*disk.join("upper"), &*disk.join("work"));
    new_overlay(&[&lower_path()], Some(writable), Owner::Ourselves).map(drop)
}

/// An overlay of these layers, the first on top, optionally with a writable one and its work
/// directory.
fn new_overlay(
    layers: &[&Path],
    writable: Option<(&Path, &Path)>,
    owner: Owner<'_>,
) -> Outcome<OwnedFd> {
    let lower: Vec<&[u8]> = layers
        .iter()
        .map(|layer| layer.as_os_str().as_encoded_bytes())
        .collect();
    let lower = lower.join(&b':');
    let mut options = vec![
        FsOption::Value("source", b"overlay"),
        FsOption::Value("lowerdir", &lower),
    ];
    if let Some((upper, work)) = writable {
        options.push(FsOption::Value(
            "upperdir",
            upper.as_os_str().as_encoded_bytes(),
        ));
        options.push(FsOption::Value(
            "workdir",
            work.as_os_str().as_encoded_bytes(),
        ));
    }
    let mount = match owner {
        // An overlay works with the ids of the process that mounted it, and on the disk only those
        // of the sandbox exist.
        Owner::Range { base, .. } => {
            sys::with_filesystem_id(base, || sys::new_mount("overlay", &options, HARMLESS))
        }
        Owner::Ourselves => {
            // It stores metadata in attributes that can be written without root.
            options.push(FsOption::Flag("userxattr"));
            sys::new_mount("overlay", &options, HARMLESS)
        }
    };
    mount.context(|| "mounting an overlay".into())
}

/// SECURITY: not id-mapped: host files that only root may read stay unreadable, even to the
/// sandbox's root, which does not own them (guarded by `bind_mounts_do_not_expose_root_only_files`).
fn mount_bind(root: BorrowedFd<'_>, bind: &Bind) -> Outcome<()> {
    let mount = clone_with(&bind.from, READ_ONLY, None, true)?;
    let target = open_in_root(root, &bind.to, libc::O_PATH | libc::O_DIRECTORY).context(|| {
        format!(
            "the image has no directory {} to mount {} on",
            bind.to.display(),
            bind.from.display()
        )
    })?;
    sys::attach_mount_on(mount.as_fd(), target.as_fd())
        .context(|| format!("showing {} at {}", bind.from.display(), bind.to.display()))
}

/// Exposes the runner's file to the runtime.
pub fn mount_runner(runner: &Path) -> Outcome<HostPaths> {
    let resolved = fs::canonicalize(runner)
        .context(|| format!("looking for the runner {}", runner.display()))?;
    let (Some(directory), Some(name)) = (resolved.parent(), resolved.file_name()) else {
        return Err(Fault::new(format!("{} is not a file", runner.display())));
    };
    let view = runner_view_path();
    // Not mapped to the sandbox's owners: the runner belongs to the host, and everyone can read it.
    let (held, empty) = (runner_directory_path(), empty_path());
    attach_clone(directory, &held, READ_ONLY, None, false)?;
    let shown = mount_without_path(directory, &[&held, &empty], &view, Owner::Ourselves)?;
    attach_clone(&view.join(name), &runner_path(), READ_ONLY, None, false)?;
    Ok(shown)
}

pub fn open_root(path: &Path) -> Outcome<OwnedFd> {
    fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW)
        .open(path)
        .map(|file: File| file.into())
        .context(|| format!("opening {}", path.display()))
}

/// Opens an absolute path of the sandbox below `root`, without following any link.
pub fn open_in_root(root: BorrowedFd<'_>, path: &Path, flags: i32) -> io::Result<OwnedFd> {
    let relative = path.strip_prefix("/").unwrap_or(path);
    let relative = if relative.as_os_str().is_empty() {
        Path::new(".")
    } else {
        relative
    };
    let resolve = libc::RESOLVE_BENEATH | libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_MAGICLINKS;
    sys::open_beneath(root, relative, flags | libc::O_NOFOLLOW, resolve)
}
