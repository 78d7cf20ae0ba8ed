//! Copying the bytes of one open file into another.

use crate::sys;
use crate::workers::Mailbox;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

const PIECE: usize = 128 * 1024;
/// Bytes copied between two checks for cancellation.
const MAX_RANGE: i64 = 16 << 20;

/// Holes stay holes, and blocks are shared on file systems that can do so.
pub fn copy_content(
    source: &OwnedFd,
    target: &OwnedFd,
    size: i64,
    mailbox: &Mailbox,
) -> io::Result<u64> {
    let (from, to) = (source.as_raw_fd(), target.as_raw_fd());
    // SAFETY: plain system call on a descriptor that we own.
    sys::check(unsafe { libc::ftruncate(to, size) })?;
    let copy_range = if shows_holes(to) {
        copy_range
    } else {
        copy_nonzero
    };
    let mut at = 0;
    while at < size {
        // SAFETY: plain system calls on a descriptor that we own.
        let data = unsafe { libc::lseek(from, at, libc::SEEK_DATA) };
        if data < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ENXIO) {
            break;
        }
        let data = data.max(at);
        // SAFETY: as above.
        let hole = unsafe { libc::lseek(from, data, libc::SEEK_HOLE) };
        let end = if hole > data { hole.min(size) } else { size };
        at = data;
        while at < end {
            if mailbox.cancelled() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let n = copy_range(from, to, at, (end - at).min(MAX_RANGE))?;
            if n == 0 {
                // The source became shorter.
                return Ok(at as u64);
            }
            at += n;
        }
    }
    Ok(size as u64)
}

/// Whether a file that is all hole is reported as one. gVisor reports every file as data
/// throughout.
fn shows_holes(empty: RawFd) -> bool {
    // SAFETY: plain system call on a descriptor that the caller owns.
    unsafe { libc::lseek(empty, 0, libc::SEEK_DATA) != 0 }
}

fn copy_range(from: RawFd, target: RawFd, at: i64, length: i64) -> io::Result<i64> {
    let (mut read_at, mut write_at) = (at, at);
    // SAFETY: both offsets are valid for writing.
    let n = unsafe {
        libc::copy_file_range(
            from,
            &mut read_at,
            target,
            &mut write_at,
            length as usize,
            0,
        )
    };
    if n >= 0 {
        return Ok(n as i64);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        // Two file systems, or one that does not support the call.
        Some(libc::EXDEV | libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP | libc::EPERM) => {}
        _ => return Err(error),
    }
    copy_piece(from, target, at, length, |_| true)
}

/// Skips zeros, which the new file already has.
fn copy_nonzero(from: RawFd, target: RawFd, at: i64, length: i64) -> io::Result<i64> {
    copy_piece(from, target, at, length, |piece| {
        piece.iter().any(|byte| *byte != 0)
    })
}

fn copy_piece(
    from: RawFd,
    target: RawFd,
    at: i64,
    length: i64,
    wanted: fn(&[u8]) -> bool,
) -> io::Result<i64> {
    let mut buffer = vec![0u8; PIECE.min(length as usize)];
    let n = sys::pread(from, &mut buffer, at)?;
    if !wanted(&buffer[..n]) {
        return Ok(n as i64);
    }
    let mut written = 0;
    while written < n {
        written += sys::pwrite(target, &buffer[written..n], at + written as i64)?;
    }
    Ok(n as i64)
}
