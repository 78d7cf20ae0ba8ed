//! Thin, checked wrappers over the system calls that the standard library does not offer.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

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

fn owned(fd: libc::c_int) -> io::Result<OwnedFd> {
    let fd = check(fd)?;
    // SAFETY: the call has just made this descriptor, nobody else owns it.
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
    // The mode above is cut by the umask; this one is not.
    // SAFETY: as above.
    check(unsafe { libc::chmod(path.as_ptr(), mode) }).map(drop)
}

pub fn unlink(path: &CStr) -> io::Result<()> {
    // SAFETY: path is a valid C string.
    check(unsafe { libc::unlink(path.as_ptr()) }).map(drop)
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

pub fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: plain system call.
    owned(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })
}

/// Blocks these signals and gives a descriptor that reports them.
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

/// Gives this thread, and it alone, the file-system rights of a user.
///
/// SECURITY: only the fs ids change. With `setresuid` of all three sandbox code of the same uid
/// could call `prlimit` on the thread and cripple PID 1 (threat 46); fs ids give it no such right.
/// gVisor has no fs ids; there the effective ones do, which give it none either.
pub fn set_fs_user(uid: u32, gid: u32) {
    // SAFETY: these calls take plain numbers and act on the calling thread only.
    unsafe {
        libc::syscall(libc::SYS_setfsgid, gid);
        libc::syscall(libc::SYS_setfsuid, uid);
        // An id that cannot be changes nothing and tells the present one.
        if libc::syscall(libc::SYS_setfsuid, u32::MAX) as u32 != uid {
            libc::syscall(libc::SYS_setresgid, u32::MAX, gid, u32::MAX);
            libc::syscall(libc::SYS_setresuid, u32::MAX, uid, u32::MAX);
        }
    }
}

/// Does something with the file-system rights of a user and takes the runner's back afterwards.
pub fn as_fs_user<T>(uid: u32, gid: u32, act: impl FnOnce() -> T) -> T {
    set_fs_user(uid, gid);
    let result = act();
    // SAFETY: as in set_fs_user; the real ids never change, so that the effective ones can return
    // to them. The uid comes first so that the gid change is allowed.
    unsafe {
        libc::syscall(libc::SYS_setresuid, u32::MAX, libc::getuid(), u32::MAX);
        libc::syscall(libc::SYS_setresgid, u32::MAX, libc::getgid(), u32::MAX);
        libc::syscall(libc::SYS_setfsuid, libc::getuid());
        libc::syscall(libc::SYS_setfsgid, libc::getgid());
    }
    result
}

/// Says something on the console. Whoever should read it may be gone or full; that is no reason
/// to end, as the usual macros would.
pub fn log(message: &str) {
    let _ = write(2, format!("runner: {message}\n").as_bytes());
}

/// Lets this process have as many open files as it may; gives the limit that it had.
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

/// Returns what is free of the heap to the kernel.
pub fn give_back_memory() {
    // SAFETY: plain library call.
    unsafe { libc::malloc_trim(0) };
}

/// Readiness of descriptors.
pub struct Epoll(OwnedFd);

impl Epoll {
    pub fn new() -> io::Result<Epoll> {
        // SAFETY: plain system call.
        owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }).map(Epoll)
    }

    pub fn add(&self, fd: RawFd, events: i32, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, events, token)
    }

    pub fn modify(&self, fd: RawFd, events: i32, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, events, token)
    }

    /// Stops watching. A descriptor that is not watched is left as it is.
    pub fn remove(&self, fd: RawFd) {
        let _ = self.control(libc::EPOLL_CTL_DEL, fd, 0, 0);
    }

    fn control(&self, op: i32, fd: RawFd, events: i32, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: events as u32,
            u64: token,
        };
        // SAFETY: event outlives the call.
        check(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), op, fd, &mut event) }).map(drop)
    }

    pub fn wait(&self, events: &mut [libc::epoll_event], timeout_ms: i32) -> io::Result<usize> {
        // SAFETY: events is valid for its length.
        let n = unsafe {
            libc::epoll_wait(
                self.0.as_raw_fd(),
                events.as_mut_ptr(),
                events.len() as i32,
                timeout_ms,
            )
        };
        match check(n) {
            Ok(n) => Ok(n as usize),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(error) => Err(error),
        }
    }
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
