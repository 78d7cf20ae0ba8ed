//! What PID 1 owes its children: to take note of every death, its own and orphans' alike.

use crate::execs::exec::{Serial, State};
use crate::execs::finish::Outcome;
use crate::server::event_loop::Server;
use crate::sys;
use std::os::fd::AsRawFd;
use std::time::Duration;

impl Server {
    pub fn take_signals(&mut self) {
        let mut info = [0u8; std::mem::size_of::<libc::signalfd_siginfo>()];
        let mut children = false;
        while sys::read(self.signals.as_raw_fd(), &mut info).is_ok() {
            let signal = u32::from_ne_bytes([info[0], info[1], info[2], info[3]]) as i32;
            if signal == libc::SIGCHLD {
                children = true;
            } else {
                self.stop();
            }
        }
        if children {
            self.reap();
        }
    }

    fn reap(&mut self) {
        loop {
            let mut status = 0;
            // SAFETY: status is valid for writing.
            let pid = unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) };
            if pid <= 0 {
                break;
            }
            let (exit_code, signal) = if libc::WIFSIGNALED(status) {
                let signal = libc::WTERMSIG(status);
                (128 + signal, Some(signal))
            } else {
                (libc::WEXITSTATUS(status), None)
            };
            if let Some(shell) = self.shells.of_pid(pid) {
                self.shell_ended(shell, exit_code, signal);
            } else if let Some(serial) = self.process_of(pid) {
                // One that never became its program has said why.
                self.take_launch(serial);
                if self.process_of(pid).is_some() {
                    self.process_ended(serial, exit_code, signal);
                }
            }
        }
        self.tracker.sweep();
    }

    fn process_of(&self, pid: i32) -> Option<Serial> {
        self.execs
            .iter()
            .find(|(_, exec)| exec.pid == pid && exec.state == State::Running && !exec.in_shell())
            .map(|(serial, _)| serial)
    }

    fn process_ended(&mut self, serial: Serial, exit_code: i32, signal: Option<i32>) {
        let outcome = Outcome {
            exit_code,
            signal,
            cwd: None,
        };
        let group = self.execs.get(serial).and_then(|exec| exec.group);
        let was_ended = self
            .execs
            .get(serial)
            .is_some_and(|exec| exec.ending.is_some());
        if let (true, Some(group), Some(origin)) = (was_ended, group, self.origin(serial)) {
            self.tracker.kill(group, &origin);
        }
        self.finish(serial, outcome);
        if let Some(group) = group {
            self.tracker.end(group);
        }
    }

    /// Asked to stop, the runner takes its commands with it. As PID 1 its own end is theirs.
    fn stop(&mut self) {
        self.stopping = true;
        let running: Vec<i32> = self
            .execs
            .iter()
            .filter(|(_, exec)| exec.state == State::Running && exec.pid > 1)
            .map(|(_, exec)| exec.pid)
            .chain(self.shells.pids())
            .collect();
        for pid in running {
            let _ = sys::kill(-pid, libc::SIGKILL);
        }
    }
}

/// A short wait, for the kernel to finish what it was asked to do.
pub fn pause_ms(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}
