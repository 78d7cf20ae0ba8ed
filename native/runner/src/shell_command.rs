//! One command in the shell: its text and pipes, its beginning, and how it reports its end.

use crate::error::Failure;
use crate::exec::{Exec, Serial, State};
use crate::finish::Outcome;
use crate::frame::Kind;
use crate::proc_tree;
use crate::run_dir::RunDir;
use crate::server::Server;
use crate::shell::{Current, REPAIR_FILE, ShellId, ShellState};
use crate::shell_lines::{CommandLines, Dialect, farewell_body, lists_traps};
use crate::sys;
use crate::token::Token;
use serde_json::json;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// Packets taken at one go; a flood must not keep the loop from its other work.
const PACKET_LIMIT: usize = 64;
/// The last report: what it is about, the directory, and the one before.
const REPORT_PARTS: usize = 3;
/// Longer than any two directories.
const MAX_REPORT_BYTES: usize = 64 * 1024;

impl Server {
    pub fn run_in_shell(&mut self, id: ShellId, serial: Serial) -> Result<(), Failure> {
        let wanted = self
            .execs
            .get(serial)
            .and_then(|exec| exec.request.cwd.clone());
        // A relative one is taken from the workspace, as everywhere else.
        let cwd = wanted.map(|cwd| {
            let path = Path::new(&self.options.workdir).join(cwd);
            path.to_string_lossy().into_owned()
        });
        if let Some(cwd) = &cwd
            && let Err(error) = self.can_enter(cwd)
        {
            self.end_without_directory(id, serial, cwd, &error);
            return Ok(());
        }
        let failed = |error: io::Error| Failure::io("prepare", "the command", &error);
        self.begin_in_shell(id, serial, cwd.as_deref())
            .map_err(failed)?;
        self.announce(serial);
        self.watch_output(serial);
        self.feed_stdin(serial);
        Ok(())
    }

    fn begin_in_shell(&mut self, id: ShellId, serial: Serial, cwd: Option<&str>) -> io::Result<()> {
        let tag = sys::random_hex()?;
        let oom_kills = self.oom_kills_before();
        let now = self.now();
        let (uid, gid) = (self.options.uid, self.options.gid);
        let tracking = self.tracker.name();
        self.release_terminal(id);
        let (Some(state), Some(exec)) = (self.shells.get_mut(id), self.execs.get_mut(serial))
        else {
            return Ok(());
        };
        let Some(shell) = &mut state.shell else {
            return Ok(());
        };
        if let (None, Some(size)) = (&state.terminal, exec.request.pty) {
            let opened = crate::shell_terminal::ShellTerminal::open(size.rows, size.cols, uid, gid);
            state.terminal = Some(opened?);
        }
        let redirections = match &mut state.terminal {
            Some(terminal) => {
                terminal.reader = Some(serial);
                exec.on_terminal = true;
                exec.output[0] = Some(terminal.master.try_clone()?);
                if exec.request.stdin {
                    exec.stdin.fd = Some(terminal.master.try_clone()?);
                    exec.stdin.taken = true;
                }
                format!("<>{} >&0 2>&1", terminal.path)
            }
            None => prepare_pipes(&self.run_dir, exec, &tag)?,
        };
        if exec.request.stdin && !exec.on_terminal {
            let path = self.run_dir.path(&format!("in-{tag}"));
            self.openings.watch(&path, serial)?;
        }
        // The end of the name comes of an expansion that tells bash where lines begin.
        let file = self.run_dir.path(&format!("cmd-{tag}-0"));
        let status_name = format!("status-{tag}");
        let status = state.memory.status_to_restore();
        if let Some(status) = status {
            let text = format!("return {status}\n");
            self.run_dir.put(&status_name, text.as_bytes())?;
        }
        let status_file = self.run_dir.path(&status_name).display().to_string();
        let env: Vec<(String, String)> = exec.request.env.clone().into_iter().collect();
        let marker = (proc_tree::MARKER, exec.request.exec_id.as_str());
        let may_end = state.memory.may_end_by(&exec.command) && !lists_traps(&exec.command);
        let farewell = may_end.then_some(shell.farewell_path.as_str());
        let lines = CommandLines {
            number: serial,
            redirections: &redirections,
            text: &exec.command,
            file: &file.display().to_string(),
            repair_file: &self.run_dir.path(REPAIR_FILE).display().to_string(),
            env: &env,
            marker: (tracking == "processes").then_some(marker),
            cwd,
            status_file: status.map(|_| status_file.as_str()),
            farewell,
            memory: &state.memory,
        };
        let packets = lines.packets(shell.dialect);
        let closing = lines.closing(shell.dialect);
        (self.run_dir).put(&format!("cmd-{tag}-0"), &lines.file_content(shell.dialect))?;
        exec.pid = shell.pid;
        exec.begin(now, oom_kills, shell.group);
        exec.shell_restarted = std::mem::take(&mut state.replaced);
        if let Some(problem) = state.profile_problem.take() {
            exec.shell_restarted = true;
            let note = format!("sandkasten: {problem}; this shell runs without profile files\n");
            exec.spool.append(2, note.as_bytes());
        }
        shell.socket.send(packets);
        state.current = Some(Current {
            serial,
            tag,
            status: None,
            report: Vec::new(),
            traps: String::new(),
            closing,
            found_silent: false,
        });
        self.watch_shell(id);
        Ok(())
    }

