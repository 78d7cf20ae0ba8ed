//! Finds what a command started by searching /proc, where no cgroup was delegated.

use crate::sys;
use std::collections::{HashMap, HashSet};
use std::fs;

/// Set in the environment of each command, so that its orphans can be identified.
pub const MARKER: &str = "SANDKASTEN_EXEC_ID";
/// A process that a shell has forked starts its program within this time: half a second.
const NEW_TICKS: u64 = 50;

struct Process {
    parent: i32,
    started: u64,
}

/// The known facts about a command, for finding its processes.
pub struct Origin<'a> {
    pub exec_id: &'a str,
    /// The command's first process, or the shell that runs it.
    pub root: i32,
    /// The root is the shell: it is spared, and so are its older children.
    pub in_shell: bool,
    /// Clock ticks since boot at which the command started.
    pub since: u64,
    /// First processes of other commands, and the shell: neither they nor their children belong to
    /// it.
    pub others: Vec<i32>,
}

impl Origin<'_> {
    /// For systems where the group alone identifies the processes.
    pub fn of_group(root: i32) -> Origin<'static> {
        Origin {
            exec_id: "",
            root,
            in_shell: false,
            since: 0,
            others: Vec::new(),
        }
    }
}

/// Clock ticks since boot, as /proc/PID/stat counts them.
pub fn ticks_now() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: now is valid for writing; sysconf takes a number.
    let per_second = unsafe {
        libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut now);
        libc::sysconf(libc::_SC_CLK_TCK).max(1) as u64
    };
    now.tv_sec as u64 * per_second + now.tv_nsec as u64 * per_second / 1_000_000_000
}

/// All live processes of the command that are visible to the code user.
pub fn started_by(origin: &Origin, uid: u32, gid: u32) -> Vec<i32> {
    sys::as_fs_user(uid, gid, || {
        let processes = scan();
        let mut found: HashSet<i32> = HashSet::new();
        for (pid, process) in &processes {
            if *pid == std::process::id() as i32 || (*pid == origin.root && origin.in_shell) {
                continue;
            }
            if belongs(*pid, process, &processes, origin) {
                found.insert(*pid);
            }
        }
        found.into_iter().collect()
    })
}

fn belongs(
    pid: i32,
    process: &Process,
    processes: &HashMap<i32, Process>,
    origin: &Origin,
) -> bool {
    if pid == origin.root {
        return true;
    }
    if let Some(marker) = marker_of(pid) {
        return marker == origin.exec_id;
    }
    let reaper = std::process::id() as i32;
    // No readable marker: the environment was emptied. Go by the ancestors.
    let mut child_started = process.started;
    let mut parent = process.parent;
    if origin.others.contains(&pid) {
        return false;
    }
    for _ in 0..4096 {
        if origin.others.contains(&parent) {
            return false;
        }
        if parent == origin.root {
            return !origin.in_shell || child_started >= origin.since;
        }
        if parent == reaper {
            // An orphan without a marker that started after the command counts as its own.
            return process.started >= origin.since;
        }
        // Processes that do not descend from the runner belong to no command.
        if parent <= 1 {
            return false;
        }
        let Some(next) = processes.get(&parent) else {
            return false;
        };
        child_started = next.started;
        parent = next.parent;
    }
    false
}

fn scan() -> HashMap<i32, Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return HashMap::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid: i32| Some((pid, stat(pid)?)))
        .collect()
}

