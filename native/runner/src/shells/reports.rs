//! Handles a shell's reports about the command that it runs.

use crate::execs::{Exec, Execs, Outcome, Serial};
use crate::server::context::Context;
use crate::shells::lines::Dialect;
use crate::shells::pipes::SparePipes;
use crate::shells::{ShellId, Shells};
use crate::sys;
use std::ffi::OsStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Packets handled in one turn of the event loop, so a flood does not delay other work.
const PACKET_LIMIT: usize = 64;
/// Fields of the final report: its header, the directory, and the previous directory.
const REPORT_PARTS: usize = 3;
/// Longer than any two directories.
const MAX_REPORT_BYTES: usize = 64 * 1024;

/// The command that a shell is running.
pub struct Current {
    pub serial: Serial,
    /// The command's pipes and scripts. Their names have a random part and code cannot list their
    /// directory, so jobs of earlier commands neither find nor flood them (threat: forged results).
    pub files: Vec<String>,
    /// The exit status, once the shell has reported it.
    pub status: Option<i32>,
    /// The part of the report that has been received.
    report: Vec<u8>,
    traps: String,
    /// Makes the shell report if the command's own lines failed to.
    closing: Vec<Vec<u8>>,
    /// Where a shell lists traps that are removed before it reports.
    trap_list: Option<OwnedFd>,
    /// At the last check, the shell waited for more lines and had not reported.
    found_silent: bool,
}

/// A whole report.
#[derive(Debug, PartialEq)]
struct Report {
    /// `$-`, if the report has it.
    flags: Option<String>,
    /// `PWD` and `OLDPWD` at the end of the command; none if bash has just abandoned it.
    directories: Option<(PathBuf, PathBuf)>,
}

impl Current {
    pub fn new(
        serial: Serial,
        files: Vec<String>,
        closing: Vec<Vec<u8>>,
        trap_list: Option<OwnedFd>,
    ) -> Current {
        Current {
            serial,
            files,
            status: None,
            report: Vec::new(),
            traps: String::new(),
            closing,
            trap_list,
            found_silent: false,
        }
    }

    /// Adds a packet and returns the report that it completes. bash sends its output line by line.
    fn take(&mut self, packet: &[u8]) -> Option<Report> {
        match packet.first() {
            Some(1 | 2) => self.report = packet.to_vec(),
            _ if self.report.first() == Some(&2) => self.report.extend_from_slice(packet),
            _ => {
                self.traps.push_str(&String::from_utf8_lossy(packet));
                return None;
            }
        }
        let is_last = self.report.first() == Some(&2);
        let ends = self.report.iter().filter(|byte| **byte == 0).count();
        if is_last && ends < REPORT_PARTS && self.report.len() < MAX_REPORT_BYTES {
            return None;
        }
        let mut parts = self.report.split(|byte| *byte == 0);
        let text = String::from_utf8_lossy(parts.next().unwrap_or_default());
        let mut words = text.split(' ').skip(1);
        // A late report of an earlier command is dropped, together with the traps before it.
        if words.next().and_then(|number| number.parse().ok()) != Some(self.serial) {
            self.report = Vec::new();
            self.traps.clear();
            return None;
        }
        let status = words.next().unwrap_or_default().trim_start_matches('#');
        if let Ok(status) = status.parse::<u8>() {
            self.status = Some(i32::from(status));
        }
        let flags = words.next().filter(|flags| *flags != "-").map(String::from);
        let mut directory = || PathBuf::from(OsStr::from_bytes(parts.next().unwrap_or_default()));
        let directories = is_last.then(|| (directory(), directory()));
        Some(Report { flags, directories })
    }
}

impl Shells {
    /// Reads the shell's reports, and sends lines that it did not accept before.
    pub fn take_reports(&mut self, id: ShellId, execs: &mut Execs, cx: &mut Context) {
        for _ in 0..PACKET_LIMIT {
            let Some(process) = self
                .by_id
                .get_mut(&id)
                .and_then(|shell| shell.process.as_mut())
            else {
                return;
            };
            process.socket.flush();
            let Some(packet) = process.socket.receive(process.pid, &mut cx.buffer) else {
                return process.watch(id, &cx.poll);
            };
            if process.ready {
                // The next report takes a while. If it is already there, epoll reports it.
                if self.take_report(id, &packet, execs, cx) {
                    return;
                }
            } else {
                self.advance_start(id, &packet, execs, cx);
            }
        }
    }

    /// Returns whether the command has ended.
    fn take_report(
        &mut self,
        id: ShellId,
        packet: &[u8],
        execs: &mut Execs,
        cx: &mut Context,
    ) -> bool {
        let Some(shell) = self.by_id.get_mut(&id) else {
            return false;
        };
        let (Some(current), Some(process)) = (&mut shell.current, &mut shell.process) else {
            return false;
        };
        let Some(report) = current.take(packet) else {
            return false;
        };
        if let Some(flags) = &report.flags {
            shell.memory.take_flags(flags);
        }
        let Some((cwd, old_cwd)) = report.directories else {
            // bash has abandoned the command and reads lines again.
            process.socket.send(std::mem::take(&mut current.closing));
            if let Some(exec) = execs.get_mut(current.serial) {
                exec.stop_mut().heeded = true;
            }
            process.watch(id, &cx.poll);
            return false;
        };
        let Some(status) = current.status else {
            return false;
        };
        shell.memory.take_directory(cwd, old_cwd);
        shell.memory.status = status;
        // Traps that are missing from the report do not exist any more.
        let read = |pipe: &OwnedFd| sys::read(pipe.as_raw_fd(), &mut cx.buffer).unwrap_or(0);
        let listed = current.trap_list.as_ref().map_or(0, read);
        let traps = String::from_utf8_lossy(&cx.buffer[..listed]) + current.traps.as_str();
        let aborted = |exec: &Exec| exec.stop().aborted;
        let aborted = execs.get(current.serial).is_some_and(aborted);
        shell.memory.take_reported_traps(&traps, aborted);
        let current = shell.current.take();
        if let Some(current) = &current {
            self.take_end(id, current, status, execs, cx);
        }
        current.is_some()
    }

