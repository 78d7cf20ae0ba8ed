//! Files: opened under rules, inspected, copied sparsely, locked, or held in memory.

use std::ffi::CStr;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use libc::{c_int, c_long};

use super::{checked, cpath, owned};

/// Opens `path` below `root` with the given resolution flags (`libc::RESOLVE_*`).
pub fn open_beneath(
    root: BorrowedFd<'_>,
    path: &Path,
    flags: c_int,
    resolve: u64,
) -> io::Result<OwnedFd> {
    let path = cpath(path)?;
    // SAFETY: an all-zero open_how is a valid one.
    let mut how: libc::open_how = unsafe { mem::zeroed() };
    how.flags = (flags | libc::O_CLOEXEC) as u64;
    how.resolve = resolve;
    // SAFETY: `how` is a live struct of the size given, the string is NUL-terminated.
    owned(unsafe {
        libc::syscall(
            libc::SYS_openat2,
            root.as_raw_fd(),
            path.as_ptr(),
            &how,
            mem::size_of::<libc::open_how>(),
        )
    })
}

pub fn fstat(fd: BorrowedFd<'_>) -> io::Result<libc::stat> {
    // SAFETY: an all-zero stat is a valid place for the answer.
    let mut stat: libc::stat = unsafe { mem::zeroed() };
    // SAFETY: a valid descriptor and a live struct.
    checked(unsafe { libc::fstat(fd.as_raw_fd(), &mut stat) } as c_long)?;
    Ok(stat)
}

/// The size of a runtime's state for a sandbox.
const SMALL_FILE_BYTES: u64 = 64 << 10;

fn statfs(path: &Path) -> io::Result<libc::statfs> {
    let path = cpath(path)?;
    // SAFETY: an all-zero statfs is a valid place for the answer.
    let mut answer: libc::statfs = unsafe { mem::zeroed() };
    // SAFETY: a NUL-terminated string and a live struct.
    checked(unsafe { libc::statfs(path.as_ptr(), &mut answer) } as c_long)?;
    Ok(answer)
}

/// The magic number of the filesystem that holds `path`.
pub fn filesystem_type(path: &Path) -> io::Result<i64> {
    statfs(path).map(|answer| answer.f_type)
}

/// The size of the filesystem that holds `path`.
pub fn filesystem_bytes(path: &Path) -> io::Result<u64> {
    statfs(path).map(|answer| answer.f_blocks * answer.f_bsize as u64)
}

/// Whether the filesystem that holds `path` is read-only.
pub fn is_read_only(path: &Path) -> io::Result<bool> {
    let path = cpath(path)?;
    // SAFETY: an all-zero statvfs is a valid place for the answer.
    let mut answer: libc::statvfs = unsafe { mem::zeroed() };
    // SAFETY: a NUL-terminated string and a live struct.
    checked(unsafe { libc::statvfs(path.as_ptr(), &mut answer) } as c_long)?;
    Ok(answer.f_flag & libc::ST_RDONLY != 0)
}

/// Whether the filesystem that holds `path` has no room even for a small file.
pub fn is_full(path: &Path) -> bool {
    statfs(path).is_ok_and(|answer| {
        answer.f_bavail * (answer.f_bsize as u64) < SMALL_FILE_BYTES
            || (answer.f_files > 0 && answer.f_ffree == 0)
    })
}

/// Whether we may create entries in a directory.
pub fn is_writable(path: &Path) -> bool {
    // SAFETY: a NUL-terminated string and plain flags.
    cpath(path).is_ok_and(|path| unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::W_OK, libc::AT_EACCESS) } == 0)
}

pub fn chown(path: &Path, uid: u32, gid: u32) -> io::Result<()> {
    std::os::unix::fs::lchown(path, Some(uid), Some(gid))
}

/// Creates a character device with exactly this mode, regardless of the umask.
pub fn make_character_node(path: &Path, major: u32, minor: u32, mode: u32) -> io::Result<()> {
    let name = cpath(path)?;
    // SAFETY: a NUL-terminated string and plain numbers.
    checked(unsafe {
        libc::mknod(
            name.as_ptr(),
            libc::S_IFCHR | mode,
            libc::makedev(major, minor),
        )
    } as c_long)?;
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode))
}