fn stat(pid: i32) -> Option<Process> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain anything, including parentheses.
    let after_name = text.iter().rposition(|b| *b == b')')? + 2;
    let fields: Vec<&str> = std::str::from_utf8(text.get(after_name..)?)
        .ok()?
        .split(' ')
        .collect();
    Some(Process {
        parent: fields.get(1)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
}

pub fn parent_of(pid: i32) -> Option<i32> {
    stat(pid).map(|process| process.parent)
}

/// Whether a process waits for something to happen.
pub fn is_asleep(pid: i32) -> bool {
    fs::read(format!("/proc/{pid}/stat")).is_ok_and(|text| {
        let state = text.iter().rposition(|b| *b == b')').map(|at| at + 2);
        state.and_then(|at| text.get(at)) == Some(&b'S')
    })
}

/// Whether a process waits for a lock, which is never released in a process without threads. Also
/// false where the kernel does not show this.
pub fn waits_for_lock(pid: i32, uid: u32, gid: u32) -> bool {
    let place = sys::as_fs_user(uid, gid, || fs::read(format!("/proc/{pid}/wchan")));
    place.is_ok_and(|name| name.starts_with(b"futex"))
}

/// Whether a process has a handler for a signal; None where the kernel does not show this, as on
/// gVisor.
pub fn catches(pid: i32, signal: i32) -> Option<bool> {
    has_signal(pid, "SigCgt:", signal)
}

/// Whether a signal would be lost: a process that a shell has forked may still treat signals as an
/// interactive shell does, until it starts its program.
pub fn would_lose(pid: i32, shell: i32, signal: i32) -> bool {
    let is_new = stat(pid).is_some_and(|process| process.started + NEW_TICKS > ticks_now());
    let caught = matches!(signal, libc::SIGHUP | libc::SIGINT);
    // Where the kernel does not show this, any signal may be ignored.
    let lost = caught || has_signal(pid, "SigIgn:", signal).unwrap_or(true);
    lost && is_new && is_fork_of(pid, shell)
}

/// Whether a process is a fork of a shell and has not become another program.
pub fn is_fork_of(pid: i32, shell: i32) -> bool {
    let command_line = |pid| fs::read(format!("/proc/{pid}/cmdline")).ok();
    command_line(pid) == command_line(shell)
}

/// Whether a signal is in one of the sets that /proc shows for a process.
fn has_signal(pid: i32, set: &str, signal: i32) -> Option<bool> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let mask = (status.lines()).find_map(|line| line.strip_prefix(set))?;
    let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
    Some(signal > 0 && mask >> (signal - 1) & 1 == 1)
}

fn marker_of(pid: i32) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let prefix = format!("{MARKER}=");
    environment
        .split(|b| *b == 0)
        .find_map(|entry| entry.strip_prefix(prefix.as_bytes()))
        .map(|value| String::from_utf8_lossy(value).into_owned())
}

#[cfg(test)]
mod tests {
    use super::waits_for_lock;
    use std::time::{Duration, Instant};

    /// A child that waits forever, in a lock or otherwise.
    fn waiting(in_lock: bool) -> i32 {
        // SAFETY: the child only makes system calls, and never returns.
        unsafe {
            let pid = libc::fork();
            if pid == 0 {
                let taken = 1u32;
                loop {
                    match in_lock {
                        true => libc::syscall(libc::SYS_futex, &taken, libc::FUTEX_WAIT, 1, 0usize),
                        false => libc::pause().into(),
                    };
                }
            }
            pid
        }
    }

    #[test]
    fn a_wait_for_a_lock_is_distinguished_from_other_waits() {
        // SAFETY: plain getters, and children of this test.
        let (uid, gid) = unsafe { (libc::getuid(), libc::getgid()) };
        let (locked, idle) = (waiting(true), waiting(false));
        let began = Instant::now();
        while !waits_for_lock(locked, uid, gid) && began.elapsed() < Duration::from_secs(20) {
            std::thread::yield_now();
        }
        let told = (
            waits_for_lock(locked, uid, gid),
            waits_for_lock(idle, uid, gid),
        );
        for pid in [locked, idle] {
            // SAFETY: they are children that nothing has waited for.
            unsafe {
                libc::kill(pid, libc::SIGKILL);
                libc::waitpid(pid, std::ptr::null_mut(), 0);
            }
        }
        assert_eq!(told, (true, false));
    }
}
