//! Becomes PID 1: takes over the passed descriptors, then serves until stopped.

use crate::processes::user::is_mapped;
use crate::sandbox::Sandbox;
use crate::sandbox::capabilities;
use crate::sandbox::guest_cgroup::GuestCgroup;
use crate::sandbox::limits::Limits;
use crate::sandbox::oom_score::OomScore;
use crate::server::{Handles, Server};
use crate::shells::RunDir;
use crate::sys;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

pub const DEFAULT_SOCKET: &str = "/run/sandkasten/runner.sock";

/// The command line of `runner init`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Arguments {
    pub listen_fd: Option<RawFd>,
    pub socket: Option<PathBuf>,
    pub cgroup_fd: Option<RawFd>,
    pub memory_fd: Option<RawFd>,
    /// The socket that delivers the file of the runner's `oom_score_adj`.
    pub score_fd: Option<RawFd>,
    /// Where the sandbox's own kernel mounts its cgroups, and the limits to enforce there.
    pub guest_cgroups: Option<PathBuf>,
    pub guest_pids: Option<u64>,
    pub guest_memory: Option<u64>,
    pub user: Option<(u32, u32)>,
    pub allow_user: bool,
    pub workdir: Option<String>,
    /// Directories to hand over to the code user.
    pub owned: Vec<PathBuf>,
    /// For runners that share their file system with others.
    pub run_dir: Option<PathBuf>,
}

impl Arguments {
    pub fn parse(arguments: &[String]) -> Result<Arguments, String> {
        let mut parsed = Arguments::default();
        let mut rest = arguments.iter();
        while let Some(name) = rest.next() {
            if name == "--allow-user" {
                parsed.allow_user = true;
                continue;
            }
            let value = rest.next().ok_or(format!("{name} needs a value"))?;
            let number = || value.parse().map_err(|_| format!("{name}: bad number"));
            let limit = || value.parse().map_err(|_| format!("{name}: bad number"));
            match name.as_str() {
                "--listen-fd" => parsed.listen_fd = Some(number()?),
                "--cgroup-fd" => parsed.cgroup_fd = Some(number()?),
                "--score-fd" => parsed.score_fd = Some(number()?),
                "--memory-fd" => parsed.memory_fd = Some(number()?),
                "--guest-cgroups" => parsed.guest_cgroups = Some(value.into()),
                "--guest-pids" => parsed.guest_pids = Some(limit()?),
                "--guest-memory" => parsed.guest_memory = Some(limit()?),
                "--listen" => parsed.socket = Some(value.into()),
                "--run-dir" => parsed.run_dir = Some(value.into()),
                "--own" => parsed.owned.push(value.into()),
                "--workdir" => parsed.workdir = Some(value.clone()),
                "--user" => {
                    let ids = value
                        .split_once(':')
                        .and_then(|(u, g)| Some((u.parse().ok()?, g.parse().ok()?)));
                    parsed.user = Some(ids.ok_or("--user takes uid:gid")?);
                }
                _ => return Err(format!("unknown option {name}")),
            }
        }
        Ok(parsed)
    }
}

