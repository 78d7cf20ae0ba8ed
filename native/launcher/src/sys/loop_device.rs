//! Loop devices: files as disks.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::Path;

use libc::{c_long, c_ulong};

use super::{checked, cpath};

const LOOP_CTL_GET_FREE: c_ulong = 0x4C82;
const LOOP_CONFIGURE: c_ulong = 0x4C0A;
const LOOP_CLR_FD: c_ulong = 0x4C01;
const LOOP_GET_STATUS64: c_ulong = 0x4C05;
const LO_FLAGS_AUTOCLEAR: u32 = 4;

/// `/dev/loopN` is block device 7:N.
pub const LOOP_MAJOR: u32 = 7;

#[repr(C)]
struct LoopInfo64 {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    sizelimit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo64,
    reserved: [u64; 8],
}

/// The number of a currently free loop device.
pub fn free_loop_number(control: BorrowedFd<'_>) -> io::Result<u32> {
    // SAFETY: this request takes no argument.
    checked(unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) } as c_long)
        .map(|n| n as u32)
}

/// Backs a loop device by a file until its last user closes it.
pub fn configure_loop(device: BorrowedFd<'_>, file: BorrowedFd<'_>, name: &[u8]) -> io::Result<()> {
    // SAFETY: all-zero is a valid loop configuration.
    let mut config: LoopConfig = unsafe { mem::zeroed() };
    config.fd = file.as_raw_fd() as u32;
    config.info.flags = LO_FLAGS_AUTOCLEAR;
    let length = name.len().min(config.info.file_name.len() - 1);
    config.info.file_name[..length].copy_from_slice(&name[..length]);
    // SAFETY: the struct has the kernel's layout and lives through the call.
    checked(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &config) } as c_long).map(drop)
}

/// The device and inode numbers of the file behind a loop device; ENXIO if there is none.
pub fn loop_backing(device: BorrowedFd<'_>) -> io::Result<(u64, u64)> {
    // SAFETY: all-zero is a valid place for the answer.
    let mut info: LoopInfo64 = unsafe { mem::zeroed() };
    // SAFETY: the struct has the kernel's layout and lives through the call.
    checked(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_GET_STATUS64, &mut info) } as c_long)?;
    Ok((info.device, info.inode))
}

/// Detaches a loop device now, or when its last user closes it.
pub fn clear_loop(device: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: this request takes no argument.
    checked(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CLR_FD) } as c_long).map(drop)
}

pub fn make_block_node(path: &Path, major: u32, minor: u32) -> io::Result<()> {
    let path = cpath(path)?;
    // SAFETY: a NUL-terminated string and plain numbers.
    checked(unsafe {
        libc::mknod(
            path.as_ptr(),
            libc::S_IFBLK | 0o600,
            libc::makedev(major, minor),
        )
    } as c_long)
    .map(drop)
}
