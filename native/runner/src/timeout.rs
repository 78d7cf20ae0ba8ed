//! Ending commands: when their time is up, or when somebody asks for it.

use crate::error::Failure;
use crate::exec::{Ending, EndingStep, Exec, Serial, State};
use crate::finish::Outcome;
use crate::proc_tree::Origin;
use crate::server::Server;
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
/// How often a kill is repeated that had no effect yet.
const AGAIN: Duration = Duration::from_secs(2);

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

    /// First a request to stop, which programs may use to tidy up.
    fn begin_ending(&mut self, serial: Serial, reason: &'static str) {
        self.interrupt(serial);
        self.set_ending(serial, reason, EndingStep::Interrupted, GRACE);
    }

    fn interrupt(&mut self, serial: Serial) -> usize {
        let Some((group, origin)) = self.group_and_origin(serial) else {
            return 0;
        };
        // The shell first: it may be in a loop of its own, and this brings it back to its prompt.
        // After the command's processes it might be there already, where some shells take an
        // interrupt for the end.
        let shell = origin.in_shell && sys::kill(origin.root, libc::SIGINT).is_ok();
        usize::from(shell) + self.tracker.signal(group, &origin, libc::SIGINT)
    }

    fn escalate(&mut self, serial: Serial) {
        let Some(exec) = self.execs.get(serial) else {
            return;
        };
        let (Some(ending), in_shell) = (exec.ending, exec.in_shell()) else {
            return;
        };
        match ending.step {
            EndingStep::Interrupted => self.kill_all(serial, ending.reason),
            // Only a shell that ignores the interrupt and loops gets here.
            EndingStep::Killed if in_shell => {
                if let Some(pid) = self.shell.pid() {
                    let _ = sys::kill(pid, libc::SIGKILL);
                }
                self.set_ending(serial, ending.reason, EndingStep::ShellKilled, AGAIN);
            }
            EndingStep::Killed | EndingStep::ShellKilled => self.kill_all(serial, ending.reason),
        }
    }

    /// Everything that the command started, and nothing else.
    fn kill_all(&mut self, serial: Serial, reason: &'static str) {
        if self.execs.get(serial).is_some_and(Exec::in_shell) {
            self.move_shell();
        }
        if let Some((group, origin)) = self.group_and_origin(serial) {
            self.tracker.kill(group, &origin);
        }
        self.set_ending(serial, reason, EndingStep::Killed, GRACE);
    }

    fn set_ending(
        &mut self,
        serial: Serial,
        reason: &'static str,
        step: EndingStep,
        wait: Duration,
    ) {
        let next_at = self.now() + wait;
        if let Some(exec) = self.execs.get_mut(serial) {
            exec.ending = Some(Ending {
                reason,
                step,
                next_at,
            });
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
            State::Running if in_shell && signal == libc::SIGINT => Ok(self.interrupt(serial)),
            State::Running if signal == libc::SIGKILL && (in_shell || tree) => {
                let reached = self.members(serial).len();
                self.kill_all(serial, "killed");
                Ok(reached.max(1))
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
        let group = self.execs.get(serial).and_then(|exec| exec.group);
        group.is_some() && group != self.shell.group()
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
            .chain(self.shell.pid())
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
