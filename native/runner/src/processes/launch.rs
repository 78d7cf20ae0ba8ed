//! Starts a process as the code user, without anything that belongs to the runner.

use crate::processes::SharedDirectory;
use crate::sandbox::Sandbox;
use crate::sys;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;

pub struct Launch<'a> {
    pub sandbox: &'a Sandbox,
    pub argv: &'a [String],
    pub env: &'a [(String, String)],
    pub cwd: &'a Path,
    pub uid: u32,
    pub gid: u32,
    /// stdin, stdout, stderr.
    pub stdio: [RawFd; 3],
    /// stdin is a terminal that becomes the controlling one.
    pub terminal: bool,
    /// `cgroup.procs` of the group that the process belongs to.
    pub entrance: Option<RawFd>,
}

/// Why a process could not be started: the step and the error.
pub struct LaunchError {
    pub step: &'static str,
    pub error: io::Error,
}

const STEPS: [&str; 5] = ["group", "user", "directory", "terminal", "exec"];

/// A process that has not started its program yet.
pub struct Launched {
    pub pid: i32,
    /// Closes when the program starts, or reports why it does not.
    pub report: OwnedFd,
}

/// The progress of a launched process.
pub enum Progress {
    Pending,
    Running,
    Failed(LaunchError),
}

/// Starts a process without waiting for it: once it has the code user's id, code can stop it, and
/// PID 1 must not be blocked by that (threat: attacks on PID 1).
pub fn launch(request: &Launch) -> io::Result<Launched> {
    // SAFETY: what `start` passes never returns, and only makes system calls.
    let fork = |child: &dyn Fn()| Ok((unsafe { fork(child) }?, ()));
    start(request, fork).map(|(launched, ())| launched)
}

/// The same for a process whose directory must be known after its end. If the sandbox has no room
/// for the extra thread, the process starts without it.
pub fn launch_sharing_directory(
    request: &Launch,
) -> io::Result<(Launched, Option<SharedDirectory>)> {
    // SAFETY: as above.
    start(request, |child| {
        match unsafe { SharedDirectory::start(child) } {
            Ok((pid, directory)) => Ok((pid, Some(directory))),
            Err(_) => Ok((unsafe { fork(child) }?, None)),
        }
    })
}

fn start<T>(
    request: &Launch,
    create: impl FnOnce(&dyn Fn()) -> io::Result<(i32, T)>,
) -> io::Result<(Launched, T)> {
    let argv = c_strings(request.argv.iter().map(String::as_bytes))?;
    let env = c_strings(
        request
            .env
            .iter()
            .map(|(k, v)| [k.as_bytes(), b"=", v.as_bytes()].concat()),
    )?;
    let cwd = sys::c_path(request.cwd)?;
    let candidates = candidates(request)?;
    let argv_pointers = pointers(&argv);
    let env_pointers = pointers(&env);
    let (report, report_write) = sys::pipe(0)?;
    sys::set_nonblocking(report.as_raw_fd())?;

    let raised = request.sandbox.oom_score.raise()?;
    let (pid, kept) = create(&|| {
        // SAFETY: between fork and exec the child only makes system calls on memory that was
        // prepared above; it takes no lock and allocates nothing, because other threads may hold any
        // lock.
        unsafe {
            become_program(
                request,
                &candidates,
                &argv_pointers,
                &env_pointers,
                &cwd,
                report_write.as_raw_fd(),
            )
        }
    })?;
    drop(raised);
    Ok((Launched { pid, report }, kept))
}

/// # Safety
/// `child` must never return, and only make system calls on memory that was prepared before.
unsafe fn fork(child: &dyn Fn()) -> io::Result<i32> {
    // SAFETY: the caller has promised what the child does.
    let pid = sys::check(unsafe { libc::fork() })?;
    if pid == 0 {
        child();
    }
    Ok(pid)
}

