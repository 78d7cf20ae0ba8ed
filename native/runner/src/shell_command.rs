//! One command in the shell: its text and pipes, its beginning, and how it reports its end.

use crate::error::Failure;
use crate::exec::{Exec, Serial, State};
use crate::finish::Outcome;
use crate::frame::Kind;
use crate::proc_tree;
use crate::run_dir::RunDir;
use crate::server::Server;
use crate::shell::Current;
use crate::sys;
use crate::token::Token;
use serde_json::json;
use std::io;
use std::os::fd::AsRawFd;

/// Longer than any path, with room for tag and status.
const RECORD_LIMIT: usize = 16 * 1024;
/// Read at one go; a flood must not keep the loop from its other work.
const READ_LIMIT: usize = 64 * 1024;

impl Server {
    pub fn run_in_shell(&mut self, serial: Serial) -> Result<(), Failure> {
        if self.shell.shell.is_none() {
            self.start_shell()?;
        }
        let failed = |error: io::Error| Failure::io("prepare", "the command", &error);
        let tag = sys::random_hex().map_err(failed)?;
        let report = self
            .run_dir
            .lasting_output_pipe(&format!("report-{tag}"))
            .map_err(failed)?;
        self.epoll
            .add(report.as_raw_fd(), libc::EPOLLIN, Token::Report.pack())
            .map_err(failed)?;
        let oom_kills = self.oom_kills();
        let now = self.now();
        let tracking = self.tracker.name();
        let waits = self.shell.shell.as_ref().is_some_and(|s| s.wake.is_some());
        let idle = self.idle_line(waits);
        let (Some(shell), Some(exec)) = (&mut self.shell.shell, self.execs.get_mut(serial)) else {
            return Ok(());
        };
        prepare_pipes(&self.run_dir, exec, &tag).map_err(failed)?;
        let prelude = prelude(exec, tracking);
        self.run_dir.put("cmd", &exec.command).map_err(failed)?;
        if !prelude.is_empty() {
            let text = prelude.as_bytes();
            self.run_dir.put("prelude", text).map_err(failed)?;
        }
        let line = source_line(&self.run_dir, exec, &tag, !prelude.is_empty());
        let report_line = format!(
            "command printf '{tag} %s %s\\0' \"$?\" \"${{PWD-}}\" >{}\n",
            self.run_dir.path(&format!("report-{tag}")).display()
        );
        exec.pid = shell.pid;
        exec.begin(now, oom_kills, shell.group);
        exec.shell_restarted = std::mem::take(&mut self.shell.replaced);
        shell.feed(&[&line, &report_line, &idle]);
        self.shell.current = Some(Current {
            serial,
            tag,
            report,
            record: Vec::new(),
        });
        self.announce(serial);
        self.watch_output(serial);
        self.feed_stdin(serial);
        Ok(())
    }

    /// Puts a command back to where it was before it was fed in.
    pub fn unstart(&mut self, current: &Current) {
        self.epoll.remove(current.report.as_raw_fd());
        self.remove_files(&current.tag);
        if let Some(exec) = self.execs.get_mut(current.serial) {
            for fd in exec.output.iter().flatten() {
                self.epoll.remove(fd.as_raw_fd());
            }
            exec.output = [None, None];
            if let Some(fd) = exec.stdin.fd.take() {
                self.epoll.remove(fd.as_raw_fd());
            }
            exec.stdin.watched = false;
            exec.state = State::Queued;
        }
    }

    /// Tells readers that the command has begun.
    pub fn announce(&mut self, serial: Serial) {
        let Some(exec) = self.execs.get_mut(serial) else {
            return;
        };
        if std::mem::replace(&mut exec.announced, true) {
            return;
        }
        let event = json!({
            "event": "started", "exec_id": exec.request.exec_id, "pid": exec.pid
        });
        let addresses: Vec<_> = exec.readers.iter().map(|r| r.address).collect();
        for address in addresses {
            self.send_json(address, Kind::Event, &event);
        }
    }

    /// Reads what the shell reports of the present command: records that end in NUL.
    pub fn take_reports(&mut self) {
        let mut buffer = [0u8; 4096];
        let mut taken = 0;
        while taken < READ_LIMIT {
            let Some(current) = &mut self.shell.current else {
                return;
            };
            let Ok(n @ 1..) = sys::read(current.report.as_raw_fd(), &mut buffer) else {
                return;
            };
            taken += n;
            for byte in &buffer[..n] {
                let Some(current) = &mut self.shell.current else {
                    return;
                };
                if *byte == 0 {
                    let record = std::mem::take(&mut current.record);
                    self.take_record(&record);
                } else {
                    current.push(*byte);
                }
            }
        }
    }

