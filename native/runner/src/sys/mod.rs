//! Thin, checked wrappers over the system calls that the standard library does not offer.

mod fs_user;
mod packets;
mod pages;
mod raw_call;

pub use fs_user::{as_fs_user, set_fs_user};
pub use packets::{
    bytes_unsent, packet_socket_pair, receive_credentials, receive_with_pid, send_packets,
};
pub use pages::Pages;
pub use raw_call::raw_call;

use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// Turns a C result into an `io::Result`.
pub fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

pub fn c_string(bytes: impl AsRef<[u8]>) -> io::Result<CString> {
    CString::new(bytes.as_ref())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "contains a NUL byte"))
}

pub fn c_path(path: &Path) -> io::Result<CString> {
    c_string(path.as_os_str().as_bytes())
}

/// The descriptor that a system call has just created.
pub fn owned(fd: libc::c_int) -> io::Result<OwnedFd> {
    let fd = check(fd)?;
    // SAFETY: the caller's system call has just made this descriptor, so nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

pub fn open(path: &CStr, flags: libc::c_int, mode: libc::mode_t) -> io::Result<OwnedFd> {
    open_at(libc::AT_FDCWD, path, flags, mode)
}

pub fn open_at(
    dir: RawFd,
    path: &CStr,
    flags: libc::c_int,
    mode: libc::mode_t,
) -> io::Result<OwnedFd> {
    // SAFETY: path is a valid C string.
    owned(unsafe { libc::openat(dir, path.as_ptr(), flags | libc::O_CLOEXEC, mode) })
}

pub fn pipe(flags: libc::c_int) -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: fds has room for the two descriptors.
    check(unsafe { libc::pipe2(fds.as_mut_ptr(), flags | libc::O_CLOEXEC) })?;
    // SAFETY: both were just made.
    Ok(unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) })
}

pub fn mkfifo(path: &CStr, mode: libc::mode_t) -> io::Result<()> {
    // SAFETY: path is a valid C string.
    check(unsafe { libc::mkfifo(path.as_ptr(), mode) })?;
    // The umask applies to the mode above, and not to this one.
    // SAFETY: as above.
    check(unsafe { libc::chmod(path.as_ptr(), mode) }).map(drop)
}

