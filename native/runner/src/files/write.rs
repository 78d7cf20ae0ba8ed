//! Writes a file: readers see the old content or the new, never a part.

use super::commit::{Condition, take_turn};
use super::place::{answer, require_file_name, shown};
use super::read::not_regular;
use super::temporary::Temporary;
use super::{is_kind, open_itself, stat_at, tree};
use crate::protocol::failure::Failure;
use crate::sys;
use crate::workers::Mailbox;
use serde_json::{Value, json};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const MAX_LINKS: usize = 40;
pub const DEFAULT_MODE: u32 = 0o644;

pub struct Writing {
    pub mode: Option<u32>,
    pub overwrite: bool,
    pub parents: bool,
    pub condition: Condition,
}

pub fn write(path: &Path, writing: &Writing, mailbox: &Mailbox) -> Result<Value, Failure> {
    require_file_name("write", path)?;
    let target = follow(path)?;
    let existing_mode = existing(&target, writing.overwrite)?;
    let Some(parent) = target.parent() else {
        return Err(Failure::new("is_directory", "/ is a directory"));
    };
    if writing.parents {
        tree::make_parents(parent)?;
    }
    let mode = writing.mode.or(existing_mode).unwrap_or(DEFAULT_MODE) & 0o777;
    let temporary = Temporary::create(parent, mode)?;
    let mut size = 0u64;
    while let Some(data) = mailbox.receive()? {
        temporary.write(&data)?;
        size += data.len() as u64;
    }
    if let Ok(replaced) = open_itself(&target) {
        mailbox.hold(replaced);
    }
    let failed = |error: io::Error| Failure::io("write", &shown(path), &error);
    let name = target.file_name().unwrap_or_default().as_bytes();
    let name = sys::c_string(name).map_err(failed)?;
    let version = {
        let _turn = take_turn();
        let _lock = writing
            .condition
            .check(&temporary.directory, &name, path, mailbox)?;
        temporary.become_file(&name, writing.overwrite)
    };
    match version {
        Ok(version) => Ok(answer(path, json!({ "size": size, "version": version }))),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(exists(path)),
        Err(error) => Err(failed(error)),
    }
}

/// Writing to a link writes to its target, as everywhere else.
pub fn follow(path: &Path) -> Result<PathBuf, Failure> {
    let mut path = path.to_path_buf();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&path) {
            Ok(target) => {
                path = path.parent().unwrap_or(Path::new("/")).join(target);
            }
            Err(_) => return Ok(path),
        }
    }
    Err(Failure::new(
        "loop",
        format!("{}: too many links", shown(&path)),
    ))
}

/// The mode of the existing file.
fn existing(path: &Path, overwrite: bool) -> Result<Option<u32>, Failure> {
    let failed = |error| Failure::io("write", &shown(path), &error);
    let c_path = sys::c_path(path).map_err(failed)?;
    let found = match stat_at(libc::AT_FDCWD, &c_path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    if is_kind(&found, libc::S_IFDIR) {
        let message = format!("{} is a directory", shown(path));
        return Err(Failure::new("is_directory", message));
    }
    if !is_kind(&found, libc::S_IFREG) {
        return Err(not_regular(path));
    }
    if !overwrite {
        return Err(exists(path));
    }
    Ok(Some(found.st_mode))
}

pub fn exists(path: &Path) -> Failure {
    Failure::new("exists", format!("{} exists already", shown(path)))
}
