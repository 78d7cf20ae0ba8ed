//! Ends commands, on a timeout or on request, in increasingly forceful steps.

use crate::commands::Commands;
use crate::execs::{CANCELLED_EXIT_CODE, EndingStep, Exec, Outcome, Serial, State};
use crate::processes::proc_tree;
use crate::protocol::failure::Failure;
use crate::server::context::Context;
use crate::shells::{ABORT_SIGNAL, STOP_SIGNAL};
use crate::sys;
use std::time::Duration;

/// How long an interrupted command may take to finish, and a killed one to disappear.
const GRACE: Duration = Duration::from_millis(500);
/// How often a shell is asked to abandon the rest of its line, until it does.
pub const INTERRUPT_INTERVAL: Duration = Duration::from_millis(10);
/// The longest time from when a shell reads a command until it runs it.
const BEGINNING: Duration = Duration::from_millis(200);
/// How long to wait before a kill without effect is repeated.
const AGAIN: Duration = Duration::from_secs(2);

/// The signal that makes a shell abandon its command. The code's own INT trap only applies to INT.
pub fn stop_signal(signal: i32) -> i32 {
    match signal {
        libc::SIGINT => STOP_SIGNAL,
        _ => ABORT_SIGNAL,
    }
}

impl Commands {
    /// Ends a command as a timeout does; false if it had already ended.
    pub fn cancel(&mut self, exec_id: &str, cx: &mut Context) -> Result<bool, Failure> {
        let exec = self.execs.find(exec_id)?;
        let (serial, state) = (exec.serial(), exec.state());
        match state {
            _ if exec.stop().is_certain() => {}
            State::Queued => self.cancel_queued(serial, cx),
            State::Running => self.begin_ending(serial, "cancelled", cx),
            State::Done => {}
        }
        Ok(state != State::Done)
    }

    /// Ends the running and queued commands of a shell, and the shell itself; background jobs
    /// continue.
    pub fn close_shell(&mut self, name: &str, cx: &mut Context) -> Result<(), Failure> {
        let closing = self.shells.close(name)?;
        for serial in closing.waiting {
            let queued = |exec: &Exec| exec.state() == State::Queued;
            if self.execs.get(serial).is_some_and(queued) {
                self.cancel_queued(serial, cx);
            }
        }
        match closing.current {
            Some(serial) => {
                let can_go_on = |exec: &Exec| !exec.stop().is_certain();
                if self.execs.get(serial).is_some_and(can_go_on) {
                    self.begin_ending(serial, "cancelled", cx);
                }
            }
            None => self.shells.drop_if_closed(closing.shell),
        }
        Ok(())
    }

    /// Ends a command that has not begun.
    fn cancel_queued(&mut self, serial: Serial, cx: &mut Context) {
        self.set_step(serial, "cancelled", EndingStep::Killed, GRACE, cx);
        let outcome = Outcome::exited(CANCELLED_EXIT_CODE);
        self.execs.finish(serial, outcome, cx);
    }

    /// Takes the first step: an interrupt, which lets programs clean up.
    pub(super) fn begin_ending(&mut self, serial: Serial, reason: &'static str, cx: &Context) {
        // The shell first: once its foreground program has ended, it would be too late.
        let members = self.members(serial);
        self.stop_shell(serial, STOP_SIGNAL);
        for pid in members {
            let _ = sys::kill(pid, libc::SIGINT);
        }
        self.set_step(serial, reason, EndingStep::Interrupted, GRACE, cx);
    }

    /// Takes the next step after the last one's time is over.
    pub(super) fn escalate(&mut self, serial: Serial, cx: &mut Context) {
        if !self.still_runs(serial, cx) {
            return;
        }
        let Some(exec) = self.execs.get(serial) else {
            return;
        };
        let (Some(ending), in_shell, pid) = (exec.stop().ending, exec.in_shell(), exec.pid())
        else {
            return;
        };
        let now = cx.clock.now();
        match ending.step {
            EndingStep::Signalled if ending.since + AGAIN < now && self.is_stuck(serial) => {
                let _ = sys::kill(pid, libc::SIGKILL);
                self.set_step(serial, ending.reason, EndingStep::ShellKilled, AGAIN, cx);
            }
            EndingStep::Signalled => {
                self.signal_again(serial, ending.signal, now < ending.since + GRACE, cx);
                // At growing intervals, so code that handles signals itself is not flooded.
                let wait = now.saturating_duration_since(ending.since);
                self.wait(serial, wait.max(INTERRUPT_INTERVAL), cx);
            }
            EndingStep::Interrupted => self.kill(serial, ending.reason, cx),
            EndingStep::Killed if in_shell && ending.since + GRACE > now => {
                self.stop_line(serial, cx);
                self.wait(serial, INTERRUPT_INTERVAL, cx);
            }
            // Only a shell that ignores interrupts and loops gets here.
            EndingStep::Killed if in_shell => {
                let _ = sys::kill(pid, libc::SIGKILL);
                self.set_step(serial, ending.reason, EndingStep::ShellKilled, AGAIN, cx);
            }
            EndingStep::Killed | EndingStep::ShellKilled => self.kill(serial, ending.reason, cx),
        }
    }

