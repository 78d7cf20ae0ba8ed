//! Who goes first when the machine runs out of memory: sandboxes, before the daemon.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;

use crate::fault::{Context, Outcome};
use crate::sys;

const OWN_SCORE: &str = "/proc/self/oom_score_adj";

/// Between what daemons have and what the runner gives to code. When the sandbox's own limit is met,
/// code therefore still goes before the runner.
const SANDBOX_SCORE: i32 = 500;

/// What the runtime has, and the sandbox's first process inherits. Never less than our own: to lower
/// it below what somebody privileged chose for this process is refused.
pub fn score_of_sandboxes() -> String {
    let own = fs::read_to_string(OWN_SCORE)
        .ok()
        .and_then(|text| text.trim().parse().ok());
    own.map_or(SANDBOX_SCORE, |own: i32| own.max(SANDBOX_SCORE))
        .to_string()
}

/// SECURITY: written here, and not left to the runtime, because a process that has CAP_SYS_RESOURCE on
/// the host makes it the least that the process and all its children can go back to. Inside the user
/// namespace nobody has that capability (threat: exhausting memory; guarded by
/// `sandboxes_go_before_the_daemon`).
pub fn take_score(score: &str) -> io::Result<()> {
    let file = fs::OpenOptions::new().write(true).open(OWN_SCORE)?;
    sys::write_once(file.as_raw_fd(), score.as_bytes())
}

/// Gives the runner the file of its score, which it writes to as it starts code: the /proc that the
/// sandbox has may be read-only.
///
/// SECURITY: one file of one process, PID 1, and no directory of this machine's /proc (threat: leaked
/// secrets and descriptors; guarded by tests/hostile/oom-score.test.ts).
pub fn hand_score(to: &UnixStream, pid: i32) -> Outcome<()> {
    let path = format!("/proc/{pid}/oom_score_adj");
    let file = match fs::OpenOptions::new().read(true).write(true).open(&path) {
        // It has ended already, and the next step tells why.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened.context(|| format!("opening {path}"))?,
    };
    match sys::send_fd(to.as_fd(), file.as_fd()) {
        // The runner does not need it, or is in gVisor, which passes none on.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        sent => sent.context(|| "passing a descriptor to the runner".into()),
    }
}
