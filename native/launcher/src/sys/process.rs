//! Processes and namespaces: our ids, our children, and signals.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use libc::{c_int, c_long, c_short, c_uint, c_ulong};

use super::{checked, owned};

pub fn geteuid() -> u32 {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::geteuid() }
}

pub fn getegid() -> u32 {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::getegid() }
}

/// The process that started us, or that has adopted us.
pub fn parent_id() -> u32 {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::getppid() as u32 }
}

pub fn page_size() -> u64 {
    // SAFETY: plain query.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as u64 }
}

/// A random number from 0 to 1.
pub fn random_share() -> f64 {
    let mut bytes = [0u8; 4];
    // SAFETY: the buffer is ours and its length is given. Without entropy the share is 0.
    unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    f64::from(u32::from_ne_bytes(bytes)) / f64::from(u32::MAX)
}

/// Leaves the caller's session, so a Ctrl-C for the daemon does not interrupt a create.
pub fn setsid() {
    // SAFETY: no arguments; fails harmlessly for one who leads a group already.
    unsafe { libc::setsid() };
}

/// Ends this process as a crash would, with no chance to clean up.
pub fn kill_self() -> ! {
    // SAFETY: signals only ourselves; pause keeps us here until it arrives.
    unsafe {
        libc::kill(libc::getpid(), libc::SIGKILL);
        loop {
            libc::pause();
        }
    }
}

pub fn unshare(flags: c_int) -> io::Result<()> {
    // SAFETY: plain flags. We are single-threaded, so no thread is surprised.
    checked(unsafe { libc::unshare(flags) } as c_long).map(drop)
}

pub fn setns(fd: BorrowedFd<'_>, kind: c_int) -> io::Result<()> {
    // SAFETY: a valid descriptor and a plain flag.
    checked(unsafe { libc::setns(fd.as_raw_fd(), kind) } as c_long).map(drop)
}

/// Runs `act` as `id` in the eyes of filesystems, keeping all capabilities.
pub fn with_filesystem_id<T>(id: u32, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    keeping_capabilities(|| {
        let result = set_filesystem_id(id).and_then(|()| act());
        set_filesystem_id(0)?;
        result
    })
}

/// Runs `act` with `id` as effective user and group, keeping all capabilities.
pub fn with_effective_id<T>(id: u32, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let result = keeping_capabilities(|| {
        let result = set_effective_id(id).and_then(|()| act());
        set_effective_id(0)?;
        result
    });
    // Changing ids closes `/proc/self` to others, including root with few capabilities, and the
    // runtime opens our descriptors there.
    // SAFETY: plain numbers.
    checked(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1) } as c_long)?;
    result
}

/// Lets `act` change ids without losing capabilities, as leaving root's id otherwise does.
fn keeping_capabilities<T>(act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    const SECBIT_NO_SETUID_FIXUP: c_ulong = 1 << 2;
    // SAFETY: plain numbers.
    checked(unsafe { libc::prctl(libc::PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) } as c_long)?;
    let result = act();
    // SAFETY: plain numbers.
    checked(unsafe { libc::prctl(libc::PR_SET_SECUREBITS, 0) } as c_long)?;
    result
}

fn set_effective_id(id: u32) -> io::Result<()> {
    const UNCHANGED: u32 = u32::MAX;
    // SAFETY: plain numbers.
    checked(unsafe { libc::setresgid(UNCHANGED, id, UNCHANGED) } as c_long)?;
    // SAFETY: plain numbers.
    checked(unsafe { libc::setresuid(UNCHANGED, id, UNCHANGED) } as c_long).map(drop)
}

fn set_filesystem_id(id: u32) -> io::Result<()> {
    // SAFETY: plain numbers. These calls return only the previous id; with an invalid id
    // they change nothing and return the current one.
    let now = unsafe {
        libc::setfsuid(id);
        libc::setfsgid(id);
        (
            libc::setfsuid(u32::MAX) as u32,
            libc::setfsgid(u32::MAX) as u32,
        )
    };
    if now == (id, id) {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(libc::EPERM))
    }
}

pub const CAP_SYS_RESOURCE: c_int = 24;

/// Whether a program that root starts here has a capability.
pub fn will_have_capability(capability: c_int) -> bool {
    // SAFETY: plain numbers; an unknown capability is an error.
    unsafe { libc::prctl(libc::PR_CAPBSET_READ, capability) == 1 }
}

/// Opens a socket for changes to this process's network namespace.
pub fn route_socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: plain numbers.
    owned(unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE) }.into())
}

pub fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: plain numbers.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })
}

pub fn pidfd_kill(pidfd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: a valid descriptor; a null siginfo is allowed.
    checked(unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            libc::SIGKILL,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    })
    .map(drop)
}

/// Waits until a descriptor is readable (a pidfd: until its process ended); false after the
/// timeout.
pub fn wait_readable(fd: BorrowedFd<'_>, timeout_ms: i32) -> io::Result<bool> {
    poll(&[fd], libc::POLLIN, timeout_ms).map(|ready| ready[0])
}

/// Waits until a pipe takes more, or has no reader; false after the timeout.
pub fn wait_writable(fd: BorrowedFd<'_>, timeout_ms: i32) -> io::Result<bool> {
    poll(&[fd], libc::POLLOUT, timeout_ms).map(|ready| ready[0])
}

