//! Ending commands: when their time is up, or when somebody asks for it.

use crate::error::Failure;
use crate::exec::{Ending, EndingStep, Exec, Serial, State};
use crate::finish::{CANCELLED_EXIT_CODE, Outcome};
use crate::proc_tree::{self, Origin};
use crate::server::Server;
use crate::shell::{START_TIME, ShellState};
use crate::shell_lines::STOP_SIGNAL;
use crate::sys;
use std::time::{Duration, Instant};

/// The signals that a command which has not begun does not survive.
const ENDING_SIGNALS: [i32; 5] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGKILL,
    libc::SIGTERM,
];
/// What an interrupted command gets to finish in, and a killed one to vanish in.
const GRACE: Duration = Duration::from_millis(500);
/// A longer wait is cut, so that a freeze in it can be told from time that passed.
const MAX_WAIT_MS: u128 = 500;
/// More than the pipes of a command can hold.
const MUTED_BYTES: usize = 4 << 20;
/// How often shells are looked after.
const CHECK_INTERVAL: Duration = Duration::from_millis(400);
/// How often a shell is told to give up the rest of its line, until it does.
const INTERRUPT_INTERVAL: Duration = Duration::from_millis(10);
/// What a shell needs at most from reading a command to running it.
const BEGINNING: Duration = Duration::from_millis(200);
/// A shell that is found running so often in a row is in a loop, and not just about to start a program.
const LOOP_LOOKS: u8 = 3;
/// How often a kill is repeated that had no effect yet.
pub const AGAIN: Duration = Duration::from_secs(2);

impl Server {
    /// For epoll: how long nothing needs to be done.
    pub fn timeout_ms(&self) -> i32 {
        let now = self.now();
        let next = self
            .execs
            .iter()
            .filter(|(_, exec)| exec.state == State::Running)
            .filter_map(|(_, exec)| next_deadline(exec))
            .min();
        match next {
            None if self.shells.are_busy() => MAX_WAIT_MS as i32,
            None => -1,
            // Rounded up, so that the loop does not spin in the last millisecond.
            Some(at) => at
                .saturating_duration_since(now)
                .as_millis()
                .saturating_add(1)
                .min(MAX_WAIT_MS) as i32,
        }
    }

    pub fn run_timeouts(&mut self) {
        let now = self.now();
        self.check_shells(now);
        let due: Vec<Serial> = self
            .execs
            .iter()
            .filter(|(_, exec)| exec.state == State::Running)
            .filter(|(_, exec)| next_deadline(exec).is_some_and(|at| at <= now))
            .map(|(serial, _)| serial)
            .collect();
        for serial in due {
            let Some(exec) = self.execs.get(serial) else {
                continue;
            };
            if exec.ending.is_some() {
                self.escalate(serial);
            } else if timeout_at(exec).is_some_and(|at| at <= now) {
                self.begin_ending(serial, "timeout");
            } else {
                self.begin_ending(serial, "idle_timeout");
            }
        }
    }

    /// Looks after shells that take too long to start, or can no longer report.
    fn check_shells(&mut self, now: Instant) {
        let due = |at: Instant| now.saturating_duration_since(at) >= CHECK_INTERVAL;
        if !self.shells.are_busy() || !self.shells.checked_at.is_none_or(due) {
            return;
        }
        self.shells.checked_at = Some(now);
        for id in self.shells.ids() {
            let Some(shell) = self.shells.get(id).and_then(|state| state.shell.as_ref()) else {
                continue;
            };
            if shell.ready {
                self.check_shell(id);
            } else if now.saturating_duration_since(shell.started_at) > START_TIME {
                self.give_up_start(id);
            }
        }
    }

    /// Ends a command as a timeout does; false when it had ended already.
    pub fn cancel_exec(&mut self, exec_id: &str) -> Result<bool, Failure> {
        let exec = self.find(exec_id)?;
        let (state, ending) = (exec.state, exec.ending.is_some());
        if let (false, Some(serial)) = (ending, self.execs.find(exec_id)) {
            match state {
                State::Queued => self.cancel_queued(serial),
                State::Running => self.begin_ending(serial, "cancelled"),
                State::Done => {}
            }
        }
        Ok(state != State::Done)
    }

