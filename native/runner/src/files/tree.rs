//! Directories made, entries moved.

use super::{read, shown};
use crate::error::Failure;
use crate::sys;
use serde_json::{Value, json};
use std::ffi::CStr;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::{OwnedFd, RawFd};
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
        // The mode above is cut by the umask; this one is not.
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(failed)?;
    }
    Ok(json!({ "path": shown(path) }))
}

pub fn make_parents(path: &Path) -> Result<(), Failure> {
    DirBuilder::new()
        .recursive(true)
        .mode(DEFAULT_MODE)
        .create(path)
        .map_err(|error| Failure::io("make directory", &shown(path), &error))
}

pub fn move_entry(from: &Path, to: &Path, overwrite: bool) -> Result<Value, Failure> {
    match rename(from, to, overwrite) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::EXDEV) => copy_over(from, to, overwrite)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !exists(from) => {
            return Err(Failure::io("move", &shown(from), &error));
        }
        Err(error) => return Err(Failure::io("move to", &shown(to), &error)),
    }
    Ok(json!({ "path": shown(to) }))
}

fn copy(source: OwnedFd, to: &Path) -> io::Result<()> {
    let mut source = fs::File::from(source);
    let mode = source.metadata()?.permissions().mode();
    let mut target = fs::File::create_new(to)?;
    io::copy(&mut source, &mut target)?;
    target.set_permissions(fs::Permissions::from_mode(mode & 0o777))
}

fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

fn rename(from: &Path, to: &Path, overwrite: bool) -> io::Result<()> {
    let (from, to) = (sys::c_path(from)?, sys::c_path(to)?);
    rename_at(libc::AT_FDCWD, &from, libc::AT_FDCWD, &to, overwrite)
}

pub fn rename_at(
    from_dir: RawFd,
    from: &CStr,
    to_dir: RawFd,
    to: &CStr,
    overwrite: bool,
) -> io::Result<()> {
    let flags = if overwrite { 0 } else { libc::RENAME_NOREPLACE };
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

/// Between file systems only a regular file can be moved, by copying it.
fn copy_over(from: &Path, to: &Path, overwrite: bool) -> Result<(), Failure> {
    if !fs::symlink_metadata(from).is_ok_and(|found| found.is_file()) {
        let message = format!(
            "{} lies on another file system than {}; use `mv` in the shell",
            shown(from),
            shown(to)
        );
        return Err(Failure::new("unsupported", message));
    }
    if !overwrite && exists(to) {
        let message = format!("{} exists already", shown(to));
        return Err(Failure::new("exists", message));
    }
    let source = read::open_regular(from)?;
    let failed = |error: io::Error| Failure::io("move to", &shown(to), &error);
    let name = format!(".sandkasten-{}", sys::random_hex().map_err(failed)?);
    let temporary = to.parent().unwrap_or(Path::new("/")).join(name);
    // From the descriptor that was looked at: the name may stand for a pipe by now.
    let copied = copy(source, &temporary)
        .and_then(|()| rename(&temporary, to, overwrite))
        .map_err(failed);
    if copied.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    copied?;
    fs::remove_file(from).map_err(|error| Failure::io("remove", &shown(from), &error))
}
