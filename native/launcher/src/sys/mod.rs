//! System calls that std does not provide, each wrapped once in a safe function.

mod directory;
mod file;
mod loop_device;
mod mount;
mod process;

use std::ffi::CString;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use libc::c_long;

pub use directory::*;
pub use file::*;
pub use loop_device::*;
pub use mount::*;
pub use process::*;

pub fn cstring(bytes: &[u8]) -> io::Result<CString> {
    CString::new(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "contains a NUL"))
}

pub fn cpath(path: &Path) -> io::Result<CString> {
    cstring(path.as_os_str().as_bytes())
}

fn checked(result: c_long) -> io::Result<c_long> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

fn owned(result: c_long) -> io::Result<OwnedFd> {
    let fd = checked(result)?;
    // SAFETY: the kernel has just created this descriptor for us, so we own it alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}
