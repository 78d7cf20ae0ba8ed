//! The end of a shell's process, and the groups of processes that commands leave behind.

use crate::execs::{Execs, Outcome, Serial};
use crate::processes::proc_tree::Origin;
use crate::processes::{Group, SharedDirectory};
use crate::server::context::Context;
use crate::shells::process::ShellProcess;
use crate::shells::reports::Current;
use crate::shells::{ShellId, Shells};
use std::path::PathBuf;

impl Shells {
    /// Separates background jobs from the shell: the jobs keep the command's group and the shell
    /// moves to a new one. So every process that shares a group with the shell belongs to the
    /// current command.
    pub(super) fn separate_jobs(&mut self, id: ShellId, serial: Serial, execs: &Execs) {
        let Some(process) = self.by_id.get(&id).and_then(|shell| shell.process.as_ref()) else {
            return;
        };
        let origin = Origin {
            in_shell: true,
            ..Origin::of_group(process.pid)
        };
        if process.group == Group::Processes {
            self.kill_survivors(serial, execs);
        } else if !self.tracker.members(process.group, &origin).is_empty() {
            self.move_to_new_group(id);
            self.kill_survivors(serial, execs);
        }
    }

    pub fn move_to_new_group(&mut self, id: ShellId) {
        let Some(process) = (self.by_id.get_mut(&id)).and_then(|shell| shell.process.as_mut())
        else {
            return;
        };
        let next = self.tracker.begin();
        if next != Group::Processes && self.tracker.move_into(next, process.pid) {
            let old = std::mem::replace(&mut process.group, next);
            self.tracker.end(old);
        }
    }

    /// Kills what a command left running, if the command was ended on request or by a limit.
    fn kill_survivors(&self, serial: Serial, execs: &Execs) {
        if execs.get(serial).is_some_and(|e| e.stop().is_ending()) {
            execs.kill_members(serial, &self.pids());
        }
    }

    /// Handles the end of the process, by `exit`, `exec` or a signal.
    pub fn process_ended(
        &mut self,
        id: ShellId,
        exit_code: i32,
        signal: Option<i32>,
        execs: &mut Execs,
        cx: &mut Context,
    ) {
        // The last report may still be in the socket.
        self.take_reports(id, execs, cx);
        let Some(shell) = self.by_id.get_mut(&id) else {
            return;
        };
        let current = shell.current.take();
        let Some(process) = shell.process.take() else {
            return;
        };
        cx.poll.remove(process.socket.fd());
        self.take_last_directory(id, &process, current.as_ref(), execs);
        self.kill_with_process(&process, current.as_ref(), execs);
        self.tracker.end(process.group);
        self.release_directory(process.directory);
        match current {
            None if !process.ready && !process.discarded => {
                self.start_failed(id, exit_code, execs, cx);
            }
            None => self.note_replaced(id),
            Some(current) => {
                self.note_replaced(id);
                let ended = (exit_code, signal);
                self.end_or_retry(id, &current, ended, execs, cx);
            }
        }
        self.run_next(id, execs, cx);
    }

    fn note_replaced(&mut self, id: ShellId) {
        if let Some(shell) = self.by_id.get_mut(&id) {
            shell.replaced = true;
        }
    }

    /// Ends the command that a shell was running when it ended, or requeues it if it never began.
    fn end_or_retry(
        &mut self,
        id: ShellId,
        current: &Current,
        (exit_code, signal): (i32, Option<i32>),
        execs: &mut Execs,
        cx: &mut Context,
    ) {
        let serial = current.serial;
        if !execs.get(serial).is_none_or(|exec| exec.has_begun()) {
            // The shell never started the command, so it is safe to run it in the next process.
            self.unstart(current, execs, cx);
            if let Some(shell) = self.by_id.get_mut(&id) {
                shell.queue.push_front(serial);
            }
            return;
        }
        if let Some(exec) = execs.get_mut(serial) {
            exec.note_restart();
        }
        let outcome = Outcome {
            exit_code: current.status.unwrap_or(exit_code),
            signal: signal.filter(|_| current.status.is_none()),
            cwd: None,
        };
        self.end(id, current, outcome, execs, cx);
        self.run_dir.remove(&current.files);
        self.kill_survivors(serial, execs);
    }

    /// Kills the shell's group if its command was being ended: the command may have continued
    /// there.
    fn kill_with_process(&self, process: &ShellProcess, current: Option<&Current>, execs: &Execs) {
        let ended = current
            .and_then(|current| execs.get(current.serial))
            .is_some_and(|exec| exec.stop().is_ending());
        if ended && process.group != Group::Processes {
            let origin = Origin::of_group(process.pid);
            self.tracker.kill(process.group, &origin);
        }
    }

    /// Stores the shell's last directory, unless it was set for one command only, or by a profile.
    fn take_last_directory(
        &mut self,
        id: ShellId,
        process: &ShellProcess,
        current: Option<&Current>,
        execs: &Execs,
    ) {
        let exec = current.and_then(|current| execs.get(current.serial));
        let in_other = exec.is_some_and(|exec| exec.request().cwd.is_some());
        let (uid, gid) = (self.sandbox.uid, self.sandbox.gid);
        let (Some(shell), Some(directory)) = (self.by_id.get_mut(&id), &process.directory) else {
            return;
        };
        if process.ready
            && !in_other
            && let Some(cwd) = directory.path(&shell.memory.cwd, uid, gid)
        {
            shell.memory.take_directory(cwd, PathBuf::new());
        }
    }

    fn release_directory(&mut self, directory: Option<SharedDirectory>) {
        self.leaving.retain(|directory| !directory.has_ended());
        if let Some(directory) = directory {
            directory.release();
            self.leaving.push(directory);
        }
    }
}