    /// Kills everything that the command started, and nothing else. The shell is stopped while its
    /// programs die, and then abandons the rest of the line.
    pub(super) fn kill(&mut self, serial: Serial, reason: &'static str, cx: &mut Context) {
        if !self.still_runs(serial, cx) {
            return;
        }
        let has_trap = self.has_trap(serial, ABORT_SIGNAL);
        let Some(exec) = self.execs.get_mut(serial) else {
            return;
        };
        let (shell, pid) = (exec.shell(), exec.pid());
        if let Some(shell) = shell {
            let _ = sys::kill(pid, libc::SIGSTOP);
            self.shells.move_to_new_group(shell);
            // Code may have caught the first interrupt and continued.
            exec.stop_mut().sent &= !has_trap;
            self.stop_shell(serial, ABORT_SIGNAL);
        }
        self.execs.kill_members(serial, &self.shells.pids());
        let mut wait = GRACE;
        if shell.is_some() {
            // Output written before the kill counts; later output does not.
            if let Some(exec) = self.execs.get_mut(serial) {
                exec.mute(cx);
            }
            let _ = sys::kill(pid, libc::SIGCONT);
            wait = INTERRUPT_INTERVAL;
        }
        self.set_step(serial, reason, EndingStep::Killed, wait, cx);
    }

    /// Whether the command still runs, after reading its shell's latest reports.
    fn still_runs(&mut self, serial: Serial, cx: &mut Context) -> bool {
        if let Some(shell) = self.execs.get(serial).and_then(Exec::shell) {
            self.take_reports(shell, cx);
        }
        let runs = |exec: &Exec| exec.state() == State::Running;
        self.execs.get(serial).is_some_and(runs)
    }

    /// Makes a shell abandon its command once the foreground program has ended. Until then, the
    /// request stays pending as a trap or an interrupt. `by` is the preferred one of the signals that
    /// the shell traps for this.
    pub(super) fn stop_shell(&mut self, serial: Serial, by: i32) {
        let bash = self.shells.are_bash();
        let in_command = match bash {
            true => self.is_past_our_lines(serial),
            false => self.is_in_command(serial),
        };
        // Code may have removed one of the two traps. Without it, the signal would end the shell.
        let trapped = |signal: &i32| self.has_trap(serial, *signal);
        let by = [by, STOP_SIGNAL].into_iter().find(trapped);
        let Some(exec) = self.execs.get_mut(serial).filter(|exec| exec.in_shell()) else {
            return;
        };
        let pid = exec.pid();
        let stop = exec.stop_mut();
        if stop.heeded || (stop.sent && (bash || by.is_some())) {
            // A second signal could arrive when the command has already been abandoned.
        } else if let Some(by) = by {
            stop.sent = true;
            stop.aborted |= by == ABORT_SIGNAL;
            let _ = sys::kill(pid, by);
        } else if in_command {
            // Our trap is not set: the command lists traps, code has removed our trap, or the shell
            // has become another program.
            stop.sent |= !bash;
            let _ = sys::kill(pid, libc::SIGINT);
        }
        // Otherwise the shell has not reached the command, and an interrupt would discard our
        // lines.
    }

    /// Whether the shell's trap for one of our signals is set. Where the kernel does not show this, it
    /// is set once the shell has opened the command's pipes, because the traps come first.
    fn has_trap(&self, serial: Serial, signal: i32) -> bool {
        let Some(exec) = self.execs.get(serial) else {
            return false;
        };
        let sets_trap = |shell| self.shells.sets_stop_trap(shell, exec.command());
        proc_tree::catches(exec.pid(), signal)
            .unwrap_or_else(|| exec.shell().is_some_and(sets_trap) && self.is_in_command(serial))
    }

    /// Whether a shell has reached the command but not its report.
    fn is_in_command(&self, serial: Serial) -> bool {
        let Some(exec) = self.execs.get(serial) else {
            return false;
        };
        let reports = exec.shell().is_none_or(|id| self.shells.is_reporting(id));
        !reports && exec.has_pipes_opened()
    }