    fn take_end(
        &mut self,
        id: ShellId,
        current: &Current,
        status: i32,
        execs: &mut Execs,
        cx: &mut Context,
    ) {
        let serial = current.serial;
        let exec = execs.get(serial);
        if exec.is_some_and(|exec| !exec.has_begun()) {
            // The shell could not open the command's pipes; it may have run out of descriptors.
            self.unstart(current, execs, cx);
            if let Some(shell) = self.by_id.get_mut(&id) {
                shell.replace_process(serial);
            }
            return;
        }
        let ended_by_us = exec.is_some_and(|exec| exec.stop().is_ending());
        self.end(id, current, Outcome::exited(status), execs, cx);
        if !ended_by_us {
            // The answer does not wait for the shell's slow move to another cgroup, unless
            // processes must be dead first.
            cx.connections.flush_early();
        }
        self.run_dir.remove(&current.files);
        self.separate_jobs(id, serial, execs);
        self.run_next(id, execs, cx);
        if self.spare_pipes.is_none() {
            // On failure, the next command tries again.
            self.spare_pipes = SparePipes::make(&self.run_dir).ok();
        }
    }

    /// Handles a shell that read all its lines and waits for more without a report: it will never
    /// report.
    pub(super) fn check_report(&mut self, id: ShellId, execs: &mut Execs, cx: &mut Context) {
        self.take_reports(id, execs, cx);
        let Some(shell) = self.by_id.get_mut(&id) else {
            return;
        };
        let (Some(process), Some(current)) = (&mut shell.process, &mut shell.current) else {
            return;
        };
        let silent = process.waits_for_lines() || process.is_cut_off();
        let pid = process.pid;
        if std::mem::replace(&mut current.found_silent, silent) && silent && !self.ask_again(id, cx)
        {
            let _ = sys::kill(pid, libc::SIGKILL);
        }
    }

    /// Asks a shell that waits for lines to report again: a late interrupt may have discarded the
    /// report. bash reads no more lines in that case.
    pub fn ask_again(&mut self, id: ShellId, cx: &Context) -> bool {
        let Some(shell) = self.by_id.get_mut(&id) else {
            return false;
        };
        let (Some(process), Some(current)) = (&mut shell.process, &mut shell.current) else {
            return false;
        };
        let asks = process.dialect == Dialect::Sh
            && !current.closing.is_empty()
            && process.waits_for_lines();
        if asks {
            current.found_silent = false;
            process.socket.send(std::mem::take(&mut current.closing));
            process.watch(id, &cx.poll);
        }
        asks
    }

    /// Whether a shell has finished its command's lines, so an interrupt would discard the report.
    pub fn is_reporting(&self, id: ShellId) -> bool {
        let shell = self.by_id.get(&id);
        let current = shell.and_then(|shell| shell.current.as_ref());
        let process = shell.and_then(|shell| shell.process.as_ref());
        current.is_none_or(|current| current.closing.is_empty())
            || process.is_some_and(|process| process.socket.is_drained())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn current() -> Current {
        Current::new(7, Vec::new(), Vec::new(), None)
    }

    #[test]
    fn a_report_is_complete_with_both_directories() {
        let mut current = current();
        assert!(current.take(b"\x02 7 #3 himBs\0/work").is_none());
        let report = current.take(b"space\0/old\0").unwrap();
        assert_eq!(current.status, Some(3));
        assert_eq!(report.flags.as_deref(), Some("himBs"));
        let directories = ("/workspace".into(), "/old".into());
        assert_eq!(report.directories, Some(directories));
    }

    #[test]
    fn a_directory_name_keeps_its_bytes() {
        let report = current().take(b"\x02 7 #0 h\0/\xff\xfe\0\0").unwrap();
        let directory = PathBuf::from(OsStr::from_bytes(b"/\xff\xfe"));
        assert_eq!(report.directories, Some((directory, PathBuf::new())));
    }

    #[test]
    fn an_abandoned_command_has_a_status_before_its_directories() {
        let mut current = current();
        let report = current.take(b"\x01 7 130").unwrap();
        assert_eq!((report.directories, current.status), (None, Some(130)));
        let report = current.take(b"\x02 7 - -\0/a\0/b\0").unwrap();
        assert_eq!((report.flags, current.status), (None, Some(130)));
    }

    #[test]
    fn reports_of_other_commands_are_dropped_with_their_traps() {
        let mut current = current();
        assert!(current.take(b"trap -- 'old' EXIT\n").is_none());
        assert!(current.take(b"\x02 6 #0 h\0/a\0/b\0").is_none());
        assert!(current.take(b"trap -- 'new' EXIT\n").is_none());
        assert_eq!(current.status, None);
        assert_eq!(current.traps, "trap -- 'new' EXIT\n");
    }
}