/// Makes `to` share the blocks of `from`, if the filesystem can.
pub fn clone_file(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: two valid descriptors.
    checked(unsafe { libc::ioctl(to.as_raw_fd(), libc::FICLONE, from.as_raw_fd()) } as c_long)
        .map(drop)
}

/// The next range of data at or after `offset`, as (start, end); none if only a hole follows.
pub fn next_data(file: BorrowedFd<'_>, offset: i64) -> io::Result<Option<(i64, i64)>> {
    // SAFETY: a valid descriptor and plain numbers.
    let start = unsafe { libc::lseek(file.as_raw_fd(), offset, libc::SEEK_DATA) };
    if start < 0 {
        let error = io::Error::last_os_error();
        return if error.raw_os_error() == Some(libc::ENXIO) {
            Ok(None)
        } else {
            Err(error)
        };
    }
    // SAFETY: as above.
    let end = checked(unsafe { libc::lseek(file.as_raw_fd(), start, libc::SEEK_HOLE) })?;
    Ok(Some((start, end)))
}

/// Copies a range between two files at the same offset, inside the kernel.
pub fn copy_range(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    start: i64,
    end: i64,
) -> io::Result<()> {
    let (mut read_at, mut write_at) = (start, start);
    while read_at < end {
        // SAFETY: valid descriptors; the offsets are ours and updated by the kernel.
        let copied = checked(unsafe {
            libc::copy_file_range(
                from.as_raw_fd(),
                &mut read_at,
                to.as_raw_fd(),
                &mut write_at,
                (end - read_at) as usize,
                0,
            )
        } as c_long)?;
        if copied == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
    }
    Ok(())
}

/// Makes the kernel write a file's data to the disk soon. It is only an optimisation, so it cannot
/// fail.
pub fn begin_writing(file: BorrowedFd<'_>) {
    // SAFETY: a valid descriptor and plain numbers; 0 bytes are all.
    unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
}

/// Has reads and writes fail instead of waiting.
pub fn make_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: a valid descriptor and plain numbers.
    let flags = checked(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) } as c_long)?;
    let flags = flags as c_int | libc::O_NONBLOCK;
    // SAFETY: as above.
    checked(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags) } as c_long).map(drop)
}

/// Takes the lock of an open file or directory without waiting; false if another process has it.
pub fn try_lock(fd: BorrowedFd<'_>) -> io::Result<bool> {
    // SAFETY: a valid descriptor and plain flags.
    if unsafe { libc::flock(fd.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::EWOULDBLOCK) {
        Ok(false)
    } else {
        Err(error)
    }
}

/// Waits for the lock of an open file or directory.
pub fn lock(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: a valid descriptor and a plain flag.
    checked(unsafe { libc::flock(fd.as_raw_fd(), libc::LOCK_EX) } as c_long).map(drop)
}

/// Releases the lock of an open file or directory, even if a child also has the descriptor.
pub fn unlock(fd: BorrowedFd<'_>) {
    // SAFETY: a valid descriptor and a plain flag, with which this cannot fail.
    unsafe { libc::flock(fd.as_raw_fd(), libc::LOCK_UN) };
}

/// A file in memory of exactly `size` bytes: it cannot grow.
pub fn bounded_memory_file(name: &CStr, size: u64) -> io::Result<OwnedFd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: a NUL-terminated string and plain flags.
    let file = owned(unsafe { libc::memfd_create(name.as_ptr(), flags) } as c_long)?;
    // SAFETY: a valid descriptor and plain numbers.
    checked(unsafe { libc::ftruncate(file.as_raw_fd(), size as i64) } as c_long)?;
    let seals = libc::F_SEAL_GROW | libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL;
    // SAFETY: a valid descriptor and plain numbers.
    checked(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } as c_long)?;
    Ok(file)
}
