//! Mounts by descriptor: created, changed and attached without a path that could be replaced.

use std::ffi::CStr;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use libc::{c_long, c_uint};

use super::{checked, cpath, cstring, owned};

pub const MOUNT_ATTR_RDONLY: u64 = 0x1;
pub const MOUNT_ATTR_NOSUID: u64 = 0x2;
pub const MOUNT_ATTR_NODEV: u64 = 0x4;
pub const MOUNT_ATTR_NOEXEC: u64 = 0x8;
pub const MOUNT_ATTR_NOATIME: u64 = 0x10;
const MOUNT_ATTR_ATIME: u64 = 0x70;
const MOUNT_ATTR_IDMAP: u64 = 0x0010_0000;

const OPEN_TREE_CLONE: c_uint = 1;
const MOVE_MOUNT_F_EMPTY_PATH: c_uint = 0x4;
const AT_RECURSIVE: c_uint = 0x8000;
const FSOPEN_CLOEXEC: c_uint = 1;
const FSMOUNT_CLOEXEC: c_uint = 1;
const FSCONFIG_SET_FLAG: c_uint = 0;
const FSCONFIG_SET_STRING: c_uint = 1;
const FSCONFIG_CMD_CREATE: c_uint = 6;

#[repr(C)]
#[derive(Default)]
struct MountAttr {
    attr_set: u64,
    attr_clr: u64,
    propagation: u64,
    userns_fd: u64,
}

/// Makes every mount of this namespace private.
pub fn make_mounts_private() -> io::Result<()> {
    // SAFETY: constant strings; null is allowed for the fields a propagation change ignores.
    checked(unsafe {
        libc::mount(
            std::ptr::null(),
            c"/".as_ptr(),
            std::ptr::null(),
            libc::MS_REC | libc::MS_PRIVATE,
            std::ptr::null(),
        )
    } as c_long)
    .map(drop)
}

pub fn mount_tmpfs(at: &Path, options: &CStr) -> io::Result<()> {
    let at = cpath(at)?;
    // SAFETY: all strings are NUL-terminated and outlive the call.
    checked(unsafe {
        libc::mount(
            c"tmpfs".as_ptr(),
            at.as_ptr(),
            c"tmpfs".as_ptr(),
            libc::MS_NODEV | libc::MS_NOSUID | libc::MS_NOEXEC,
            options.as_ptr().cast(),
        )
    } as c_long)
    .map(drop)
}

/// Detaches a mount and everything below it from this namespace.
pub fn detach_mount(at: &Path) -> io::Result<()> {
    let at = cpath(at)?;
    // SAFETY: a NUL-terminated string and plain flags.
    checked(
        unsafe { libc::umount2(at.as_ptr(), libc::MNT_DETACH | libc::UMOUNT_NOFOLLOW) } as c_long,
    )
    .map(drop)
}

/// A detached copy of the mount at `path`, with nothing above it: `..` of its root is its root.
pub fn clone_tree(path: &Path, recursive: bool) -> io::Result<OwnedFd> {
    let path = cpath(path)?;
    let mut flags =
        OPEN_TREE_CLONE | libc::O_CLOEXEC as c_uint | libc::AT_SYMLINK_NOFOLLOW as c_uint;
    if recursive {
        flags |= AT_RECURSIVE;
    }
    // SAFETY: a NUL-terminated string and plain flags.
    owned(unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags) })
}

/// Sets attributes of a mount held by descriptor, and its id map if a user namespace is given.
pub fn set_mount_attributes(
    mount: BorrowedFd<'_>,
    set: u64,
    idmap: Option<BorrowedFd<'_>>,
    recursive: bool,
) -> io::Result<()> {
    let mut attr = MountAttr {
        attr_set: set,
        ..MountAttr::default()
    };
    if set & MOUNT_ATTR_NOATIME != 0 {
        // The kernel requires clearing the old atime setting before a new one is set.
        attr.attr_clr = MOUNT_ATTR_ATIME;
    }
    if let Some(userns) = idmap {
        attr.attr_set |= MOUNT_ATTR_IDMAP;
        attr.userns_fd = userns.as_raw_fd() as u64;
    }
    let flags = libc::AT_EMPTY_PATH as c_uint | if recursive { AT_RECURSIVE } else { 0 };
    // SAFETY: `attr` is a live struct of the size given.
    checked(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &attr,
            mem::size_of::<MountAttr>(),
        )
    })
    .map(drop)
}

