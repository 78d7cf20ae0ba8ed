//! Memory used by processes and space used in file systems.

use crate::sys;
use std::fmt::Display;
use std::fs;

/// This process's resident memory.
pub fn resident_bytes() -> u64 {
    resident_bytes_of("self")
}

/// The resident memory of a process, by its name in /proc.
pub fn resident_bytes_of(process: impl Display) -> u64 {
    let pages: u64 = fs::read_to_string(format!("/proc/{process}/statm"))
        .ok()
        .and_then(|text| text.split(' ').nth(1)?.parse().ok())
        .unwrap_or(0);
    // SAFETY: plain library call.
    pages * unsafe { libc::sysconf(libc::_SC_PAGESIZE).max(0) as u64 }
}

/// The used space of the file system that contains a path.
pub fn used_bytes(path: &str) -> u64 {
    file_system(path).map_or(0, |found| (found.f_blocks - found.f_bfree) * found.f_frsize)
}

pub fn file_system(path: &str) -> Option<libc::statvfs> {
    let path = sys::c_string(path).ok()?;
    // SAFETY: an all-zero statvfs is a valid value to be overwritten; path is a valid C string.
    unsafe {
        let mut found: libc::statvfs = std::mem::zeroed();
        (libc::statvfs(path.as_ptr(), &mut found) == 0).then_some(found)
    }
}
