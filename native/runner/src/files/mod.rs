//! File work, done inside the sandbox with the rights of the code user.

mod append;
mod commit;
mod copy;
mod copy_content;
mod entry;
mod glob;
mod list;
mod place;
mod read;
mod remove;
mod tar;
mod tar_in;
mod tar_out;
mod temporary;
mod tree;
mod walk;
mod watch;
mod write;

use crate::protocol::failure::Failure;
use crate::protocol::message::FileRequest;
use crate::sys;
use crate::workers::{Mailbox, Pace, Work};
use commit::Condition;
use place::Place;
use serde_json::Value;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;

/// The work that a thread does for a request.
pub fn work(request: FileRequest, workdir: String) -> Work {
    Box::new(move |mailbox: &Mailbox| perform(request, &Place(workdir), mailbox))
}

pub fn pace(request: &FileRequest) -> Pace {
    match request {
        FileRequest::Watch { .. } => Pace::Lasting,
        FileRequest::Read { .. }
        | FileRequest::Write { .. }
        | FileRequest::Append { .. }
        | FileRequest::Copy { .. }
        | FileRequest::TarIn { .. }
        | FileRequest::TarOut { .. } => Pace::Streaming,
        FileRequest::Stat { .. }
        | FileRequest::Realpath { .. }
        | FileRequest::List { .. }
        | FileRequest::Mkdir { .. }
        | FileRequest::Move { .. }
        | FileRequest::Remove { .. } => Pace::Quick,
    }
}

fn perform(request: FileRequest, place: &Place, mailbox: &Mailbox) -> Result<Value, Failure> {
    match request {
        FileRequest::Stat { path, follow } => entry::stat(&place.path(&path)?, follow),
        FileRequest::Realpath { path } => entry::resolve(&place.path(&path)?),
        FileRequest::Read {
            path,
            offset,
            length,
            real_path,
        } => {
            let reading = read::Reading {
                offset,
                length,
                tells_real_path: real_path,
            };
            read::read(&place.path(&path)?, &reading, mailbox)
        }
        FileRequest::Write {
            path,
            mode,
            overwrite,
            parents,
            if_version,
        } => {
            let writing = write::Writing {
                mode,
                overwrite,
                parents,
                condition: Condition(if_version),
            };
            write::write(&place.path(&path)?, &writing, mailbox)
        }
        FileRequest::Append {
            path,
            mode,
            parents,
            if_version,
        } => {
            let appending = append::Appending {
                mode,
                parents,
                condition: Condition(if_version),
            };
            append::append(&place.path(&path)?, &appending, mailbox)
        }
        FileRequest::List {
            path,
            recursive,
            limit,
            cursor,
        } => list::list(
            &place.path(&path)?,
            recursive,
            limit,
            cursor.as_deref(),
            mailbox,
        ),
        FileRequest::Mkdir {
            path,
            mode,
            parents,
        } => tree::make_directory(&place.path(&path)?, mode, parents),
        FileRequest::Move {
            from,
            to,
            overwrite,
        } => tree::move_entry(&place.path(&from)?, &place.path(&to)?, overwrite, mailbox),
        FileRequest::Copy {
            from,
            to,
            overwrite,
            recursive,
        } => {
            let (from, to) = (place.path(&from)?, place.path(&to)?);
            copy::copy(&from, &to, overwrite, recursive, mailbox)
        }
        FileRequest::Remove { path, recursive } => {
            remove::remove(&place.path(&path)?, recursive, mailbox)
        }
        FileRequest::Watch { path, recursive } => {
            watch::watch(&place.path(&path)?, recursive, mailbox)
        }
        FileRequest::TarIn {
            path,
            max_bytes,
            max_entries,
        } => tar_in::extract(&place.path(&path)?, max_bytes, max_entries, mailbox),
        FileRequest::TarOut {
            path,
            exclude,
            on_unreadable,
        } => tar_out::archive(&place.path(&path)?, &exclude, on_unreadable, mailbox),
    }
}

#[repr(C)]
struct OpenHow {
    flags: u64,
    mode: u64,
    resolve: u64,
}

const RESOLVE_NO_MAGICLINKS: u64 = 2;
const RESOLVE_NO_SYMLINKS: u64 = 4;

/// Opens for reading without ever waiting for the other end of a pipe.
fn open_for_reading(path: &Path) -> io::Result<OwnedFd> {
    open_plainly(path, libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY, 0)
}

/// Opens any entry, including a link, only to inspect it.
fn open_itself(path: &Path) -> io::Result<OwnedFd> {
    open_plainly(path, libc::O_PATH | libc::O_NOFOLLOW, 0)
}

/// Opens a directory that a request names.
fn open_named_directory(path: &Path) -> io::Result<OwnedFd> {
    open_plainly(path, libc::O_RDONLY | libc::O_DIRECTORY, 0)
}