/// Attaches a detached mount at `to`.
pub fn attach_mount(mount: BorrowedFd<'_>, to: &Path) -> io::Result<()> {
    let to = cpath(to)?;
    // SAFETY: NUL-terminated strings and plain flags.
    checked(unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_FDCWD,
            to.as_ptr(),
            MOVE_MOUNT_F_EMPTY_PATH,
        )
    })
    .map(drop)
}

/// Attaches a detached mount onto the file or directory that `target` holds.
pub fn attach_mount_on(mount: BorrowedFd<'_>, target: BorrowedFd<'_>) -> io::Result<()> {
    const MOVE_MOUNT_T_EMPTY_PATH: c_uint = 0x40;
    // SAFETY: constant strings, valid descriptors, plain flags.
    checked(unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            mount.as_raw_fd(),
            c"".as_ptr(),
            target.as_raw_fd(),
            c"".as_ptr(),
            MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH,
        )
    })
    .map(drop)
}

/// An option of a filesystem about to be mounted: a bare word or a key with its value.
pub enum FsOption<'a> {
    Flag(&'a str),
    Value(&'a str, &'a [u8]),
}

/// Creates a new filesystem instance and returns it as a detached mount with these attributes.
pub fn new_mount(kind: &str, options: &[FsOption<'_>], attributes: u64) -> io::Result<OwnedFd> {
    let kind = cstring(kind.as_bytes())?;
    // SAFETY: a NUL-terminated string and a plain flag.
    let fs = owned(unsafe { libc::syscall(libc::SYS_fsopen, kind.as_ptr(), FSOPEN_CLOEXEC) })?;
    for option in options {
        let (command, key, value) = match option {
            FsOption::Flag(key) => (FSCONFIG_SET_FLAG, key, None),
            FsOption::Value(key, value) => (FSCONFIG_SET_STRING, key, Some(cstring(value)?)),
        };
        configure(&fs, command, Some(key), value.as_deref())?;
    }
    configure(&fs, FSCONFIG_CMD_CREATE, None, None)?;
    // SAFETY: a valid descriptor and plain flags.
    owned(unsafe {
        libc::syscall(
            libc::SYS_fsmount,
            fs.as_raw_fd(),
            FSMOUNT_CLOEXEC,
            attributes as c_uint,
        )
    })
    .map_err(|error| explain(&fs, error))
}

fn configure(
    fs: &OwnedFd,
    command: c_uint,
    key: Option<&str>,
    value: Option<&CStr>,
) -> io::Result<()> {
    let key_text = key.map(|text| cstring(text.as_bytes())).transpose()?;
    let pointer = |text: Option<&CStr>| text.map_or(std::ptr::null(), CStr::as_ptr);
    // SAFETY: both strings are NUL-terminated or null and outlive the call.
    checked(unsafe {
        libc::syscall(
            libc::SYS_fsconfig,
            fs.as_raw_fd(),
            command,
            pointer(key_text.as_deref()),
            pointer(value),
            0,
        )
    })
    .map(drop)
    .map_err(|error| explain(fs, error))
}

/// The kernel puts its reasons for refusing a mount into the filesystem context.
fn explain(fs: &OwnedFd, error: io::Error) -> io::Error {
    let mut buffer = [0u8; 512];
    // SAFETY: the buffer is ours and its length is given.
    let read = unsafe { libc::read(fs.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) };
    match usize::try_from(read) {
        Ok(length) if length > 0 => {
            let reason = String::from_utf8_lossy(&buffer[..length]).trim().to_owned();
            io::Error::new(error.kind(), format!("{error} ({reason})"))
        }
        _ => error,
    }
}
