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

/// Whether more can still be read: somebody holds the other end, or left something in it.
pub fn more_can_come(fd: RawFd) -> bool {
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one pollfd, and no waiting.
    let ready = unsafe { libc::poll(&mut poll, 1, 0) };
    ready < 1 || poll.revents & libc::POLLIN != 0 || poll.revents & libc::POLLHUP == 0
}

/// Whether anybody has ever opened the other end of this FIFO.
pub fn was_opened(fd: RawFd) -> bool {
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one pollfd, and no waiting.
    let ready = unsafe { libc::poll(&mut poll, 1, 0) };
    // Without a word from poll, an end says that there is no writer, and that there was none. What has
    // been written meanwhile stays in the pipe, because it cannot be copied to there.
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

/// Two connected sockets that keep packets apart.
pub fn packet_socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: fds has room for the two descriptors.
    check(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) })?;
    // SAFETY: both were just made.
    Ok(unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) })
}

/// Has the kernel say with each packet which process wrote it.
pub fn receive_credentials(socket: RawFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the option's value is one int, which outlives the call.
    check(unsafe {
        libc::setsockopt(
            socket,
            libc::SOL_SOCKET,
            libc::SO_PASSCRED,
            (&raw const on).cast(),
            std::mem::size_of::<libc::c_int>() as libc::socklen_t,
        )
    })
    .map(drop)
}

/// One packet: its length, and the pid of its writer (0 when the kernel does not say).
pub fn receive_with_pid(socket: RawFd, buffer: &mut [u8]) -> io::Result<(usize, i32)> {
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // Room and alignment for one control message with credentials.
    let mut control = [0u64; 8];
    // SAFETY: an all-zero msghdr is a valid value to be filled in.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = std::mem::size_of_val(&control) as _;
    // SAFETY: all that the message points to is valid for its length.
    let n = unsafe { libc::recvmsg(socket, &mut message, libc::MSG_CMSG_CLOEXEC) };
    if n < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut pid = 0;
    // SAFETY: the kernel has filled in the control messages; the macros stay within them.
    // Descriptors that somebody sent along are ours now, and are closed.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&message);
        while !header.is_null() {
            let data = libc::CMSG_DATA(header);
            match (*header).cmsg_type {
                libc::SCM_CREDENTIALS => {
                    pid = data.cast::<libc::ucred>().read_unaligned().pid;
                }
                libc::SCM_RIGHTS => {
                    let bytes = (*header).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                    for index in 0..bytes / std::mem::size_of::<RawFd>() {
                        libc::close(data.cast::<RawFd>().add(index).read_unaligned());
                    }
                }
                _ => {}
            }
            header = libc::CMSG_NXTHDR(&message, header);
        }
    }
    Ok((n as usize, pid))
}

/// Memory that packets hold which the other side has not read, where the kernel tells.
pub fn bytes_unsent(socket: RawFd) -> Option<usize> {
    let mut n: libc::c_int = 0;
    // SAFETY: SIOCOUTQ, which is TIOCOUTQ, writes one int.
    match unsafe { libc::ioctl(socket, libc::TIOCOUTQ, &mut n) } {
        0 => usize::try_from(n).ok(),
        _ => None,
    }
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
/// could call `prlimit` on the thread and cripple PID 1 (threat: attacks on PID 1); fs ids give it no
/// such right. gVisor has no fs ids; there the effective ones do, which give it none either.
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
