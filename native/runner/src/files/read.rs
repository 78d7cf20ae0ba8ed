//! Reads a file, or a part of it.

use super::place::{answer, shown};
use super::{entry, is_kind, open_for_reading, stat_fd};
use crate::protocol::failure::Failure;
use crate::sys;
use crate::workers::Mailbox;
use serde_json::{Value, json};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

const PIECE: usize = 128 * 1024;

pub struct Reading {
    pub offset: u64,
    pub length: Option<u64>,
    pub tells_real_path: bool,
}

pub fn read(path: &Path, reading: &Reading, mailbox: &Mailbox) -> Result<Value, Failure> {
    let &Reading { offset, length, .. } = reading;
    let failed = |error: io::Error| Failure::io("read", &shown(path), &error);
    let file = open_regular(path)?;
    let found = stat_fd(file.as_raw_fd()).map_err(failed)?;
    let mut event = json!({
        "event": "file",
        "size": entry::size_of(&found),
        "mode": found.st_mode & 0o7777,
        "mtime_ms": entry::mtime_ms_of(&found),
        "version": entry::version_of(&found),
    });
    if reading.tells_real_path {
        // SECURITY: of the open file, because a second look-up could find another one (threat:
        // path races). Guarded by tests/hostile/files-races.test.ts.
        let real = entry::opened_path(file.as_raw_fd(), &found);
        event["real_path"] = real.map_or(Value::Null, |real| answer(&real, json!({})));
    }
    mailbox.send_event(&event);
    let end = length.map_or(u64::MAX, |length| offset.saturating_add(length));
    let mut buffer = vec![0u8; PIECE];
    let mut at = offset;
    while at < end {
        let wanted = (end - at).min(PIECE as u64) as usize;
        let position = i64::try_from(at).map_err(|_| Failure::invalid("offset out of range"))?;
        let n = sys::pread(file.as_raw_fd(), &mut buffer[..wanted], position).map_err(failed)?;
        if n == 0 {
            break;
        }
        mailbox.send_data(&buffer[..n])?;
        at += n as u64;
    }
    Ok(json!({ "bytes": at - offset }))
}

/// Opens only regular files: a pipe or a device would hang or never end.
pub fn open_regular(path: &Path) -> Result<OwnedFd, Failure> {
    let file = open_for_reading(path).map_err(|error| match error.raw_os_error() {
        Some(libc::ENXIO | libc::ENODEV) => not_regular(path),
        _ => Failure::io("open", &shown(path), &error),
    })?;
    require_regular(file, path)
}

pub fn require_regular(file: OwnedFd, path: &Path) -> Result<OwnedFd, Failure> {
    let found =
        stat_fd(file.as_raw_fd()).map_err(|error| Failure::io("stat", &shown(path), &error))?;
    if is_kind(&found, libc::S_IFDIR) {
        return Err(Failure::new(
            "is_directory",
            format!("{} is a directory", shown(path)),
        ));
    }
    if !is_kind(&found, libc::S_IFREG) {
        return Err(not_regular(path));
    }
    Ok(file)
}

pub fn not_regular(path: &Path) -> Failure {
    Failure::new(
        "not_regular",
        format!("{} is not a regular file", shown(path)),
    )
}