/// SECURITY: links such as /proc/self/fd/N lead to the runner's own descriptors; they are not
/// followed (threat: links to the host).
fn open_plainly(path: &Path, flags: libc::c_int, mode: u32) -> io::Result<OwnedFd> {
    let c_path = sys::c_path(path)?;
    open_resolving(libc::AT_FDCWD, &c_path, flags, mode, RESOLVE_NO_MAGICLINKS)
}

fn open_resolving(
    dir: RawFd,
    path: &CStr,
    flags: libc::c_int,
    mode: u32,
    resolve: u64,
) -> io::Result<OwnedFd> {
    let how = OpenHow {
        flags: (flags | libc::O_CLOEXEC) as u64,
        mode: u64::from(mode),
        resolve,
    };
    // SAFETY: path and how are valid, and the size is how's.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_openat2,
            dir,
            path.as_ptr(),
            &raw const how,
            std::mem::size_of::<OpenHow>(),
        )
    };
    if fd >= 0 {
        // SAFETY: the call has just made this descriptor.
        return Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) });
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::ENOSYS) {
        // Linux before 5.6 has no openat2; the rights of the code user hold anyway.
        return sys::open_at(dir, path, flags, mode);
    }
    Err(error)
}

fn stat_fd(fd: RawFd) -> io::Result<libc::stat> {
    // SAFETY: an all-zero stat is a valid value to be overwritten.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: stat is valid for writing.
    sys::check(unsafe { libc::fstat(fd, &mut stat) })?;
    Ok(stat)
}

/// Inspects a name in a directory without following a link.
fn stat_at(dir: RawFd, name: &CStr) -> io::Result<libc::stat> {
    // SAFETY: as above; name is a valid C string.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    let flags = libc::AT_SYMLINK_NOFOLLOW;
    // SAFETY: stat is valid for writing.
    sys::check(unsafe { libc::fstatat(dir, name.as_ptr(), &mut stat, flags) })?;
    Ok(stat)
}

fn is_kind(stat: &libc::stat, kind: libc::mode_t) -> bool {
    stat.st_mode & libc::S_IFMT == kind
}

/// Opens a directory below another one; a link does not count as one.
///
/// SECURITY: gVisor follows a link despite O_NOFOLLOW when a directory is asked for, so that an
/// archive's own link led out of its directory (threat: hostile archives and images). Guarded by
/// tests/hostile/files-tar.test.ts.
fn open_directory(dir: RawFd, name: &CStr) -> io::Result<OwnedFd> {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
    match open_resolving(dir, name, flags, 0, RESOLVE_NO_SYMLINKS) {
        // The error that `openat` would return.
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
            Err(io::Error::from_raw_os_error(libc::ENOTDIR))
        }
        opened => opened,
    }
}

/// Opens a directory below another one in order to enter it. One that can be read but not searched
/// only reveals its names, and there is no way back up from it.
fn open_searchable(dir: RawFd, name: &CStr) -> io::Result<OwnedFd> {
    let child = open_directory(dir, name)?;
    require_searchable(&child)?;
    Ok(child)
}

fn require_searchable(dir: &OwnedFd) -> io::Result<()> {
    stat_at(dir.as_raw_fd(), c".").map(drop)
}

/// Passes a directory's names, except `.` and `..`, to a visitor as they are read.
fn for_each_name(dir: &OwnedFd, mut visit: impl FnMut(&[u8], u8)) -> io::Result<()> {
    // SAFETY: plain system call; the directory is read from its beginning.
    unsafe { libc::lseek(dir.as_raw_fd(), 0, libc::SEEK_SET) };
    let mut buffer = vec![0u8; 32 * 1024];
    loop {
        // SAFETY: the buffer is valid for its length.
        let n = unsafe {
            libc::syscall(
                libc::SYS_getdents64,
                dir.as_raw_fd(),
                buffer.as_mut_ptr(),
                buffer.len(),
            )
        };
        if n < 0 {
            return Err(io::Error::last_os_error());
        }
        if n == 0 {
            return Ok(());
        }
        let mut at = 0;
        while at + 19 <= n as usize {
            // struct linux_dirent64: inode 8, offset 8, record length 2, type 1, name.
            let length = usize::from(u16::from_ne_bytes([buffer[at + 16], buffer[at + 17]]));
            let kind = buffer[at + 18];
            let name = &buffer[at + 19..at + length];
            let name = &name[..name.iter().position(|b| *b == 0).unwrap_or(name.len())];
            if name != b"." && name != b".." {
                visit(name, kind);
            }
            at += length.max(19);
        }
    }
}

/// Tells directories apart.
fn identity(dir: &OwnedFd) -> io::Result<(u64, u64)> {
    let found = stat_fd(dir.as_raw_fd())?;
    Ok((found.st_dev, found.st_ino))
}