    /// The command before this one gets no more of what the terminal says.
    fn release_terminal(&mut self, id: ShellId) {
        let Some(terminal) = self.shells.get_mut(id).and_then(|s| s.terminal.as_mut()) else {
            return;
        };
        if let Some(exec) = terminal
            .reader
            .take()
            .and_then(|last| self.execs.get_mut(last))
            && let Some(fd) = exec.output[0].take()
        {
            self.epoll.remove(fd.as_raw_fd());
        }
    }

    fn end_without_directory(&mut self, id: ShellId, serial: Serial, cwd: &str, why: &io::Error) {
        let cause = why.to_string();
        let cause = cause.split(" (os error").next().unwrap_or_default();
        let shell_cwd = self.shells.get(id).map(|state| state.memory.cwd.clone());
        self.announce(serial);
        if let Some(exec) = self.execs.get_mut(serial) {
            exec.spool
                .append(2, format!("cd: {cwd}: {cause}\n").as_bytes());
        }
        let outcome = Outcome {
            exit_code: 1,
            signal: None,
            cwd: shell_cwd,
        };
        self.finish(serial, outcome);
    }

    /// Puts a command back to where it was before it was fed in.
    pub fn unstart(&mut self, current: &Current) {
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
            exec.stdin.taken = false;
            exec.retried = true;
            exec.state = State::Queued;
        }
    }

    /// Whether the command has run: a shell that never opened its pipes has not run it.
    pub fn has_begun(&self, current: &Current) -> bool {
        self.execs.get(current.serial).is_none_or(|exec| {
            exec.retried
                || exec.ending.is_some()
                || exec.on_terminal
                || exec.spool.end() > 0
                || (exec.output[0].as_ref()).is_none_or(|fd| sys::was_opened(fd.as_raw_fd()))
        })
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

    /// Has epoll tell when the shell says something, and when it takes more.
    fn watch_shell(&mut self, id: ShellId) {
        let shell = self
            .shells
            .get_mut(id)
            .and_then(|state| state.shell.as_mut());
        let Some(shell) = shell else { return };
        if shell.socket.closed {
            // It would be reported as ready for ever.
            self.epoll.remove(shell.socket.fd());
        } else if let Some(interest) = shell.socket.changed_interest() {
            let token = Token::Report(id).pack();
            let _ = self.epoll.modify(shell.socket.fd(), interest, token);
        }
    }

    /// Reads what the shell reports, and feeds it what it did not take before.
    pub fn take_reports(&mut self, id: ShellId) {
        for _ in 0..PACKET_LIMIT {
            let Some(shell) = self
                .shells
                .get_mut(id)
                .and_then(|state| state.shell.as_mut())
            else {
                return;
            };
            shell.socket.flush();
            let Some(message) = shell.socket.receive(shell.pid) else {
                return self.watch_shell(id);
            };
            if shell.ready {
                self.take_report(id, &message);
            } else {
                self.advance_start(id, &message);
            }
        }
    }

    fn take_report(&mut self, id: ShellId, message: &[u8]) {
        let Some(state) = self.shells.get_mut(id) else {
            return;
        };
        let (Some(current), Some(shell)) = (&mut state.current, &mut state.shell) else {
            return;
        };
        // bash sends what it prints line by line.
        match message.first() {
            Some(1 | 2) => current.report = message.to_vec(),
            _ if current.report.first() == Some(&2) => current.report.extend_from_slice(message),
            _ => {
                current.traps.push_str(&String::from_utf8_lossy(message));
                return;
            }
        }
        let is_last = current.report.first() == Some(&2);
        let ends = current.report.iter().filter(|byte| **byte == 0).count();
        if is_last && ends < REPORT_PARTS && current.report.len() < MAX_REPORT_BYTES {
            return;
        }
        let text = String::from_utf8_lossy(&current.report).into_owned();
        let mut parts = text.split('\0');
        let mut words = parts.next().unwrap_or_default().split(' ');
        words.next();
        // What an earlier command left to say is no word on this one.
        if words.next().and_then(|number| number.parse().ok()) != Some(current.serial) {
            return;
        }
        let status = words.next().unwrap_or_default().trim_start_matches('#');
        if let Ok(status) = status.parse::<u8>() {
            current.status = Some(i32::from(status));
        }
        if let Some(flags) = words.next().filter(|flags| *flags != "-") {
            state.memory.take_flags(flags);
        }
        if !is_last {
            // bash gave the command up, and reads lines again.
            shell.socket.send(std::mem::take(&mut current.closing));
            if let Some(exec) = self.execs.get_mut(current.serial) {
                exec.cut_short = true;
            }
            return self.watch_shell(id);
        }
        let Some(status) = current.status else {
            return;
        };
        let cwd = parts.next().unwrap_or_default();
        state
            .memory
            .take_directory(cwd, parts.next().unwrap_or_default());
        state.memory.status = status;
        // Traps that the shell did not tell of are none.
        let farewell = farewell_body(&shell.farewell_path);
        state.memory.take_traps(&current.traps, &farewell);
        let serial = current.serial;
        let Some(current) = state.current.take() else {
            return;
        };
        if !self.has_begun(&current) {
            return self.replace_shell(id, current);
        }
        let ended_by_us = self
            .execs
            .get(serial)
            .is_some_and(|exec| exec.ending.is_some());
        self.end_in_shell(id, &current, status, None);
        if !ended_by_us {
            // The answer does not wait for the shell's move to another cgroup, which takes
            // time; only where something must be dead first it does.
            self.flush();
        }
        self.separate_jobs(id, serial);
        self.run_next_in_shell(id);
    }

    /// A shell that cannot open a command's pipes (it may have no descriptors left) makes way.
    fn replace_shell(&mut self, id: ShellId, current: Current) {
        self.unstart(&current);
        if let Some(state) = self.shells.get_mut(id) {
            state.queue.push_front(current.serial);
        }
        self.discard_shell(id);
    }

    fn discard_shell(&mut self, id: ShellId) {
        let Some(state) = self.shells.get_mut(id) else {
            return;
        };
        state.replaced = true;
        if let Some(shell) = &mut state.shell {
            // It takes nothing more while its end is on its way.
            shell.ready = false;
            shell.discarded = true;
            let _ = sys::kill(shell.pid, libc::SIGKILL);
        }
    }

    /// A shell that has read all its lines, waits for more and has not reported never will.
    pub fn check_shell(&mut self, id: ShellId) {
        self.take_reports(id);
        let Some(state) = self.shells.get_mut(id) else {
            return;
        };
        let (Some(shell), Some(current)) = (&mut state.shell, &mut state.current) else {
            return;
        };
        let silent = shell.is_cut_off() || shell.waits_for_lines();
        let was_silent = std::mem::replace(&mut current.found_silent, silent);
        if silent && was_silent && !self.ask_again(id) {
            self.kill_shell(id);
        }
    }

    /// Has a shell that waits for lines report once more: an interrupt that came late may have cost it
    /// the report. bash reads no more then.
    pub fn ask_again(&mut self, id: ShellId) -> bool {
        let Some(state) = self.shells.get_mut(id) else {
            return false;
        };
        let (Some(shell), Some(current)) = (&mut state.shell, &mut state.current) else {
            return false;
        };
        let asks =
            shell.dialect == Dialect::Sh && !current.closing.is_empty() && shell.waits_for_lines();
        if asks {
            current.found_silent = false;
            shell.socket.send(std::mem::take(&mut current.closing));
            self.watch_shell(id);
        }
        asks
    }

    fn kill_shell(&self, id: ShellId) {
        if let Some(pid) = self.shells.get(id).and_then(ShellState::pid) {
            let _ = sys::kill(pid, libc::SIGKILL);
        }
    }

    pub fn end_in_shell(
        &mut self,
        id: ShellId,
        current: &Current,
        exit_code: i32,
        signal: Option<i32>,
    ) {
        self.remove_files(&current.tag);
        self.finish(
            current.serial,
            Outcome {
                exit_code,
                signal,
                cwd: self.shells.get(id).map(|state| state.memory.cwd.clone()),
            },
        );
    }

    fn remove_files(&self, tag: &str) {
        self.run_dir.remove(&[&format!("cmd-{tag}-0")]);
        for file in ["status", "out", "err", "in"] {
            self.run_dir.remove(&[&format!("{file}-{tag}")]);
        }
    }
}

/// Makes the command's pipes; gives the redirections to them.
fn prepare_pipes(run_dir: &RunDir, exec: &mut Exec, tag: &str) -> io::Result<String> {
    let path = |name: &str| run_dir.path(&format!("{name}-{tag}")).display().to_string();
    exec.output[0] = Some(run_dir.output_pipe(&format!("out-{tag}"))?);
    let stderr = match exec.request.merge {
        true => "&1".into(),
        false => {
            exec.output[1] = Some(run_dir.output_pipe(&format!("err-{tag}"))?);
            path("err")
        }
    };
    let stdin = match exec.request.stdin {
        true => {
            exec.stdin.fd = Some(run_dir.input_pipe(&format!("in-{tag}"))?);
            path("in")
        }
        false => "/dev/null".into(),
    };
    Ok(format!("<{stdin} >{} 2>{stderr}", path("out")))
}
