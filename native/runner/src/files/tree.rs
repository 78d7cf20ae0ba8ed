//! Creates directories and moves entries.

use super::commit::take_turn;
use super::place::{answer, shown};
use super::write::exists as exists_already;
use super::{copy, is_kind, read, stat_at};
use crate::protocol::failure::Failure;
use crate::sys;
use crate::workers::Mailbox;
use serde_json::{Value, json};
use std::ffi::CStr;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::RawFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

const DEFAULT_MODE: u32 = 0o755;

pub fn make_directory(path: &Path, mode: Option<u32>, parents: bool) -> Result<Value, Failure> {
    let failed = |error: io::Error| Failure::io("make directory", &shown(path), &error);
    let mode = mode.unwrap_or(DEFAULT_MODE) & 0o777;
    let existed = path.is_dir();
    DirBuilder::new()
        .recursive(parents)
        .mode(mode)
        .create(path)
        .map_err(failed)?;
    if !existed {
        // The umask cut the mode above; it does not affect this one.
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(failed)?;
    }
    Ok(answer(path, json!({})))
}

pub fn make_parents(path: &Path) -> Result<(), Failure> {
    DirBuilder::new()
        .recursive(true)
        .mode(DEFAULT_MODE)
        .create(path)
        .map_err(|error| Failure::io("make directory", &shown(path), &error))
}

pub fn move_entry(
    from: &Path,
    to: &Path,
    overwrite: bool,
    mailbox: &Mailbox,
) -> Result<Value, Failure> {
    match rename(from, to, overwrite) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::EXDEV) => {
            copy_over(from, to, overwrite, mailbox)?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && !exists(from) => {
            return Err(Failure::io("move", &shown(from), &error));
        }
        // The only argument that the kernel can find invalid here.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            let message = format!("{} cannot be moved into itself", shown(from));
            return Err(Failure::invalid(message));
        }
        Err(error) => return Err(Failure::io("move to", &shown(to), &error)),
    }
    Ok(answer(to, json!({})))
}

fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

fn rename(from: &Path, to: &Path, overwrite: bool) -> io::Result<()> {
    let (from, to) = (sys::c_path(from)?, sys::c_path(to)?);
    let _turn = take_turn();
    rename_at(libc::AT_FDCWD, &from, libc::AT_FDCWD, &to, overwrite)
}

pub fn rename_at(
    from_dir: RawFd,
    from: &CStr,
    to_dir: RawFd,
    to: &CStr,
    overwrite: bool,
) -> io::Result<()> {
    if overwrite {
        return rename_with(from_dir, from, to_dir, to, 0);
    }
    match rename_with(from_dir, from, to_dir, to, libc::RENAME_NOREPLACE) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            place_by_name(from_dir, from, to_dir, to)
        }
        renamed => renamed,
    }
}

/// Renames without replacing on file systems that cannot do so in one step, such as gVisor's for
/// host directories. A call that fails if the new name exists claims that name.
fn place_by_name(from_dir: RawFd, from: &CStr, to_dir: RawFd, to: &CStr) -> io::Result<()> {
    if !is_kind(&stat_at(from_dir, from)?, libc::S_IFDIR) {
        // SAFETY: both are valid C strings; without flags no link is followed.
        let linked = unsafe { libc::linkat(from_dir, from.as_ptr(), to_dir, to.as_ptr(), 0) };
        sys::check(linked)?;
        // SAFETY: as above.
        return sys::check(unsafe { libc::unlinkat(from_dir, from.as_ptr(), 0) })
            .map(drop)
            .inspect_err(|_| unlink(to_dir, to, 0));
    }
    // SAFETY: as above.
    sys::check(unsafe { libc::mkdirat(to_dir, to.as_ptr(), 0o700) })?;
    rename_with(from_dir, from, to_dir, to, 0)
        .inspect_err(|_| unlink(to_dir, to, libc::AT_REMOVEDIR))
}

fn unlink(dir: RawFd, name: &CStr, flags: i32) {
    // SAFETY: name is a valid C string.
    unsafe { libc::unlinkat(dir, name.as_ptr(), flags) };
}

fn rename_with(
    from_dir: RawFd,
    from: &CStr,
    to_dir: RawFd,
    to: &CStr,
    flags: u32,
) -> io::Result<()> {
    // SAFETY: both are valid C strings.
    let result = unsafe {
        libc::syscall(
            libc::SYS_renameat2,
            from_dir,
            from.as_ptr(),
            to_dir,
            to.as_ptr(),
            flags,
        )
    };
    sys::check(result as i32).map(drop)
}

/// Only a regular file can be moved between file systems, by copying it.
fn copy_over(from: &Path, to: &Path, overwrite: bool, mailbox: &Mailbox) -> Result<(), Failure> {
    if !fs::symlink_metadata(from).is_ok_and(|found| found.is_file()) {
        let message = format!(
            "{} is on another file system than {}; use `mv` in the shell",
            shown(from),
            shown(to)
        );
        return Err(Failure::new("unsupported", message));
    }
    if !overwrite && exists(to) {
        return Err(exists_already(to));
    }
    // From the open descriptor, because the name may refer to a pipe by now.
    copy::copy_file(read::open_regular(from)?, to, overwrite, mailbox)?;
    fs::remove_file(from).map_err(|error| Failure::io("remove", &shown(from), &error))
}
