//! Tests the isolation from inside the sandbox, and prints the findings as JSON.

use crate::sandbox::usage::file_system;
use crate::sys;
use serde_json::{Value, json};
use std::fs;
use std::io;

const OOM_SCORE: &str = "/proc/self/oom_score_adj";

/// Inspects the sandbox, and tries calls, with the rights of the calling process.
pub fn run() -> Value {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map_or_else(String::new, |value| value.trim().to_string())
    };
    json!({
        "uid": field("Uid"),
        "cap_eff": field("CapEff"),
        "cap_bnd": field("CapBnd"),
        "no_new_privs": field("NoNewPrivs"),
        "seccomp": field("Seccomp"),
        "uid_map": fs::read_to_string("/proc/self/uid_map").unwrap_or_default().trim(),
        "kernel": kernel_release(),
        "interfaces": interfaces(),
        "root_read_only": root_is_read_only(),
        "workspace_bytes": file_system("/workspace").map_or(0, |found| {
            found.f_blocks * found.f_frsize
        }),
        "sys_visible": fs::read_dir("/sys").is_ok_and(|mut entries| entries.next().is_some()),
        "pid_one": pid_one(),
        "unshare_user": attempt(|| {
            // SAFETY: plain system call, in a child that exits at once.
            unsafe { libc::unshare(libc::CLONE_NEWUSER) }
        }),
        "mount": attempt(|| {
            // SAFETY: all strings are valid; in a child that exits at once.
            unsafe {
                libc::mount(
                    c"none".as_ptr(),
                    c"/tmp".as_ptr(),
                    c"tmpfs".as_ptr(),
                    0,
                    std::ptr::null(),
                )
            }
        }),
        "pids_max": pids_max().unwrap_or_default(),
        "kill_init": attempt(|| {
            // SAFETY: signal 0 only asks whether one could be sent.
            unsafe { libc::kill(1, 0) }
        }),
        "oom_score": oom_score(),
        // Last, because the score stays as low as it gets.
        "oom_score_lowest": lowest_oom_score(),
    })
}

fn oom_score() -> i32 {
    fs::read_to_string(OOM_SCORE)
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0)
}

/// How far this process can lower its score; the kernel allows everything down to the minimum, or
/// nothing.
fn lowest_oom_score() -> i32 {
    let (mut refused, mut allowed) = (-1001, oom_score());
    while allowed - refused > 1 {
        let tried = refused + (allowed - refused) / 2;
        match fs::write(OOM_SCORE, tried.to_string()) {
            Ok(()) => allowed = tried,
            Err(_) => refused = tried,
        }
    }
    oom_score()
}

/// The release that the kernel reports.
fn kernel_release() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease")
        .unwrap_or_default()
        .trim()
        .to_string()
}

/// The limits in the sandbox's own cgroup, where its own kernel shows them.
fn pids_max() -> Option<String> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let below = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let group = below.split('/').next()?;
    let limit = fs::read_to_string(format!("/run/cgroup/{group}/pids.max")).ok()?;
    Some(limit.trim().to_string())
}

fn interfaces() -> Vec<String> {
    fs::read_to_string("/proc/net/dev")
        .unwrap_or_default()
        .lines()
        .filter_map(|line| Some(line.split_once(':')?.0.trim().to_string()))
        .collect()
}

fn root_is_read_only() -> bool {
    file_system("/").is_some_and(|found| found.f_flag & libc::ST_RDONLY != 0)
}

/// The name of PID 1, if it may be read.
fn pid_one() -> String {
    fs::read_to_string("/proc/1/comm").map_or_else(|e| error_name(&e), |c| c.trim().to_string())
}

/// Tries something in a child process; returns "ok" or the name of the error.
fn attempt(act: impl FnOnce() -> libc::c_int) -> String {
    // SAFETY: this process has one thread; the child makes one call and exits.
    match unsafe { libc::fork() } {
        0 => {
            let code = match sys::check(act()) {
                Ok(_) => 0,
                Err(error) => error.raw_os_error().unwrap_or(255),
            };
            // SAFETY: ends the child without running anything of the parent's.
            unsafe { libc::_exit(code) }
        }
        pid if pid > 0 => {
            let mut status = 0;
            // SAFETY: status is valid for writing.
            unsafe { libc::waitpid(pid, &mut status, 0) };
            if libc::WIFSIGNALED(status) {
                return format!("signal {}", libc::WTERMSIG(status));
            }
            match libc::WEXITSTATUS(status) {
                0 => "ok".into(),
                code => error_name(&io::Error::from_raw_os_error(code)),
            }
        }
        _ => "fork failed".into(),
    }
}

fn error_name(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM) => "EPERM".into(),
        Some(libc::EACCES) => "EACCES".into(),
        Some(libc::ENOSYS) => "ENOSYS".into(),
        Some(libc::ENOENT) => "ENOENT".into(),
        Some(libc::EINVAL) => "EINVAL".into(),
        Some(code) => format!("errno {code}"),
        None => error.to_string(),
    }
}