    /// A command that has not begun just ends.
    pub fn cancel_queued(&mut self, serial: Serial) {
        self.set_ending(serial, "cancelled", EndingStep::Killed, GRACE);
        self.finish(
            serial,
            Outcome {
                exit_code: CANCELLED_EXIT_CODE,
                signal: None,
                cwd: None,
            },
        );
    }

    /// First a request to stop, which programs may use to tidy up.
    pub fn begin_ending(&mut self, serial: Serial, reason: &'static str) {
        self.set_ending(serial, reason, EndingStep::Interrupted, GRACE);
        self.interrupt(serial);
    }

    /// Is tried again soon when a shell cannot be told yet.
    fn interrupt(&mut self, serial: Serial) {
        let Some((group, origin)) = self.group_and_origin(serial) else {
            return;
        };
        // The shell first: when the program that it waits for has ended, it is too late.
        let members = self.tracker.members(group, &origin);
        self.stop_shell(serial);
        let now = self.now();
        let told = self.is_told(serial);
        if let Some(ending) = self.execs.get_mut(serial).and_then(|e| e.ending.as_mut()) {
            let last = ending.since + GRACE;
            ending.next_at = if told {
                last
            } else {
                last.min(now + INTERRUPT_INTERVAL)
            };
        }
        if told {
            for pid in members {
                let _ = sys::kill(pid, libc::SIGINT);
            }
        }
    }

    /// Has a shell give up its command once the program in the foreground has ended. It keeps the wish
    /// until then, as a trap or as an interrupt.
    fn stop_shell(&mut self, serial: Serial) {
        let asleep = (self.execs.get(serial)).is_some_and(|exec| proc_tree::is_asleep(exec.pid));
        self.stop_shell_that(serial, asleep);
    }

    fn stop_shell_that(&mut self, serial: Serial, asleep: bool) {
        let bash = self.shells.kind() == "bash";
        let past_our_lines = bash && self.is_past_our_lines(serial);
        let in_command = !bash && self.is_in_command(serial);
        let Some(exec) = self.execs.get_mut(serial).filter(|exec| exec.in_shell()) else {
            return;
        };
        let catches = proc_tree::catches(exec.pid, STOP_SIGNAL);
        if exec.cut_short || (exec.stop_sent && (bash || catches)) {
            // A second one could strike when the command has been given up already.
        } else if catches {
            exec.stop_sent = true;
            let _ = sys::kill(exec.pid, STOP_SIGNAL);
        } else if past_our_lines {
            // Code has removed the trap, or bash has become another program, or the kernel does not
            // tell of handlers, as gVisor's does not.
            let _ = sys::kill(exec.pid, libc::SIGINT);
        } else if in_command && (asleep || exec.busy_looks >= LOOP_LOOKS) {
            // busybox that is interrupted in a fork never comes back from its next one.
            exec.stop_sent = true;
            let _ = sys::kill(exec.pid, libc::SIGINT);
        } else if in_command {
            exec.busy_looks += 1;
        }
        // Else the shell has not come to the command yet, and would lose our own lines to an interrupt.
    }

    /// Whether bash is past our own lines and in those of the command.
    fn is_past_our_lines(&self, serial: Serial) -> bool {
        self.execs
            .get(serial)
            .is_some_and(|exec| exec.started.elapsed() > BEGINNING || exec.spool.end() > 0)
            || !self.later_members(serial).is_empty()
    }

    /// Whether the command still runs, after a look at what its shell has reported meanwhile.
    fn still_runs(&mut self, serial: Serial) -> bool {
        if let Some(shell) = self.execs.get(serial).and_then(|exec| exec.shell) {
            self.take_reports(shell);
        }
        (self.execs.get(serial)).is_some_and(|exec| exec.state == State::Running)
    }

