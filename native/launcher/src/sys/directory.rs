//! Directories by descriptor: listed and emptied without following a link.

use std::ffi::{CStr, CString};
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use libc::{c_char, c_long};

use super::{checked, owned};

/// One name in a directory.
pub struct Entry {
    pub name: CString,
    pub is_directory: bool,
}

/// All names in an open directory but `.` and `..`, at most `limit` of them.
pub fn entries(directory: BorrowedFd<'_>, limit: usize) -> io::Result<Vec<Entry>> {
    let mut found = Vec::new();
    let mut buffer = vec![0u64; 4096];
    loop {
        // SAFETY: the buffer is ours, aligned for the records, and its size is given.
        let filled = checked(unsafe {
            libc::syscall(
                libc::SYS_getdents64,
                directory.as_raw_fd(),
                buffer.as_mut_ptr(),
                buffer.len() * 8,
            )
        })? as usize;
        if filled == 0 {
            return Ok(found);
        }
        let mut at = 0;
        while at < filled {
            // SAFETY: the kernel wrote whole records, each starting at an aligned offset inside `filled`.
            let (record, name) = unsafe {
                let record = buffer
                    .as_ptr()
                    .cast::<u8>()
                    .add(at)
                    .cast::<libc::dirent64>();
                let name = CStr::from_ptr(std::ptr::addr_of!((*record).d_name).cast::<c_char>());
                (record, name)
            };
            if name != c"." && name != c".." {
                // SAFETY: as above.
                let kind = unsafe { (*record).d_type };
                let is_directory = match kind {
                    // Not every filesystem keeps the kind beside the name.
                    libc::DT_UNKNOWN => is_directory_at(directory, name)?,
                    kind => kind == libc::DT_DIR,
                };
                found.push(Entry {
                    name: name.to_owned(),
                    is_directory,
                });
            }
            // SAFETY: as above.
            at += usize::from(unsafe { (*record).d_reclen });
        }
        if found.len() >= limit {
            return Ok(found);
        }
    }
}

fn is_directory_at(directory: BorrowedFd<'_>, name: &CStr) -> io::Result<bool> {
    // SAFETY: an all-zero stat is a valid place for the answer.
    let mut stat: libc::stat = unsafe { mem::zeroed() };
    let flags = libc::AT_SYMLINK_NOFOLLOW;
    // SAFETY: a valid descriptor, a NUL-terminated string and a live struct.
    checked(
        unsafe { libc::fstatat(directory.as_raw_fd(), name.as_ptr(), &mut stat, flags) } as c_long,
    )?;
    Ok(stat.st_mode & libc::S_IFMT == libc::S_IFDIR)
}

pub fn unlink_at(directory: BorrowedFd<'_>, name: &CStr, is_directory: bool) -> io::Result<()> {
    let flags = if is_directory { libc::AT_REMOVEDIR } else { 0 };
    // SAFETY: a valid descriptor and a NUL-terminated string.
    checked(unsafe { libc::unlinkat(directory.as_raw_fd(), name.as_ptr(), flags) } as c_long)
        .map(drop)
}

pub fn rename_at(
    from: BorrowedFd<'_>,
    name: &CStr,
    to: BorrowedFd<'_>,
    new_name: &CStr,
) -> io::Result<()> {
    // SAFETY: valid descriptors and NUL-terminated strings.
    checked(unsafe {
        libc::renameat(
            from.as_raw_fd(),
            name.as_ptr(),
            to.as_raw_fd(),
            new_name.as_ptr(),
        )
    } as c_long)
    .map(drop)
}

/// Opens a directory by name, never through a link.
pub fn open_directory_at(directory: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: a valid descriptor and a NUL-terminated string.
    owned(unsafe { libc::openat(directory.as_raw_fd(), name.as_ptr(), flags) } as c_long)
}
