//! Sends requested signals to commands.

use crate::commands::Commands;
use crate::commands::ending::{INTERRUPT_INTERVAL, stop_signal};
use crate::execs::{EndingStep, Outcome, Serial, State};
use crate::processes::proc_tree;
use crate::protocol::failure::Failure;
use crate::server::context::Context;
use crate::shells::sets_trap;
use crate::sys;

/// Signals that end a queued command.
const ENDING_SIGNALS: [i32; 5] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGKILL,
    libc::SIGTERM,
];

impl Commands {
    /// Returns how many processes received the signal.
    pub fn signal(
        &mut self,
        exec_id: &str,
        signal: i32,
        tree: bool,
        cx: &mut Context,
    ) -> Result<usize, Failure> {
        if !(0..=64).contains(&signal) {
            return Err(Failure::invalid(format!("{signal} is not a signal")));
        }
        let exec = self.execs.find(exec_id)?;
        let (serial, pid, in_shell) = (exec.serial(), exec.pid(), exec.in_shell());
        Ok(match exec.state() {
            // Signal 0 only checks whether the command exists.
            State::Queued if !ENDING_SIGNALS.contains(&signal) => usize::from(signal == 0),
            State::Queued => {
                let outcome = Outcome {
                    exit_code: 128 + signal,
                    signal: Some(signal),
                    cwd: None,
                };
                self.execs.finish(serial, outcome, cx);
                1
            }
            State::Running if signal == libc::SIGKILL && (in_shell || tree) => {
                let reached = self.members(serial).len();
                self.kill(serial, "killed", cx);
                reached.max(1)
            }
            State::Running if in_shell && ENDING_SIGNALS.contains(&signal) => {
                self.end_by_signal(serial, signal, cx)
            }
            State::Running if in_shell => {
                self.signal_members(serial, signal) + usize::from(self.signal_shell(serial, signal))
            }
            State::Running => {
                let reached = match tree {
                    true => self.signal_members(serial, signal),
                    false => usize::from(sys::kill(-pid, signal).is_ok()),
                };
                // A process that has just been forked is not in its group yet.
                match reached {
                    0 => usize::from(sys::kill(pid, signal).is_ok()),
                    reached => reached,
                }
            }
            // The processes left by a finished command only get signals meant for the whole tree.
            State::Done if tree && (!in_shell || self.has_left_the_shell(serial)) => {
                self.signal_members(serial, signal)
            }
            State::Done => 0,
        })
    }

    /// Ends a command of a shell by a signal.
    fn end_by_signal(&mut self, serial: Serial, signal: i32, cx: &Context) -> usize {
        let Some(exec) = self.execs.get(serial) else {
            return 0;
        };
        let shell = exec.pid();
        let members = self.members(serial);
        // Interactive shells ignore these, unless the code that runs in them has a trap for them.
        let trapped = matches!(signal, libc::SIGTERM | libc::SIGQUIT)
            && proc_tree::catches(shell, signal) == Some(true);
        if trapped {
            let _ = sys::kill(shell, signal);
        } else {
            self.stop_shell(serial, stop_signal(signal));
        }
        let mut count = 0;
        let mut reached = Vec::new();
        for pid in members {
            let signal = self.signal_for(serial, pid, signal);
            if !proc_tree::would_lose(pid, shell, signal) {
                reached.push(pid);
            }
            count += usize::from(sys::kill(pid, signal).is_ok());
        }
        let count = count.max(1);
        // The code's trap decides what a trapped signal does.
        if let (false, Some(exec)) = (trapped, self.execs.get_mut(serial)) {
            let stop = exec.stop_mut();
            stop.signalled.extend(reached);
            // A cancellation or timeout in progress continues with its steps.
            if !stop.is_certain() {
                let (now, step) = (cx.clock.now(), EndingStep::Signalled);
                stop.step("killed", step, now, INTERRUPT_INTERVAL).signal = signal;
            }
        }
        count
    }

    /// The signal to send to a process: TERM instead of HUP for a subshell of bash, which would
    /// pass HUP on to its process group, and so to the shell itself.
    pub(super) fn signal_for(&self, serial: Serial, pid: i32, signal: i32) -> i32 {
        let Some(exec) = self.execs.get(serial) else {
            return signal;
        };
        let passes_on = signal == libc::SIGHUP
            && self.shells.are_bash()
            && proc_tree::is_fork_of(pid, exec.pid())
            && !sets_trap(exec.command(), "HUP");
        match passes_on {
            true => libc::SIGTERM,
            false => signal,
        }
    }

    /// Signals the shell itself if the command has a trap for the signal. Without a trap, the
    /// signal would end the shell, and later commands would lose their state.
    fn signal_shell(&self, serial: Serial, signal: i32) -> bool {
        let Some(exec) = self
            .execs
            .get(serial)
            .filter(|exec| exec.has_pipes_opened())
        else {
            return false;
        };
        let takes = |shell| self.shells.takes_signal(shell, exec.command(), signal);
        exec.shell().is_some_and(takes) && sys::kill(exec.pid(), signal).is_ok()
    }

    fn signal_members(&self, serial: Serial, signal: i32) -> usize {
        self.execs
            .signal_members(serial, signal, &self.shells.pids())
    }

    /// True if the shell has moved out of the command's group.
    fn has_left_the_shell(&self, serial: Serial) -> bool {
        let Some(exec) = self.execs.get(serial) else {
            return false;
        };
        let shell = exec.shell().and_then(|shell| self.shells.group(shell));
        exec.group().is_some() && exec.group() != shell
    }
}