    fn escalate(&mut self, serial: Serial) {
        if !self.still_runs(serial) {
            return;
        }
        let Some(exec) = self.execs.get(serial) else {
            return;
        };
        let (Some(ending), in_shell, pid) = (exec.ending, exec.in_shell(), exec.pid) else {
            return;
        };
        match ending.step {
            EndingStep::Signalled if self.is_caught(serial, &ending) => {
                let _ = sys::kill(pid, libc::SIGKILL);
                self.set_ending(serial, ending.reason, EndingStep::ShellKilled, AGAIN);
            }
            EndingStep::Signalled => {
                self.signal_again(serial, ending.signal);
                // Ever more rarely: code that handles signals itself is not to drown in them.
                let wait = self.now().saturating_duration_since(ending.since);
                self.wait_with_ending(serial, wait.max(INTERRUPT_INTERVAL));
            }
            EndingStep::Interrupted if ending.since + GRACE > self.now() => self.interrupt(serial),
            EndingStep::Interrupted | EndingStep::Due => self.kill_all(serial, ending.reason),
            EndingStep::Killed if in_shell && ending.since + GRACE > self.now() => {
                self.stop_line(serial);
                self.wait_with_ending(serial, INTERRUPT_INTERVAL);
            }
            // Only a shell that ignores the interrupt and loops gets here.
            EndingStep::Killed if in_shell => {
                let _ = sys::kill(pid, libc::SIGKILL);
                self.set_ending(serial, ending.reason, EndingStep::ShellKilled, AGAIN);
            }
            EndingStep::Killed | EndingStep::ShellKilled => self.kill_all(serial, ending.reason),
        }
    }

    /// Everything that the command started, and nothing else. Its shell does not go on with the
    /// rest of the line: it stands still while its programs die, and then gives the line up.
    fn kill_all(&mut self, serial: Serial, reason: &'static str) {
        if !self.still_runs(serial) {
            return;
        }
        let Some(exec) = self.execs.get(serial) else {
            return;
        };
        let (shell, pid) = (exec.shell, exec.pid);
        let asleep = proc_tree::is_asleep(pid);
        let traps = proc_tree::catches(pid, STOP_SIGNAL);
        if !asleep && !traps && !self.is_told(serial) && self.is_in_command(serial) {
            // It would go on with the rest of its line when its programs die.
            if let Some(exec) = self.execs.get_mut(serial)
                && exec.busy_looks < LOOP_LOOKS
            {
                exec.busy_looks += 1;
                return self.set_ending(serial, reason, EndingStep::Due, INTERRUPT_INTERVAL);
            }
        }
        if let Some(shell) = shell {
            let _ = sys::kill(pid, libc::SIGSTOP);
            self.move_shell(shell);
            // Code may have caught the first interrupt and gone on.
            if let Some(exec) = self.execs.get_mut(serial)
                && traps
            {
                exec.stop_sent = false;
            }
            self.stop_shell_that(serial, asleep);
        }
        if let Some((group, origin)) = self.group_and_origin(serial) {
            self.tracker.kill(group, &origin);
        }
        let wait = match shell {
            None => GRACE,
            Some(_) => {
                // What was said before the kill counts, and nothing after it.
                for which in [0, 1] {
                    self.read_output(serial, which, MUTED_BYTES);
                }
                if let Some(exec) = self.execs.get_mut(serial) {
                    exec.muted = true;
                }
                let _ = sys::kill(pid, libc::SIGCONT);
                INTERRUPT_INTERVAL
            }
        };
        self.set_ending(serial, reason, EndingStep::Killed, wait);
    }

    /// A signal that came before the command had begun is repeated, and what the shell was just starting
    /// when it came gets it too. What a program starts after it, to tidy up, does not.
    fn signal_again(&mut self, serial: Serial, signal: i32) {
        let members = self.later_members(serial);
        let Some(exec) = self.execs.get(serial) else {
            return;
        };
        let (shell, told) = (exec.pid, exec.stop_sent);
        let recent = (exec.ending).is_some_and(|ending| ending.since + GRACE > self.now());
        match told {
            true => self.wake_shell(serial),
            false => self.stop_shell(serial),
        }
        let can_end = self.is_told(serial);
        let Some(exec) = self.execs.get_mut(serial).filter(|_| can_end) else {
            return;
        };
        for pid in members {
            let missed = !told || (recent && proc_tree::parent_of(pid) == Some(shell));
            if missed && !exec.signalled.contains(&pid) {
                if !proc_tree::would_lose(pid, shell, signal) {
                    exec.signalled.push(pid);
                }
                let _ = sys::kill(pid, signal);
            }
        }
    }

