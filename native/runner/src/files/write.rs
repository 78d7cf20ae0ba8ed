//! Writing a file: readers see the old content or the new, never a part.

use super::{is_kind, open_itself, open_named_directory, shown, stat_at, tree};
use crate::error::Failure;
use crate::sys;
use crate::worker::Mailbox;
use serde_json::{Value, json};
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const MAX_LINKS: usize = 40;
const DEFAULT_MODE: u32 = 0o644;

pub fn write(
    path: &Path,
    mode: Option<u32>,
    overwrite: bool,
    parents: bool,
    mailbox: &Mailbox,
) -> Result<Value, Failure> {
    let target = follow(path)?;
    let existing_mode = existing(&target, overwrite)?;
    let Some(parent) = target.parent() else {
        return Err(Failure::new("is_directory", "/ is a directory"));
    };
    if parents {
        tree::make_parents(parent)?;
    }
    let mode = mode.or(existing_mode).unwrap_or(DEFAULT_MODE) & 0o777;
    let temporary = Temporary::create(parent, mode)?;
    let mut size = 0u64;
    while let Some(data) = mailbox.receive()? {
        temporary.append(&data)?;
        size += data.len() as u64;
    }
    if let Ok(replaced) = open_itself(&target) {
        mailbox.hold(replaced);
    }
    temporary.become_file(&target, overwrite)?;
    Ok(json!({ "path": shown(path), "size": size }))
}

/// Writing to a link writes to what it leads to, as everywhere else.
fn follow(path: &Path) -> Result<PathBuf, Failure> {
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

/// The mode of the file that is there already.
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
        let message = format!("{} is no regular file", shown(path));
        return Err(Failure::new("not_regular", message));
    }
    if !overwrite {
        return Err(exists(path));
    }
    Ok(Some(found.st_mode))
}

fn exists(path: &Path) -> Failure {
    Failure::new("exists", format!("{} exists already", shown(path)))
}

/// A file that is gone again unless it becomes the real one. It is named by the directory it
/// was made in, wherever that is moved meanwhile.
struct Temporary {
    directory: OwnedFd,
    name: CString,
    file: OwnedFd,
    shown: String,
    kept: bool,
}

impl Temporary {
    fn create(parent: &Path, mode: u32) -> Result<Temporary, Failure> {
        let failed = |error: io::Error| Failure::io("write in", &shown(parent), &error);
        let directory = open_named_directory(parent).map_err(failed)?;
        let name = sys::random_hex()
            .and_then(|unique| sys::c_string(format!(".sandkasten-{unique}")))
            .map_err(failed)?;
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
        let file = sys::open_at(directory.as_raw_fd(), &name, flags, 0o600).map_err(failed)?;
        let temporary = Temporary {
            directory,
            name,
            file,
            shown: shown(parent),
            kept: false,
        };
        // SAFETY: plain system call on a descriptor that we own.
        sys::check(unsafe { libc::fchmod(temporary.file.as_raw_fd(), mode) }).map_err(failed)?;
        Ok(temporary)
    }

    fn append(&self, mut data: &[u8]) -> Result<(), Failure> {
        while !data.is_empty() {
            let n = sys::write(self.file.as_raw_fd(), data)
                .map_err(|error| Failure::io("write in", &self.shown, &error))?;
            data = &data[n..];
        }
        Ok(())
    }

    fn become_file(mut self, target: &Path, overwrite: bool) -> Result<(), Failure> {
        let failed = |error: io::Error| Failure::io("write", &shown(target), &error);
        let name = target.file_name().unwrap_or_default().as_bytes();
        let name = sys::c_string(name).map_err(failed)?;
        let directory = self.directory.as_raw_fd();
        match tree::rename_at(directory, &self.name, directory, &name, overwrite) {
            Ok(()) => {
                self.kept = true;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(exists(target)),
            Err(error) => Err(failed(error)),
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.kept {
            // SAFETY: the name is a valid C string.
            unsafe { libc::unlinkat(self.directory.as_raw_fd(), self.name.as_ptr(), 0) };
        }
    }
}