pub fn read(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        // SAFETY: the buffer is valid for its length.
        let n = unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) };
        if n >= 0 {
            return Ok(n as usize);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

pub fn pread(fd: RawFd, buffer: &mut [u8], offset: i64) -> io::Result<usize> {
    // SAFETY: the buffer is valid for its length.
    let n = unsafe { libc::pread(fd, buffer.as_mut_ptr().cast(), buffer.len(), offset) };
    if n < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(n as usize)
}

pub fn pwrite(fd: RawFd, bytes: &[u8], offset: i64) -> io::Result<usize> {
    // SAFETY: the bytes are valid for their length.
    let n = unsafe { libc::pwrite(fd, bytes.as_ptr().cast(), bytes.len(), offset) };
    if n < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(n as usize)
}

/// Writes as much of a queue as a non-blocking descriptor accepts, and returns the number of bytes.
pub fn write_queue(fd: RawFd, queue: &mut VecDeque<Vec<u8>>) -> io::Result<usize> {
    let mut written = 0;
    while let Some(first) = queue.front_mut() {
        match write(fd, first) {
            Ok(n) => {
                written += n;
                first.drain(..n);
                if first.is_empty() {
                    queue.pop_front();
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(written)
}

pub fn write(fd: RawFd, bytes: &[u8]) -> io::Result<usize> {
    loop {
        // SAFETY: the bytes are valid for their length.
        let n = unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
        if n >= 0 {
            return Ok(n as usize);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

pub fn set_nonblocking(fd: RawFd) -> io::Result<()> {
    // SAFETY: plain fcntl on a descriptor number.
    let flags = check(unsafe { libc::fcntl(fd, libc::F_GETFL) })?;
    // SAFETY: as above.
    check(unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) }).map(drop)
}

/// Bytes waiting in a pipe.
pub fn bytes_waiting(fd: RawFd) -> usize {
    let mut n: libc::c_int = 0;
    // SAFETY: FIONREAD writes one int.
    if unsafe { libc::ioctl(fd, libc::FIONREAD, &mut n) } < 0 {
        return 0;
    }
    n.max(0) as usize
}

#[derive(Clone, Copy, Default)]
pub struct PipeState {
    pub has_data: bool,
    /// Whether a process holds the other end.
    pub is_held: bool,
}

/// Whether these pipes have unread bytes, and whether a process holds their other ends.
pub fn pipe_states(pipes: [Option<RawFd>; 2]) -> [PipeState; 2] {
    // The kernel skips negative descriptors.
    let mut polls = pipes.map(|pipe| libc::pollfd {
        fd: pipe.unwrap_or(-1),
        events: libc::POLLIN,
        revents: 0,
    });
    // SAFETY: two pollfds, and no waiting.
    unsafe { libc::poll(polls.as_mut_ptr(), 2, 0) };
    polls.map(|poll| PipeState {
        has_data: poll.revents & libc::POLLIN != 0,
        is_held: poll.fd >= 0 && poll.revents & libc::POLLHUP == 0,
    })
}

/// Whether the other end of this FIFO has ever been opened.
pub fn was_opened(fd: RawFd) -> bool {
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one pollfd, and no waiting.
    let ready = unsafe { libc::poll(&mut poll, 1, 0) };
    // If poll reports nothing, end of file means that there is no writer and never was one. Bytes
    // written meanwhile stay in the pipe, because they cannot be copied to null.
    // SAFETY: nothing is mapped at null.
    ready > 0 || unsafe { libc::read(fd, std::ptr::null_mut(), 1) } != 0
}

/// Time of the last write, in nanoseconds.
pub fn modified_ns(fd: RawFd) -> i128 {
    // SAFETY: an all-zero stat is a valid value to be overwritten.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: stat is valid for writing.
    if unsafe { libc::fstat(fd, &mut stat) } < 0 {
        return 0;
    }
    i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec)
}

pub fn kill(pid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: plain system call. A pid of 0 or below means a group; callers ask for that on purpose.
    check(unsafe { libc::kill(pid, signal) }).map(drop)
}

pub fn accept(listener: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: no address is asked for.
    owned(unsafe {
        libc::accept4(
            listener,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK,
        )
    })
}

pub fn inotify() -> io::Result<OwnedFd> {
    // SAFETY: plain system call.
    owned(unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) })
}

pub fn add_watch(inotify: RawFd, path: &CStr, events: u32) -> io::Result<i32> {
    // SAFETY: path is a valid C string.
    check(unsafe { libc::inotify_add_watch(inotify, path.as_ptr(), events) })
}

pub fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: plain system call.
    owned(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })
}

/// Blocks these signals and returns a descriptor that reports them.
pub fn signal_fd(signals: &[libc::c_int]) -> io::Result<OwnedFd> {
    // SAFETY: the set is initialised by sigemptyset before use.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in signals {
            libc::sigaddset(&mut set, *signal);
        }
        check(libc::sigprocmask(
            libc::SIG_BLOCK,
            &set,
            std::ptr::null_mut(),
        ))?;
        owned(libc::signalfd(
            -1,
            &set,
            libc::SFD_CLOEXEC | libc::SFD_NONBLOCK,
        ))
    }
}

/// Writes a line to the console. Its reader may be gone or its pipe full, in which case the usual
/// macros would panic.
pub fn log(message: &str) {
    let _ = write(2, format!("runner: {message}\n").as_bytes());
}

/// Raises the limit of open files as far as allowed; returns the previous limit.
pub fn raise_open_files() -> libc::rlimit {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: limit is valid for reading and writing.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        let raised = libc::rlimit {
            rlim_cur: limit.rlim_max,
            ..limit
        };
        libc::setrlimit(libc::RLIMIT_NOFILE, &raised);
    }
    limit
}

/// Returns free heap memory to the kernel.
pub fn give_back_memory() {
    // SAFETY: plain library call.
    unsafe { libc::malloc_trim(0) };
}

/// A short wait for the kernel to finish earlier work.
pub fn pause_ms(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// 32 hex digits from the kernel's random source.
pub fn random_hex() -> io::Result<String> {
    let mut bytes = [0u8; 16];
    // SAFETY: the buffer is valid for its length.
    let n = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if n != bytes.len() as isize {
        return Err(io::Error::last_os_error());
    }
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}
