//! How far a command has been made to end.

use std::time::{Duration, Instant};

#[derive(Default)]
pub struct Stop {
    /// None until the command is asked to end.
    pub ending: Option<Ending>,
    /// The shell was told to give it up.
    pub sent: bool,
    /// bash has given it up.
    pub heeded: bool,
    /// Processes that got the signal which is to end it.
    pub signalled: Vec<i32>,
}

/// The step that the end of a command has reached.
#[derive(Clone, Copy)]
pub struct Ending {
    pub reason: &'static str,
    /// The signal that was requested, when that is the reason.
    pub signal: i32,
    pub step: EndingStep,
    /// When it reached this step.
    pub since: Instant,
    /// When the next, harder step is due.
    pub next_at: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum EndingStep {
    /// The requested signal is on its way; nothing harder follows.
    Signalled,
    Interrupted,
    Killed,
    ShellKilled,
}

impl Stop {
    /// Takes a step; the next one is due after `wait`.
    pub fn step(
        &mut self,
        reason: &'static str,
        step: EndingStep,
        now: Instant,
        wait: Duration,
    ) -> &mut Ending {
        self.ending.insert(Ending {
            reason,
            signal: libc::SIGKILL,
            step,
            since: now,
            next_at: now + wait,
        })
    }

    pub fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// True for a process the first time that it is asked for.
    pub fn is_new(&mut self, pid: i32) -> bool {
        let is_new = !self.signalled.contains(&pid);
        if is_new {
            self.signalled.push(pid);
        }
        is_new
    }
}
