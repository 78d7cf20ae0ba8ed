//! Removes files and directories at any depth.

use super::commit::take_turn;
use super::place::{answer, require_directory_if_named, shown};
use super::{for_each_name, identity, open_directory, open_named_directory};
use crate::protocol::failure::Failure;
use crate::sys;
use crate::workers::Mailbox;
use serde_json::{Value, json};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub fn remove(path: &Path, recursive: bool, mailbox: &Mailbox) -> Result<Value, Failure> {
    let failed = |error: io::Error| Failure::io("remove", &shown(path), &error);
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Failure::invalid(format!(
            "{} cannot be removed",
            shown(path)
        )));
    };
    require_directory_if_named("remove", path)?;
    let parent = open_named_directory(parent).map_err(failed)?;
    let name = sys::c_string(name.as_bytes()).map_err(failed)?;
    let removed = {
        let _turn = take_turn();
        remove_one(parent.as_raw_fd(), &name, false)
    };
    match removed {
        Ok(()) => {}
        Err(error) if !is_occupied(&error) => return Err(failed(error)),
        Err(_) if !recursive => {
            let message = format!(
                "{} is a directory that is not empty; remove it with `recursive`",
                shown(path)
            );
            return Err(Failure::new("exists", message));
        }
        Err(_) => {
            let cancelled = || mailbox.cancelled();
            remove_tree(parent, name, path, Trees::AsTheyAre, &cancelled)?;
        }
    }
    Ok(answer(path, json!({})))
}

/// Whether it is a non-empty directory.
fn is_occupied(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOTEMPTY | libc::EEXIST))
}

fn unlink_at(dir: RawFd, name: &CString, flags: i32) -> io::Result<()> {
    // SAFETY: name is a valid C string.
    sys::check(unsafe { libc::unlinkat(dir, name.as_ptr(), flags) }).map(drop)
}

/// `unlink` of a directory returns EISDIR or EPERM; only the first is unambiguous.
fn is_directory(error: &io::Error, dir: RawFd, name: &CString) -> bool {
    match error.raw_os_error() {
        Some(libc::EISDIR) => true,
        Some(libc::EPERM) => {
            super::stat_at(dir, name).is_ok_and(|found| super::is_kind(&found, libc::S_IFDIR))
        }
        _ => false,
    }
}

/// Goes down and up with one descriptor, so depth costs no descriptors. On the way up it checks
/// that it is back in the directory it came from: if a directory was moved in between, it would
/// otherwise remove something that was not requested.
pub fn remove_tree(
    parent: OwnedFd,
    name: CString,
    path: &Path,
    trees: Trees,
    cancelled: &dyn Fn() -> bool,
) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::io("remove in", &shown(path), &error);
    let mut trail: Vec<((u64, u64), CString)> = Vec::new();
    let mut here = open_directory(parent.as_raw_fd(), &name).map_err(failed)?;
    trail.push((identity(&parent).map_err(failed)?, name));
    drop(parent);
    loop {
        if cancelled() {
            return Err(Failure::cancelled());
        }
        if matches!(trees, Trees::Unlocked) {
            // SAFETY: plain system call on a descriptor that we own.
            unsafe { libc::fchmod(here.as_raw_fd(), 0o700) };
        }
        match clear(&here).map_err(failed)? {
            Cleared::Partly => {}
            Cleared::AllBut(child) => {
                let next = open_directory(here.as_raw_fd(), &child).map_err(failed)?;
                trail.push((identity(&here).map_err(failed)?, child));
                here = next;
            }
            Cleared::Empty => {
                let Some((expected, name)) = trail.pop() else {
                    return Ok(());
                };
                let above = open_directory(here.as_raw_fd(), c"..").map_err(failed)?;
                if identity(&above).map_err(failed)? != expected {
                    let message = format!("{} changed while it was being removed", shown(path));
                    return Err(Failure::new("busy", message));
                }
                unlink_at(above.as_raw_fd(), &name, libc::AT_REMOVEDIR).map_err(failed)?;
                if trail.is_empty() {
                    return Ok(());
                }
                here = above;
            }
        }
    }
}

/// How to treat directories that their owner may not write to.
#[derive(Clone, Copy)]
pub enum Trees {
    AsTheyAre,
    /// The remover created them, and makes them writable.
    Unlocked,
}

enum Cleared {
    /// Something was removed; file systems may have skipped other names in the listing.
    Partly,
    /// This directory is not empty and must be entered.
    AllBut(CString),
    Empty,
}

/// Removes everything that can be removed at once.
fn clear(dir: &OwnedFd) -> io::Result<Cleared> {
    let mut cleared = Cleared::Empty;
    let mut problem = None;
    for_each_name(dir, |name, kind| {
        if problem.is_some() || matches!(cleared, Cleared::AllBut(_)) {
            return;
        }
        let Ok(name) = sys::c_string(name) else {
            return;
        };
        match remove_one(dir.as_raw_fd(), &name, kind == libc::DT_DIR) {
            Ok(()) => cleared = Cleared::Partly,
            Err(error) => match error.raw_os_error() {
                Some(libc::ENOENT) => {}
                _ if is_occupied(&error) => cleared = Cleared::AllBut(name),
                _ => problem = Some(error),
            },
        }
    })?;
    problem.map_or(Ok(cleared), Err)
}

fn remove_one(dir: RawFd, name: &CString, known_directory: bool) -> io::Result<()> {
    if !known_directory {
        match unlink_at(dir, name, 0) {
            Err(error) if is_directory(&error, dir, name) => {}
            outcome => return outcome,
        }
    }
    unlink_at(dir, name, libc::AT_REMOVEDIR)
}