    /// A shell heeds its stop signal only when a builtin that waits (`read`) returns, which takes an
    /// interrupt. One that runs heeds it at once, and must not be interrupted in its report.
    fn wake_shell(&mut self, serial: Serial) {
        let waits = |exec: &&Exec| exec.stop_sent && !exec.cut_short;
        if let Some(pid) = self.execs.get(serial).filter(waits).map(|exec| exec.pid)
            && proc_tree::catches(pid, STOP_SIGNAL)
            && proc_tree::is_asleep(pid)
            // Another shell would have both, one after the other, when its program has ended.
            && (self.shells.kind() == "bash" || self.later_members(serial).is_empty())
        {
            let _ = sys::kill(pid, libc::SIGINT);
        }
    }

    /// Keeps the shell from going on with the rest of its line, and ends what it has started
    /// since.
    fn stop_line(&mut self, serial: Serial) {
        if let Some(shell) = self.execs.get(serial).and_then(|exec| exec.shell)
            && self.ask_again(shell)
        {
            return;
        }
        self.stop_shell(serial);
        self.wake_shell(serial);
        let members = self.later_members(serial);
        let Some(exec) = self.execs.get_mut(serial) else {
            return;
        };
        for pid in members {
            if !exec.signalled.contains(&pid) {
                exec.signalled.push(pid);
                let _ = sys::kill(pid, libc::SIGINT);
            } else if (exec.ending).is_some_and(|ending| ending.step == EndingStep::Killed) {
                let _ = sys::kill(pid, libc::SIGKILL);
            }
        }
    }

    /// What the shell runs now, which may be another group than the command began in.
    pub fn later_members(&self, serial: Serial) -> Vec<i32> {
        let group = (self.execs.get(serial).and_then(|exec| exec.shell))
            .and_then(|shell| self.shells.get(shell))
            .and_then(ShellState::group);
        match (group, self.origin(serial)) {
            (Some(group), Some(origin)) => self.tracker.members(group, &origin),
            _ => Vec::new(),
        }
    }

    /// Ends a command of the shell by a signal; tells how many processes got it.
    fn end_by_signal(&mut self, serial: Serial, signal: i32) -> usize {
        let Some((group, origin)) = self.group_and_origin(serial) else {
            return 0;
        };
        let mut members = self.tracker.members(group, &origin);
        let shell = origin.root;
        // Interactive shells ignore these, unless the code that runs in them has a trap for them.
        let trapped =
            matches!(signal, libc::SIGTERM | libc::SIGQUIT) && proc_tree::catches(shell, signal);
        if trapped {
            let _ = sys::kill(shell, signal);
        } else {
            self.stop_shell(serial);
        }
        let mut count = members.len();
        let mut reached = Vec::new();
        if !trapped && !self.is_told(serial) {
            members.clear();
        }
        for pid in members {
            if !proc_tree::would_lose(pid, shell, signal) {
                reached.push(pid);
            }
            if sys::kill(pid, signal).is_err() {
                count -= 1;
            }
        }
        let count = count.max(1);
        if trapped {
            // What comes of it is up to the trap.
            return count;
        }
        if let Some(exec) = self.execs.get_mut(serial) {
            exec.signalled.extend(reached);
        }
        self.set_ending(serial, "killed", EndingStep::Signalled, INTERRUPT_INTERVAL);
        if let Some(ending) = self.execs.get_mut(serial).and_then(|e| e.ending.as_mut()) {
            ending.signal = signal;
        }
        count
    }

    fn set_ending(
        &mut self,
        serial: Serial,
        reason: &'static str,
        step: EndingStep,
        wait: Duration,
    ) {
        let now = self.now();
        if let Some(exec) = self.execs.get_mut(serial) {
            exec.ending = Some(Ending {
                reason,
                signal: libc::SIGKILL,
                step,
                since: now,
                next_at: now + wait,
            });
        }
    }

    fn wait_with_ending(&mut self, serial: Serial, wait: Duration) {
        let next_at = self.now() + wait;
        if let Some(ending) = self.execs.get_mut(serial).and_then(|e| e.ending.as_mut()) {
            ending.next_at = next_at;
        }
    }

