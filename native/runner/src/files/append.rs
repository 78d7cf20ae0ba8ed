//! Appends to a file: the whole body, or nothing.

use super::commit::{Condition, take_turn};
use super::place::{answer, require_file_name, shown};
use super::read::{not_regular, require_regular};
use super::temporary::Temporary;
use super::write::{DEFAULT_MODE, follow};
use super::{entry, open_named_directory, open_plainly, stat_fd, tree};
use crate::protocol::failure::Failure;
use crate::sys;
use crate::workers::Mailbox;
use serde_json::{Value, json};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// A body up to this size is kept in memory and written by one call, so that other writes to the
/// same file cannot interleave.
const PIECE: usize = 128 * 1024;

/// Large bodies are written in several pieces; those of two requests must not mix.
static APPENDING: Mutex<()> = Mutex::new(());

pub struct Appending {
    pub mode: Option<u32>,
    pub parents: bool,
    pub condition: Condition,
}

pub fn append(path: &Path, appending: &Appending, mailbox: &Mailbox) -> Result<Value, Failure> {
    require_file_name("append to", path)?;
    let target = follow(path)?;
    let parent = target.parent().unwrap_or(Path::new("/"));
    // Fail before the body arrives if the file cannot be appended to.
    if open(&target, 0, 0)?.is_none() && appending.parents {
        tree::make_parents(parent)?;
    }
    let body = Body::receive(parent, mailbox)?;
    let _alone = APPENDING.lock().unwrap_or_else(PoisonError::into_inner);
    let failed = |error: io::Error| Failure::io("append to", &shown(path), &error);
    let mode = appending.mode.unwrap_or(DEFAULT_MODE) & 0o777;
    let directory = open_named_directory(parent).map_err(failed)?;
    let name = target.file_name().unwrap_or_default().as_bytes();
    let name = sys::c_string(name).map_err(failed)?;
    let mut turn = Some(take_turn());
    let _lock = appending
        .condition
        .check(&directory, &name, path, mailbox)?;
    let file = open_or_create(&target, mode)?;
    let found = stat_fd(file.as_raw_fd()).map_err(failed)?;
    appending
        .condition
        .check_version(&entry::version_of(&found), path)?;
    reserve(&file, found.st_size, body.size).map_err(failed)?;
    let mut written = 0;
    let outcome = body.each(|mut piece| {
        let _turn = turn.take().unwrap_or_else(take_turn);
        while !piece.is_empty() {
            let n = sys::write(file.as_raw_fd(), piece).map_err(failed)?;
            written += n as i64;
            piece = &piece[n..];
        }
        Ok(())
    });
    if let Err(failure) = outcome {
        take_back(&file, found.st_size, written);
        return Err(failure);
    }
    let found = stat_fd(file.as_raw_fd()).map_err(failed)?;
    let (size, version) = (entry::size_of(&found), entry::version_of(&found));
    Ok(answer(path, json!({ "size": size, "version": version })))
}

/// `None` if the file does not exist.
fn open(path: &Path, flags: i32, mode: u32) -> Result<Option<OwnedFd>, Failure> {
    let flags = flags | libc::O_WRONLY | libc::O_APPEND | libc::O_NONBLOCK | libc::O_NOCTTY;
    match open_plainly(path, flags, mode) {
        Ok(file) => require_regular(file, path).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENXIO | libc::ENODEV)) => {
            Err(not_regular(path))
        }
        Err(error) => Err(Failure::io("append to", &shown(path), &error)),
    }
}

fn open_or_create(path: &Path, mode: u32) -> Result<OwnedFd, Failure> {
    if let Some(file) = open(path, 0, 0)? {
        return Ok(file);
    }
    let missing = || {
        let error = io::Error::from_raw_os_error(libc::ENOENT);
        Failure::io("append to", &shown(path), &error)
    };
    let file = open(path, libc::O_CREAT, mode)?.ok_or_else(missing)?;
    // The umask cut the mode above; it does not affect this one.
    // SAFETY: plain system call on a descriptor that we own.
    sys::check(unsafe { libc::fchmod(file.as_raw_fd(), mode) })
        .map_err(|error| Failure::io("append to", &shown(path), &error))?;
    Ok(file)
}

/// Makes sure that the disk has room for all of it. Not every file system can do this.
fn reserve(file: &OwnedFd, size: i64, more: u64) -> io::Result<()> {
    let Ok(more @ 1..) = i64::try_from(more) else {
        return Ok(());
    };
    // SAFETY: plain system call on a descriptor that we own.
    let reserved =
        unsafe { libc::fallocate(file.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, size, more) };
    match sys::check(reserved) {
        Err(error)
            if matches!(
                error.raw_os_error(),
                Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG)
            ) =>
        {
            Err(error)
        }
        _ => Ok(()),
    }
}

/// Removes a part that was appended where room could not be reserved, as on gVisor, unless other
/// code has appended since.
fn take_back(file: &OwnedFd, size: i64, written: i64) {
    if stat_fd(file.as_raw_fd()).is_ok_and(|found| found.st_size == size + written) {
        // SAFETY: plain system call on a descriptor that we own.
        unsafe { libc::ftruncate(file.as_raw_fd(), size) };
    }
}

/// The received body: in memory or, if it is large, in a file next to the target.
struct Body {
    memory: Vec<u8>,
    file: Option<Temporary>,
    size: u64,
}

impl Body {
    fn receive(parent: &Path, mailbox: &Mailbox) -> Result<Body, Failure> {
        let mut body = Body {
            memory: Vec::new(),
            file: None,
            size: 0,
        };
        while let Some(data) = mailbox.receive()? {
            body.size += data.len() as u64;
            if body.file.is_none() && body.memory.len() + data.len() <= PIECE {
                body.memory.extend_from_slice(&data);
                continue;
            }
            let file = match body.file.take() {
                Some(file) => file,
                None => {
                    let file = Temporary::create(parent, 0o600)?;
                    file.write(&std::mem::take(&mut body.memory))?;
                    file
                }
            };
            file.write(&data)?;
            body.file = Some(file);
        }
        Ok(body)
    }

    fn each(&self, mut take: impl FnMut(&[u8]) -> Result<(), Failure>) -> Result<(), Failure> {
        let Some(temporary) = &self.file else {
            return take(&self.memory);
        };
        let mut buffer = vec![0u8; PIECE];
        let mut at = 0;
        loop {
            let n = sys::pread(temporary.file.as_raw_fd(), &mut buffer, at)
                .map_err(|error| Failure::new("io", format!("read the body: {error}")))?;
            if n == 0 {
                return Ok(());
            }
            take(&buffer[..n])?;
            at += n as i64;
        }
    }
}