    fn take_record(&mut self, record: &[u8]) {
        let Some(current) = &self.shell.current else {
            return;
        };
        // SECURITY: code can find this pipe by the shell's descriptors. What it writes before the
        // report hides nothing, and without the command's tag it is no report (threat 40).
        let Some(start) = find(record, current.tag.as_bytes()) else {
            return;
        };
        let text = String::from_utf8_lossy(&record[start + current.tag.len()..]);
        let Some((status, cwd)) = text.trim_start().split_once(' ') else {
            return;
        };
        if status == "begun" {
            let serial = self.shell.current.as_ref().map(|current| current.serial);
            if let Some(serial) = serial {
                if let Some(exec) = self.execs.get_mut(serial) {
                    exec.stdin.taken = true;
                }
                self.feed_stdin(serial);
            }
            return;
        }
        let Ok(exit_code) = status.parse::<u8>() else {
            return;
        };
        self.remember_cwd(cwd);
        self.shell.failures = 0;
        if let Some(current) = self.shell.current.take() {
            let ended_by_us = self
                .execs
                .get(current.serial)
                .is_some_and(|exec| exec.ending.is_some());
            self.end_in_shell(&current, i32::from(exit_code), None);
            if !ended_by_us {
                // The answer does not wait for the shell's move to another cgroup, which takes
                // time; only where something must be dead first it does.
                self.flush();
            }
            self.separate_jobs(current.serial);
            self.run_next_in_shell();
        }
    }

    pub fn end_in_shell(&mut self, current: &Current, exit_code: i32, signal: Option<i32>) {
        self.epoll.remove(current.report.as_raw_fd());
        self.remove_files(&current.tag);
        self.finish(
            current.serial,
            Outcome {
                exit_code,
                signal,
                cwd: Some(self.shell.cwd.clone()),
            },
        );
    }

    fn remove_files(&self, tag: &str) {
        self.run_dir.remove(&["cmd", "prelude"]);
        for pipe in ["report", "out", "err", "in"] {
            self.run_dir.remove(&[&format!("{pipe}-{tag}")]);
        }
    }
}

impl Current {
    /// Adds to the record. One that grows too long keeps what begins with the tag: a directory
    /// that long is none, and anything else is no report.
    fn push(&mut self, byte: u8) {
        if self.record.len() == RECORD_LIMIT {
            match find(&self.record, self.tag.as_bytes()) {
                Some(0) => return,
                Some(start) => drop(self.record.drain(..start)),
                None => drop(self.record.drain(..RECORD_LIMIT - self.tag.len())),
            }
        }
        self.record.push(byte);
    }
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

fn prepare_pipes(run_dir: &RunDir, exec: &mut Exec, tag: &str) -> io::Result<()> {
    exec.output[0] = Some(run_dir.output_pipe(&format!("out-{tag}"))?);
    if !exec.request.merge {
        exec.output[1] = Some(run_dir.output_pipe(&format!("err-{tag}"))?);
    }
    if exec.request.stdin {
        exec.stdin.fd = Some(run_dir.input_pipe(&format!("in-{tag}"))?);
    }
    Ok(())
}

/// The line that makes the shell source the command with its pipes.
fn source_line(run_dir: &RunDir, exec: &Exec, tag: &str, has_prelude: bool) -> String {
    let path = |name: &str| run_dir.path(name).to_string_lossy().into_owned();
    let pipe = |name: &str| path(&format!("{name}-{tag}"));
    let mut source = format!(". {}", path("cmd"));
    if has_prelude {
        source = format!(". {} && {source}", path("prelude"));
    }
    if exec.request.stdin {
        // Says that the pipes are open: until then our end of stdin must not be closed.
        source = format!(
            "command printf '{tag} begun \\0' >{}; {source}",
            pipe("report")
        );
    }
    let stdin = match exec.request.stdin {
        true => pipe("in"),
        false => "/dev/null".into(),
    };
    let stderr = match exec.request.merge {
        true => "&1".into(),
        false => pipe("err"),
    };
    format!("{{ {source}; }} <{stdin} >{} 2>{stderr}\n", pipe("out"))
}

/// What to do before the command proper: change directory, set variables.
fn prelude(exec: &Exec, tracking: &str) -> String {
    let mut text = String::new();
    if tracking == "processes" {
        text.push_str(&format!(
            "export {}={}\n",
            proc_tree::MARKER,
            exec.request.exec_id
        ));
    }
    for (name, value) in &exec.request.env {
        text.push_str(&format!("export {name}={}\n", quoted(value)));
    }
    if let Some(cwd) = &exec.request.cwd {
        text.push_str(&format!("cd -- {}\n", quoted(cwd)));
    }
    text
}

fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn quotes_survive_quoting() {
        assert_eq!(quoted("a'b"), r"'a'\''b'");
    }
}
