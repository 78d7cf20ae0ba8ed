//! Processes by pid and start time: a pid alone may have been reused.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use crate::fault::{Context, Fault, Outcome};
use crate::sys;

/// When a process started, in clock ticks since boot; none if it is gone or a zombie.
pub fn start_time(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is a name in parentheses that may itself contain spaces and parentheses.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?;
    if state == "Z" || state == "X" {
        return None;
    }
    // After the state (field 3) the start time (field 22) is the nineteenth.
    fields.nth(18)?.parse().ok()
}

pub fn is_alive(pid: i32, started: u64) -> bool {
    start_time(pid) == Some(started)
}

/// Kills exactly the process with this pid and start time; the descriptor shows when it is dead.
/// None if there was no such process.
pub fn kill_exactly(pid: i32, started: u64) -> Outcome<Option<OwnedFd>> {
    let Some(pidfd) = take_hold(pid)? else {
        return Ok(None);
    };
    // With the descriptor, no other process can take its place after this check.
    if !is_alive(pid, started) {
        return Ok(None);
    }
    kill_held(pid, &pidfd)?;
    Ok(Some(pidfd))
}

/// Kills a process that was just seen in a cgroup of the sandbox.
pub fn kill_listed(pid: i32) -> Outcome<()> {
    match take_hold(pid)? {
        Some(pidfd) => kill_held(pid, &pidfd),
        None => Ok(()),
    }
}

fn take_hold(pid: i32) -> Outcome<Option<OwnedFd>> {
    match sys::pidfd_open(pid) {
        Ok(pidfd) => Ok(Some(pidfd)),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(None),
        Err(error) => Err(error).context(|| format!("opening process {pid}")),
    }
}

/// Kills a process by its descriptor. ESRCH means that it has already ended.
fn kill_held(pid: i32, pidfd: &OwnedFd) -> Outcome<()> {
    match sys::pidfd_kill(pidfd.as_fd()) {
        Err(error) if error.raw_os_error() != Some(libc::ESRCH) => {
            Err(error).context(|| format!("killing process {pid}"))
        }
        _ => Ok(()),
    }
}

/// The pid in a pid file.
pub fn read_pid_file(path: &Path) -> Outcome<i32> {
    let text = fs::read_to_string(path).context(|| format!("reading {}", path.display()))?;
    text.trim().parse().map_err(|_| {
        Fault::new(format!(
            "{} contains {:?}, which is not a process id",
            path.display(),
            text.trim()
        ))
    })
}
