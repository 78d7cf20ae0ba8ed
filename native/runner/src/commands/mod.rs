//! Commands from their request to their end: in a shell, or as separate processes.
//!
//! `execs` handles commands alone, and `shells` handles shells alone. This module connects them:
//! which shell gets a command, how a command is ended, and which command a dead process belongs to.

mod ending;
mod requests;
mod signals;

pub use requests::Collecting;

use crate::connections::{Address, ConnectionId};
use crate::execs::{Execs, Outcome, Serial, State};
use crate::processes::Tracker;
use crate::protocol::failure::Failure;
use crate::protocol::message::{ExecListing, ShellListing};
use crate::sandbox::Sandbox;
use crate::server::context::Context;
use crate::server::poll::Poll;
use crate::shells::{RunDir, ShellId, Shells};
use crate::sys;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Instant;

pub struct Commands {
    sandbox: Rc<Sandbox>,
    tracker: Rc<Tracker>,
    execs: Execs,
    shells: Shells,
}

impl Commands {
    /// `cgroups` is where the groups of commands are created.
    pub fn new(
        sandbox: Rc<Sandbox>,
        cgroups: Option<OwnedFd>,
        run_dir: RunDir,
        poll: &Poll,
    ) -> io::Result<Commands> {
        let tracker = Rc::new(Tracker::new(cgroups, sandbox.uid, sandbox.gid));
        Ok(Commands {
            execs: Execs::new(sandbox.clone(), tracker.clone()),
            shells: Shells::new(sandbox.clone(), tracker.clone(), run_dir, poll)?,
            sandbox,
            tracker,
        })
    }

    /// Starts the default shell ahead of its first command.
    pub fn prestart_shell(&mut self, cx: &Context) {
        self.shells.prestart(cx);
    }

    /// The kind of shell that the image has.
    pub fn shell_kind(&self) -> &'static str {
        self.shells.kind()
    }

    /// How processes are assigned to commands.
    pub fn tracking(&self) -> &'static str {
        self.tracker.name()
    }

    pub fn list(&self) -> Vec<ExecListing> {
        self.execs.listings()
    }

    pub fn list_shells(&self) -> Vec<ShellListing> {
        self.shells.list(&self.execs)
    }

    pub fn resize(&self, exec_id: &str, rows: u16, cols: u16) -> Result<(), Failure> {
        self.execs.find(exec_id)?.resize(rows, cols)
    }

    pub fn forget(&mut self, exec_id: &str, cx: &mut Context) -> Result<(), Failure> {
        let exec = self.execs.find(exec_id)?;
        if exec.state() != State::Done {
            return Err(Failure::new("busy", "the command has not ended"));
        }
        let serial = exec.serial();
        self.execs.forget(serial, cx);
        Ok(())
    }

    // Readers and writers of a command.

    pub fn push_stdin(&mut self, serial: Serial, from: Address, data: Vec<u8>, cx: &mut Context) {
        if let Some(exec) = self.execs.get_mut(serial) {
            exec.push_stdin(from, data, cx);
        }
    }

    pub fn close_stdin(&mut self, serial: Serial, cx: &mut Context) {
        if let Some(exec) = self.execs.get_mut(serial) {
            exec.close_stdin(cx);
        }
    }

    /// A reader has consumed this many bytes; false if it had not received that many.
    pub fn acknowledge(
        &mut self,
        serial: Serial,
        reader: Address,
        bytes: u64,
        cx: &mut Context,
    ) -> bool {
        match self.execs.get_mut(serial) {
            Some(exec) => exec.acknowledge(reader, bytes, cx),
            None => true,
        }
    }

    pub fn drop_reader(&mut self, serial: Serial, reader: Address, cx: &mut Context) {
        self.execs.drop_reader(serial, reader, cx);
    }

    pub fn pump_connection(&mut self, connection: ConnectionId, cx: &mut Context) {
        self.execs.pump_connection(connection, cx);
    }

    pub fn lose_connection(&mut self, connection: ConnectionId, cx: &mut Context) {
        self.execs.lose_connection(connection, cx);
    }

    // Descriptors that are ready.

    pub fn take_output(&mut self, serial: Serial, which: u8, cx: &mut Context) {
        self.execs.take_output(serial, which, cx);
    }

    pub fn feed_stdin(&mut self, serial: Serial, cx: &mut Context) {
        if let Some(exec) = self.execs.get_mut(serial) {
            exec.feed_stdin(cx);
        }
    }

    pub fn take_launch(&mut self, serial: Serial, cx: &mut Context) {
        self.execs.take_launch(serial, cx);
    }

    pub fn take_reports(&mut self, shell: ShellId, cx: &mut Context) {
        self.shells.take_reports(shell, &mut self.execs, cx);
    }

    pub fn take_openings(&mut self, cx: &mut Context) {
        for serial in self.shells.take_openings() {
            if let Some(exec) = self.execs.get_mut(serial) {
                exec.stdin_opened(cx);
            }
        }
    }

    // Commands that have just begun.

    pub fn are_quiet(&self) -> bool {
        self.execs.are_quiet()
    }

    pub fn end_quiet(&mut self, cx: &mut Context) {
        self.execs.end_quiet(cx);
    }

    // Deadlines.

    pub fn next_deadline(&self) -> Option<Instant> {
        self.execs.next_deadline()
    }

    /// Whether shells have to be checked periodically.
    pub fn need_checks(&self) -> bool {
        self.shells.are_busy()
    }

    /// Runs the actions that are due.
    pub fn run_deadlines(&mut self, cx: &mut Context) {
        let now = cx.clock.now();
        self.shells.check(&mut self.execs, cx);
        let due: Vec<Serial> = self
            .execs
            .running()
            .filter(|exec| exec.next_deadline().is_some_and(|at| at <= now))
            .map(|exec| exec.serial())
            .collect();
        for serial in due {
            let Some(exec) = self.execs.get(serial) else {
                continue;
            };
            match exec.exceeded(now) {
                Some(limit) => self.begin_ending(serial, limit, cx),
                None => self.escalate(serial, cx),
            }
        }
    }

    // Processes that have ended.

    /// Reaps every process that has ended, children and orphans alike, as PID 1 must.
    pub fn reap(&mut self, cx: &mut Context) {
        loop {
            let mut status = 0;
            // SAFETY: status is valid for writing.
            let pid = unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) };
            if pid <= 0 {
                break;
            }
            let (exit_code, signal) = match libc::WIFSIGNALED(status) {
                true => (128 + libc::WTERMSIG(status), Some(libc::WTERMSIG(status))),
                false => (libc::WEXITSTATUS(status), None),
            };
            if let Some(shell) = self.shells.with_pid(pid) {
                self.shells
                    .process_ended(shell, exit_code, signal, &mut self.execs, cx);
            } else {
                let outcome = Outcome {
                    exit_code,
                    signal,
                    cwd: None,
                };
                self.execs
                    .process_ended(pid, outcome, &self.shells.pids(), cx);
            }
        }
        self.tracker.sweep();
    }

    /// Kills all commands when the runner stops, because PID 1's end kills them anyway.
    pub fn kill_all(&self) {
        let running = self.execs.running().map(|exec| exec.pid());
        for pid in running.filter(|pid| *pid > 1).chain(self.shells.pids()) {
            let _ = sys::kill(-pid, libc::SIGKILL);
        }
    }
}