pub fn run(arguments: Arguments) -> io::Result<()> {
    harden();
    let run_dir = RunDir::prepare(arguments.run_dir.as_deref())?;
    let listener = match arguments.listen_fd {
        Some(fd) => inherited(fd)?,
        None => bind(
            &arguments
                .socket
                .clone()
                .unwrap_or_else(|| DEFAULT_SOCKET.into()),
        )?,
    };
    // SAFETY: plain system calls.
    let own = unsafe { (libc::geteuid(), libc::getegid()) };
    let (uid, gid) = arguments
        .user
        .filter(|(uid, gid)| {
            // Without root on the host, our own id may be the only one.
            is_mapped("/proc/self/uid_map", *uid) && is_mapped("/proc/self/gid_map", *gid)
        })
        .unwrap_or(own);
    if uid != own.0 {
        give_away(&arguments.owned, uid, gid)?;
    }
    // Before the first thread starts: a thread that does not block these signals would consume them.
    let signals = sys::signal_fd(&[libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP])?;
    let guest = guest_cgroup(&arguments)?;
    let cgroups = match &guest {
        Some(guest) => Some(guest.directory()?),
        None => arguments.cgroup_fd.and_then(inherited_directory),
    };
    let sandbox = Sandbox {
        uid,
        gid,
        allow_user: arguments.allow_user,
        workdir: arguments.workdir.unwrap_or_else(|| "/workspace".into()),
        env: std::env::vars().collect(),
        open_files: sys::raise_open_files(),
        oom_score: OomScore::open(arguments.score_fd.map(inherited).transpose()?)?,
        limits: Limits {
            guest,
            memory_events: arguments.memory_fd.and_then(|fd| inherited(fd).ok()),
        },
    };
    let handles = Handles {
        listener,
        signals,
        cgroups,
        run_dir,
    };
    let mut server = Server::new(sandbox, handles)?;
    // The result is ignored: the console may have no reader.
    let _ = sys::write(1, b"{\"type\":\"ready\",\"ready\":true}\n");
    server.run()
}

/// Fails, and the sandbox with it, if a limit cannot be enforced.
fn guest_cgroup(arguments: &Arguments) -> io::Result<Option<GuestCgroup>> {
    let Some(mount) = &arguments.guest_cgroups else {
        return Ok(None);
    };
    let mut guest = GuestCgroup::make(mount)?;
    if let Some(most) = arguments.guest_pids {
        guest.limit_pids(most)?;
    }
    if let Some(most) = arguments.guest_memory {
        guest.limit_memory(most)?;
    }
    Ok(Some(guest))
}

fn harden() {
    capabilities::hide_from_tracers();
    // SAFETY: plain system calls with constant arguments.
    unsafe {
        // Where the runner is not PID 1, orphans are still reparented to it.
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
        libc::umask(0o022);
        // One heap for all threads, which frames are allocated from as long as there is work;
        // afterwards `sys::give_back_memory` makes the runner small again.
        libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 20);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 4 << 20);
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Hands new directories over to the code user where this was not possible from outside.
///
/// SECURITY: the capability for it is dropped right afterwards with all others, before any code
/// runs that could use it (threat: gaining privileges).
fn give_away(directories: &[PathBuf], uid: u32, gid: u32) -> io::Result<()> {
    for path in directories {
        // The target of a link is not ours.
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let directory = sys::open(&sys::c_path(path)?, flags, 0)?;
        if std::fs::File::from(directory.try_clone()?)
            .metadata()?
            .uid()
            == uid
        {
            continue;
        }
        // SAFETY: plain system call on a descriptor that we own.
        sys::check(unsafe { libc::fchown(directory.as_raw_fd(), uid, gid) })?;
    }
    capabilities::keep_only(&capabilities::FOR_LIFE)
}

/// Takes over a descriptor and makes sure that no command inherits it.
///
/// SECURITY: a leaked listener or cgroup directory would be a way out (threat: leaked secrets and
/// descriptors).
fn inherited(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: plain fcntl; it fails if there is no such descriptor.
    sys::check(unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    // SAFETY: it exists and was handed to us by number; nothing else in this process uses it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A placeholder that is not a directory stands for "none".
fn inherited_directory(fd: RawFd) -> Option<OwnedFd> {
    let fd = inherited(fd).ok()?;
    // SAFETY: an all-zero stat is a valid value to be overwritten.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: stat is valid for writing.
    sys::check(unsafe { libc::fstat(fd.as_raw_fd(), &mut stat) }).ok()?;
    (stat.st_mode & libc::S_IFMT == libc::S_IFDIR).then_some(fd)
}

/// SECURITY: only the runner's own user may connect (threat: replaced sockets).
fn bind(path: &Path) -> io::Result<OwnedFd> {
    let _ = fs::remove_file(path);
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(listener.into())
}