/// Waits until one of several descriptors is readable, and returns which are.
pub fn wait_readable_any(fds: &[BorrowedFd<'_>]) -> io::Result<Vec<bool>> {
    poll(fds, libc::POLLIN, -1)
}

fn poll(fds: &[BorrowedFd<'_>], events: c_short, timeout_ms: i32) -> io::Result<Vec<bool>> {
    let mut polls: Vec<libc::pollfd> = fds
        .iter()
        .map(|fd| libc::pollfd {
            fd: fd.as_raw_fd(),
            events,
            revents: 0,
        })
        .collect();
    loop {
        let count = polls.len() as libc::nfds_t;
        // SAFETY: the count matches the live structs.
        match checked(unsafe { libc::poll(polls.as_mut_ptr(), count, timeout_ms) } as c_long) {
            Ok(_) => return Ok(polls.iter().map(|poll| poll.revents != 0).collect()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The parent's or the child's side of a fork.
pub enum Forked {
    Parent(i32),
    Child,
}

/// Forks, with extra namespaces for the child (`libc::CLONE_NEW*`, or 0).
///
/// # Safety
/// Only while this process has a single thread: only that thread continues in the child.
pub unsafe fn fork(namespaces: c_int) -> io::Result<Forked> {
    let flags = c_long::from(namespaces) | c_long::from(libc::SIGCHLD);
    // SAFETY: with a null stack, the child continues with a copy of ours, as after fork.
    match checked(unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) })? {
        0 => Ok(Forked::Child),
        pid => Ok(Forked::Parent(pid as i32)),
    }
}

/// libc defines this constant with a type that is too small.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Like `fork`, for a child that starts in the cgroup of this directory.
///
/// # Safety
/// As for `fork`.
pub unsafe fn fork_into(cgroup: BorrowedFd<'_>) -> io::Result<Forked> {
    // SAFETY: all-zero arguments are a plain fork without a signal at its end.
    let mut arguments: libc::clone_args = unsafe { mem::zeroed() };
    arguments.flags = CLONE_INTO_CGROUP;
    arguments.exit_signal = libc::SIGCHLD as u64;
    arguments.cgroup = cgroup.as_raw_fd() as u64;
    // SAFETY: a live struct and its size; without a stack, the child continues with a copy of ours.
    match checked(unsafe {
        libc::syscall(
            libc::SYS_clone3,
            &arguments,
            mem::size_of::<libc::clone_args>(),
        )
    })? {
        0 => Ok(Forked::Child),
        pid => Ok(Forked::Parent(pid as i32)),
    }
}

/// Waits for a child of ours and returns how it ended.
pub fn wait_child(pid: i32) -> io::Result<ExitStatus> {
    let mut status = 0;
    loop {
        // SAFETY: `pid` is a child of ours and `status` is live.
        if unsafe { libc::waitpid(pid, &mut status, 0) } == pid {
            return Ok(ExitStatus::from_raw(status));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Closes every descriptor from `first` on, regardless of its owner in this process.
pub fn close_from(first: c_uint) -> io::Result<()> {
    // SAFETY: plain numbers. Only for a process that uses none of them any more.
    checked(unsafe { libc::syscall(libc::SYS_close_range, first, c_uint::MAX, 0) }).map(drop)
}

/// Marks every descriptor from `first` on close-on-exec. Safe to call between fork and exec.
pub fn close_on_exec_from(first: c_uint) -> io::Result<()> {
    // SAFETY: plain numbers.
    checked(unsafe {
        libc::syscall(
            libc::SYS_close_range,
            first,
            c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    })
    .map(drop)
}

/// Makes `to` a copy of `from` that survives exec. Safe to call between fork and exec.
pub fn place_fd(from: RawFd, to: RawFd) -> io::Result<()> {
    // SAFETY: dup2 onto a number that the caller has kept free.
    checked(unsafe { libc::dup2(from, to) } as c_long).map(drop)
}

/// Writes bytes with one bare write. Safe to call between fork and exec.
pub fn write_once(fd: RawFd, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: the slice is live and its length is given.
    checked(unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) } as c_long).map(drop)
}

/// Sends a descriptor, with one byte, over a socket.
pub fn send_fd(socket: BorrowedFd<'_>, passed: BorrowedFd<'_>) -> io::Result<()> {
    let mut byte = [0u8; 1];
    let mut part = libc::iovec {
        iov_base: byte.as_mut_ptr().cast(),
        iov_len: byte.len(),
    };
    // Words, to align it for its head; one descriptor and its head take three.
    let mut control = [0u64; 4];
    // SAFETY: an all-zero message is valid; what it points to lives until it is sent, and the control
    // buffer has room for one head with one descriptor.
    checked(unsafe {
        let mut message: libc::msghdr = mem::zeroed();
        message.msg_iov = &mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(mem::size_of::<RawFd>() as c_uint) as _;
        let head = libc::CMSG_FIRSTHDR(&message);
        (*head).cmsg_level = libc::SOL_SOCKET;
        (*head).cmsg_type = libc::SCM_RIGHTS;
        (*head).cmsg_len = libc::CMSG_LEN(mem::size_of::<RawFd>() as c_uint) as _;
        libc::CMSG_DATA(head)
            .cast::<RawFd>()
            .write_unaligned(passed.as_raw_fd());
        libc::sendmsg(socket.as_raw_fd(), &message, libc::MSG_NOSIGNAL) as c_long
    })
    .map(drop)
}

/// Limits this process. Safe to call between fork and exec.
pub fn set_rlimit(
    resource: libc::__rlimit_resource_t,
    soft: libc::rlim_t,
    hard: libc::rlim_t,
) -> io::Result<()> {
    let limit = libc::rlimit {
        rlim_cur: soft,
        rlim_max: hard,
    };
    // SAFETY: `limit` is a live struct.
    checked(unsafe { libc::setrlimit(resource, &limit) } as c_long).map(drop)
}