    pub fn signal_exec(
        &mut self,
        exec_id: &str,
        signal: i32,
        tree: bool,
    ) -> Result<usize, Failure> {
        if !(0..=64).contains(&signal) {
            return Err(Failure::invalid(format!("{signal} is no signal")));
        }
        let exec = self.find(exec_id)?;
        let (state, pid, in_shell) = (exec.state, exec.pid, exec.in_shell());
        let Some(serial) = self.execs.find(exec_id) else {
            return Ok(0);
        };
        match state {
            State::Queued if !ENDING_SIGNALS.contains(&signal) => Ok(1),
            State::Queued => {
                self.finish(
                    serial,
                    Outcome {
                        exit_code: 128 + signal,
                        signal: Some(signal),
                        cwd: None,
                    },
                );
                Ok(1)
            }
            State::Running if signal == libc::SIGKILL && (in_shell || tree) => {
                let reached = self.members(serial).len();
                self.kill_all(serial, "killed");
                Ok(reached.max(1))
            }
            State::Running if in_shell && ENDING_SIGNALS.contains(&signal) => {
                Ok(self.end_by_signal(serial, signal))
            }
            State::Running if !in_shell && !tree => {
                Ok(usize::from(sys::kill(-pid, signal).is_ok()))
            }
            State::Running => Ok(self.signal_members(serial, signal)),
            // What a finished command left behind can only be meant as a whole.
            State::Done if tree && !in_shell => Ok(self.signal_members(serial, signal)),
            State::Done if tree && self.left_the_shell(serial) => {
                Ok(self.signal_members(serial, signal))
            }
            State::Done => Ok(0),
        }
    }

    /// True when the shell has moved on from the command's group.
    fn left_the_shell(&self, serial: Serial) -> bool {
        let Some(exec) = self.execs.get(serial) else {
            return false;
        };
        let shell = exec.shell.and_then(|shell| self.shells.get(shell));
        exec.group.is_some() && exec.group != shell.and_then(ShellState::group)
    }

    fn members(&self, serial: Serial) -> Vec<i32> {
        self.group_and_origin(serial)
            .map_or_else(Vec::new, |(group, origin)| {
                self.tracker.members(group, &origin)
            })
    }

    fn signal_members(&self, serial: Serial, signal: i32) -> usize {
        self.group_and_origin(serial).map_or(0, |(group, origin)| {
            self.tracker.signal(group, &origin, signal)
        })
    }

    pub fn origin(&self, serial: Serial) -> Option<Origin<'_>> {
        let exec = self.execs.get(serial)?;
        let others = self
            .execs
            .iter()
            .filter(|(other, exec)| *other != serial && exec.state == State::Running)
            .map(|(_, exec)| exec.pid)
            .chain(self.shells.pids())
            .filter(|pid| *pid != exec.pid);
        Some(Origin {
            exec_id: &exec.request.exec_id,
            // The pid of one that has ended may be somebody else's by now.
            root: match exec.state {
                State::Done if !exec.in_shell() => 0,
                _ => exec.pid,
            },
            in_shell: exec.in_shell(),
            since: exec.started_ticks,
            others: others.collect(),
        })
    }

    fn group_and_origin(&self, serial: Serial) -> Option<(crate::tracker::Group, Origin<'_>)> {
        let group = self.execs.get(serial)?.group?;
        Some((group, self.origin(serial)?))
    }
}

fn timeout_at(exec: &Exec) -> Option<Instant> {
    match exec.request.timeout_ms {
        0 => None,
        ms => exec.started_at.checked_add(Duration::from_millis(ms)),
    }
}

fn next_deadline(exec: &Exec) -> Option<Instant> {
    if let Some(ending) = &exec.ending {
        return Some(ending.next_at);
    }
    let idle_at = match exec.request.idle_timeout_ms {
        // A command that waits for its reader is not idle.
        0 => None,
        _ if exec.output_paused => None,
        ms => exec.last_output.checked_add(Duration::from_millis(ms)),
    };
    [timeout_at(exec), idle_at].into_iter().flatten().min()
}
