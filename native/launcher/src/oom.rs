//! Makes the kernel kill sandboxes before the daemon when the machine runs out of memory.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;

use crate::fault::{Context, Outcome};
use crate::sys;

const OWN_SCORE: &str = "/proc/self/oom_score_adj";

/// Between the score of daemons and the one that the runner gives to code. So when the sandbox's
/// own limit is reached, code is still killed before the runner.
const SANDBOX_SCORE: i32 = 500;

/// The runtime's score, which the sandbox's first process inherits. Never less than our own:
/// lowering it below a value set by a privileged process is refused.
pub fn score_of_sandboxes() -> String {
    let own = fs::read_to_string(OWN_SCORE)
        .ok()
        .and_then(|text| text.trim().parse().ok());
    own.map_or(SANDBOX_SCORE, |own: i32| own.max(SANDBOX_SCORE))
        .to_string()
}

/// SECURITY: set here, and not left to the runtime, because a process with CAP_SYS_RESOURCE on the
/// host makes it the minimum for the process and all its children. Inside the user namespace no
/// process has that capability (threat: exhausting memory; guarded by
/// `the_kernel_kills_sandboxes_before_the_daemon`).
pub fn take_score(score: &str) -> io::Result<()> {
    let file = fs::OpenOptions::new().write(true).open(OWN_SCORE)?;
    sys::write_once(file.as_raw_fd(), score.as_bytes())
}

/// Passes the runner the file of its score, which it writes to when it starts code: the sandbox's /proc
/// may be read-only.
///
/// SECURITY: one file of one process, PID 1, and no directory of this machine's /proc (threat: leaked
/// secrets and descriptors; guarded by tests/hostile/oom-score.test.ts).
pub fn hand_score(to: &UnixStream, pid: i32) -> Outcome<()> {
    let path = format!("/proc/{pid}/oom_score_adj");
    let file = match fs::OpenOptions::new().read(true).write(true).open(&path) {
        // The process has already ended, and the next step reports why.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened.context(|| format!("opening {path}"))?,
    };
    match sys::send_fd(to.as_fd(), file.as_fd()) {
        // The runner does not need it, or runs in gVisor, which does not pass it on.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        sent => sent.context(|| "passing a descriptor to the runner".into()),
    }
}
