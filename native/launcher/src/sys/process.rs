//! Processes and namespaces: who we are, whom we make and whom we end.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use libc::{c_int, c_long, c_uint, c_ulong};

use super::{checked, owned};

pub fn geteuid() -> u32 {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::geteuid() }
}

pub fn getegid() -> u32 {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::getegid() }
}

pub fn page_size() -> u64 {
    // SAFETY: plain query.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as u64 }
}

/// Leaves the caller's session, so that a Ctrl-C for the daemon does not end a create half-way.
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

/// Does `act` as `id` in the eyes of filesystems, with all capabilities kept.
pub fn with_filesystem_id<T>(id: u32, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    keeping_capabilities(|| {
        let result = set_filesystem_id(id).and_then(|()| act());
        set_filesystem_id(0)?;
        result
    })
}

/// Does `act` with `id` as effective user and group, with all capabilities kept.
pub fn with_effective_id<T>(id: u32, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let result = keeping_capabilities(|| {
        let result = set_effective_id(id).and_then(|()| act());
        set_effective_id(0)?;
        result
    });
    // A change of ids closes `/proc/self` to others, root with few capabilities included; the
    // runtime looks there for what we hold.
    // SAFETY: plain numbers.
    checked(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1) } as c_long)?;
    result
}

/// Lets `act` change ids without the loss of capabilities that comes with leaving root's.
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
    // SAFETY: plain numbers. These calls tell only the former id; asked with an id that nobody can
    // have they change nothing and tell the present one.
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
    // SAFETY: plain numbers; an unknown capability is an error and none that one has.
    unsafe { libc::prctl(libc::PR_CAPBSET_READ, capability) == 1 }
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

/// Waits until a descriptor is readable (a pidfd: until its process ended); false after the timeout.
pub fn wait_readable(fd: BorrowedFd<'_>, timeout_ms: i32) -> io::Result<bool> {
    let mut poll = libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    loop {
        // SAFETY: one live pollfd.
        match checked(unsafe { libc::poll(&mut poll, 1, timeout_ms) } as c_long) {
            Ok(ready) => return Ok(ready > 0),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// A forked child, or the word that we are it.
pub enum Forked {
    Parent(i32),
    Child,
}

/// Forks, with extra namespaces for the child (`libc::CLONE_NEW*`, or 0).
///
/// # Safety
/// Only while this process has a single thread: the child goes on with a copy of this one alone.
pub unsafe fn fork(namespaces: c_int) -> io::Result<Forked> {
    let flags = c_long::from(namespaces) | c_long::from(libc::SIGCHLD);
    // SAFETY: a null stack makes the child go on with a copy of ours, as fork does.
    match checked(unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) })? {
        0 => Ok(Forked::Child),
        pid => Ok(Forked::Parent(pid as i32)),
    }
}

/// Waits for a child of ours and returns its exit status; a death by signal is 128 + signal.
pub fn wait_child(pid: i32) -> io::Result<i32> {
    let mut status = 0;
    loop {
        // SAFETY: `pid` is a child of ours and `status` is live.
        if unsafe { libc::waitpid(pid, &mut status, 0) } == pid {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    if libc::WIFEXITED(status) {
        Ok(libc::WEXITSTATUS(status))
    } else {
        Ok(128 + libc::WTERMSIG(status))
    }
}

/// Marks every descriptor from `first` on to be closed at exec. Safe to call between fork and exec.
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