    /// Whether a shell was asked to abandon its command and is deadlocked.
    fn is_stuck(&self, serial: Serial) -> bool {
        let asked = |exec: &&Exec| exec.stop().sent;
        let shell = self.execs.get(serial).filter(asked).and_then(Exec::shell);
        shell.is_some_and(|shell| self.shells.is_stuck(shell))
    }

    /// Whether bash has passed our own lines and runs those of the command.
    fn is_past_our_lines(&self, serial: Serial) -> bool {
        let shows = |exec: &Exec| exec.age() > BEGINNING || exec.has_written();
        self.execs.get(serial).is_some_and(shows) || !self.later_members(serial).is_empty()
    }

    /// Repeats a signal that arrived before the command had begun, and sends it to processes that
    /// the shell was starting at that moment. Programs started later, to clean up, do not get it.
    fn signal_again(&mut self, serial: Serial, signal: i32, recent: bool, cx: &Context) {
        let members = self.later_members(serial);
        let Some(exec) = self.execs.get(serial) else {
            return;
        };
        let (shell, asked) = (exec.pid(), exec.stop().sent);
        match asked {
            true => self.wake_shell(serial, cx),
            false => self.stop_shell(serial, stop_signal(signal)),
        }
        for pid in members {
            let missed = !asked || (recent && proc_tree::parent_of(pid) == Some(shell));
            let signal = self.signal_for(serial, pid, signal);
            let Some(exec) = self.execs.get_mut(serial) else {
                return;
            };
            if missed && !exec.stop().signalled.contains(&pid) {
                if !proc_tree::would_lose(pid, shell, signal) {
                    exec.stop_mut().signalled.push(pid);
                }
                let _ = sys::kill(pid, signal);
            }
        }
    }

    /// Interrupts a bash that waits in a builtin (`read`), which would otherwise delay its stop
    /// trap until the builtin returns. A running bash handles the trap at once, and must not be
    /// interrupted in its report.
    fn wake_shell(&mut self, serial: Serial, cx: &Context) {
        let waits = |exec: &&Exec| exec.stop().sent && !exec.stop().heeded;
        let Some(exec) = self.execs.get(serial).filter(waits) else {
            return;
        };
        let pid = exec.pid();
        // Where the kernel does not show the shell's state, allow the time that a report takes.
        let since = exec.stop().ending.map(|ending| ending.since);
        let long_ago = since.is_some_and(|since| since + BEGINNING < cx.clock.now());
        if self.has_trap(serial, STOP_SIGNAL)
            && (long_ago || proc_tree::catches(pid, STOP_SIGNAL).is_some())
            && proc_tree::is_asleep(pid)
            // Other shells would handle both signals, one after the other, when their program has
            // ended.
            && (self.shells.are_bash() || self.later_members(serial).is_empty())
        {
            let _ = sys::kill(pid, libc::SIGINT);
        }
    }

    /// Stops the shell from continuing its line, and ends what it has started since.
    fn stop_line(&mut self, serial: Serial, cx: &Context) {
        let shell = self.execs.get(serial).and_then(Exec::shell);
        if shell.is_some_and(|shell| self.shells.ask_again(shell, cx)) {
            return;
        }
        self.stop_shell(serial, ABORT_SIGNAL);
        self.wake_shell(serial, cx);
        let members = self.later_members(serial);
        let Some(exec) = self.execs.get_mut(serial) else {
            return;
        };
        let stop = exec.stop_mut();
        for pid in members {
            if stop.is_new(pid) {
                let _ = sys::kill(pid, libc::SIGINT);
            } else if stop.ending.is_some_and(|e| e.step == EndingStep::Killed) {
                let _ = sys::kill(pid, libc::SIGKILL);
            }
        }
    }

    pub(super) fn members(&self, serial: Serial) -> Vec<i32> {
        self.execs.members(serial, &self.shells.pids())
    }

    /// The processes that the shell runs now, possibly in another group than the command began in.
    fn later_members(&self, serial: Serial) -> Vec<i32> {
        let shell = self.execs.get(serial).and_then(Exec::shell);
        match shell.and_then(|shell| self.shells.group(shell)) {
            Some(group) => self.execs.members_in(group, serial, &self.shells.pids()),
            None => Vec::new(),
        }
    }

    pub(super) fn set_step(
        &mut self,
        serial: Serial,
        reason: &'static str,
        step: EndingStep,
        wait: Duration,
        cx: &Context,
    ) {
        if let Some(exec) = self.execs.get_mut(serial) {
            exec.stop_mut().step(reason, step, cx.clock.now(), wait);
        }
    }

    fn wait(&mut self, serial: Serial, wait: Duration, cx: &Context) {
        if let Some(exec) = self.execs.get_mut(serial)
            && let Some(ending) = &mut exec.stop_mut().ending
        {
            ending.next_at = cx.clock.now() + wait;
        }
    }
}