/// Reads a launched process's report, without waiting.
pub fn progress(report: &OwnedFd) -> Progress {
    let mut message = [0u8; 5];
    match sys::read(report.as_raw_fd(), &mut message) {
        Ok(5) => {
            let errno = [message[1], message[2], message[3], message[4]];
            Progress::Failed(LaunchError {
                step: STEPS
                    .get(usize::from(message[0]))
                    .copied()
                    .unwrap_or("exec"),
                error: io::Error::from_raw_os_error(i32::from_ne_bytes(errno)),
            })
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Progress::Pending,
        _ => Progress::Running,
    }
}

fn c_strings<T: AsRef<[u8]>>(values: impl Iterator<Item = T>) -> io::Result<Vec<CString>> {
    values.map(sys::c_string).collect()
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings
        .iter()
        .map(|s| s.as_ptr())
        .chain(std::iter::once(std::ptr::null()))
        .collect()
}

/// The paths to try, in the order in which a shell would look up the program.
fn candidates(request: &Launch) -> io::Result<Vec<CString>> {
    let program = request.argv.first().map_or("", String::as_str);
    if program.contains('/') {
        return Ok(vec![sys::c_string(program)?]);
    }
    let path = request
        .env
        .iter()
        .find(|(name, _)| name == "PATH")
        .map_or("/usr/local/bin:/usr/bin:/bin", |(_, value)| value.as_str());
    path.split(':')
        .filter(|dir| !dir.is_empty())
        .map(|dir| sys::c_string(format!("{dir}/{program}")))
        .collect()
}

/// # Safety
/// Runs in a child just forked from a process with threads: only system calls are allowed.
unsafe fn become_program(
    request: &Launch,
    candidates: &[CString],
    argv: &[*const libc::c_char],
    env: &[*const libc::c_char],
    cwd: &CStr,
    report: RawFd,
) -> ! {
    // SAFETY: the caller has promised the state of the process; each call gets valid memory.
    unsafe {
        libc::setsid();
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
        for signal in 1..=libc::SIGRTMAX() {
            // The runner may have been started with ignored signals; commands must not inherit
            // that.
            libc::signal(signal, libc::SIG_DFL);
        }

        libc::setrlimit(libc::RLIMIT_NOFILE, &request.sandbox.open_files);
        if let Some(entrance) = request.entrance
            && libc::write(entrance, b"0".as_ptr().cast(), 1) < 0
        {
            fail(report, 0);
        }
        for (target, source) in request.stdio.iter().enumerate() {
            if *source == target as RawFd {
                libc::fcntl(*source, libc::F_SETFD, 0);
            } else {
                libc::dup2(*source, target as RawFd);
            }
        }
        if request.terminal && libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
            fail(report, 3);
        }
        // SECURITY: code never keeps the runner's ids, groups or a way to gain privileges (threat:
        // gaining privileges).
        if (libc::getuid() != request.uid || libc::getgid() != request.gid)
            && take_ids(request.uid, request.gid) < 0
        {
            fail(report, 1);
        }
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        // SECURITY: if the code user has to be the runner's own user (a user namespace with one
        // id), its capabilities are dropped here; with no_new_privs, no program can regain them.
        if !request.sandbox.allow_user && drop_capabilities() < 0 {
            fail(report, 1);
        }
        if libc::chdir(cwd.as_ptr()) < 0 {
            fail(report, 2);
        }
        let mut error = libc::ENOENT;
        for candidate in candidates {
            libc::execve(candidate.as_ptr(), argv.as_ptr(), env.as_ptr());
            let this = *libc::__errno_location();
            if this != libc::ENOENT && this != libc::ENOTDIR {
                error = this;
            }
        }
        *libc::__errno_location() = error;
        fail(report, 4)
    }
}

/// The C library's calls would wait for the runner's threads, which this process does not have.
///
/// # Safety
/// As for `become_program`.
unsafe fn take_ids(uid: u32, gid: u32) -> libc::c_long {
    // SAFETY: plain numbers, and a list of none.
    unsafe {
        let none = std::ptr::null::<libc::gid_t>();
        if libc::syscall(libc::SYS_setgroups, 0, none) < 0
            || libc::syscall(libc::SYS_setresgid, gid, gid, gid) < 0
        {
            return -1;
        }
        libc::syscall(libc::SYS_setresuid, uid, uid, uid)
    }
}

/// # Safety
/// As for `become_program`.
unsafe fn drop_capabilities() -> libc::c_long {
    const VERSION_3: u32 = 0x2008_0522;
    let header = [VERSION_3, 0];
    let none = [0u32; 6];
    // SAFETY: header and data have the layout of version 3: two words, and twice three.
    unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) }
}

/// # Safety
/// As for `become_program`.
unsafe fn fail(report: RawFd, step: u8) -> ! {
    // SAFETY: as above.
    unsafe {
        let errno = (*libc::__errno_location()).to_ne_bytes();
        let message = [step, errno[0], errno[1], errno[2], errno[3]];
        libc::write(report, message.as_ptr().cast(), message.len());
        libc::_exit(127)
    }
}
