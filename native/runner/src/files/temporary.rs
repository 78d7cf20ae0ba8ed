//! A file under a temporary name that is renamed to the real one, or removed again.

use super::place::shown;
use super::{entry, open_named_directory, stat_fd, tree};
use crate::protocol::failure::Failure;
use crate::sys;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};

const PREFIX: &str = ".sandkasten-";

/// A unique name.
pub fn unique_name() -> io::Result<CString> {
    sys::random_hex().and_then(|unique| sys::c_string(format!("{PREFIX}{unique}")))
}

/// Whether a file has such a name, and will be renamed or removed.
pub fn is_unique_name(name: &[u8]) -> bool {
    name.strip_prefix(PREFIX.as_bytes())
        .is_some_and(|unique| unique.len() == 32 && unique.iter().all(u8::is_ascii_hexdigit))
}

/// It is addressed through the directory in which it was created, wherever that is moved.
pub struct Temporary {
    pub directory: OwnedFd,
    pub file: OwnedFd,
    name: CString,
    shown: String,
    kept: bool,
}

impl Temporary {
    pub fn create(parent: &Path, mode: u32) -> Result<Temporary, Failure> {
        let failed = |error: io::Error| Failure::io("write in", &shown(parent), &error);
        let directory = open_named_directory(parent).map_err(failed)?;
        let name = unique_name().map_err(failed)?;
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
        let file = sys::open_at(directory.as_raw_fd(), &name, flags, 0o600).map_err(failed)?;
        let temporary = Temporary {
            directory,
            file,
            name,
            shown: shown(parent),
            kept: false,
        };
        // SAFETY: plain system call on a descriptor that we own.
        sys::check(unsafe { libc::fchmod(temporary.file.as_raw_fd(), mode) }).map_err(failed)?;
        Ok(temporary)
    }

    pub fn write(&self, data: &[u8]) -> Result<(), Failure> {
        write_all(&self.file, data).map_err(|error| Failure::io("write in", &self.shown, &error))
    }

    /// Renames it to its real name. Returns the version that readers find there.
    pub fn become_file(mut self, name: &CStr, overwrite: bool) -> io::Result<String> {
        let version = stamp(&self.file)?;
        let directory = self.directory.as_raw_fd();
        tree::rename_at(directory, &self.name, directory, name, overwrite)?;
        self.kept = true;
        Ok(version)
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

fn write_all(file: &OwnedFd, mut data: &[u8]) -> io::Result<()> {
    while !data.is_empty() {
        let n = sys::write(file.as_raw_fd(), data)?;
        data = &data[n..];
    }
    Ok(())
}

/// Counts written files in the nanoseconds within a microsecond.
static WRITTEN: AtomicI64 = AtomicI64::new(0);

/// Before Linux 6.13, file times have the granularity of the kernel's tick, and inode numbers are
/// reused: a file that is replaced twice within a tick would look as if it had never changed.
fn stamp(file: &OwnedFd) -> io::Result<String> {
    let found = stat_fd(file.as_raw_fd())?;
    let count = WRITTEN.fetch_add(1, Ordering::Relaxed) % 1000;
    let omit = libc::timespec {
        tv_sec: 0,
        tv_nsec: libc::UTIME_OMIT,
    };
    let modified = libc::timespec {
        tv_sec: found.st_mtime,
        // Never later than the tick: files made from this one must not look older than it.
        tv_nsec: (found.st_mtime_nsec - 1000).max(0) + count,
    };
    // SAFETY: the array has the two times that are read.
    sys::check(unsafe { libc::futimens(file.as_raw_fd(), [omit, modified].as_ptr()) })?;
    Ok(entry::version_of(&stat_fd(file.as_raw_fd())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unique_names_count_as_temporary() {
        assert!(is_unique_name(unique_name().unwrap().to_bytes()));
        for name in [".sandkasten-notes", ".sandkasten-", "w.txt", ""] {
            assert!(!is_unique_name(name.as_bytes()), "{name}");
        }
    }
}
