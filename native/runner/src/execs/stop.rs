//! The progress of ending a command.

use std::time::{Duration, Instant};

#[derive(Default)]
pub struct Stop {
    /// None until ending the command begins.
    pub ending: Option<Ending>,
    /// The shell was asked to abandon the command.
    pub sent: bool,
    /// It was also asked to drop the code's trap for INT.
    pub aborted: bool,
    /// bash has abandoned the command.
    pub heeded: bool,
    /// Processes that received the signal that ends the command.
    pub signalled: Vec<i32>,
}

/// The current step of ending the command.
#[derive(Clone, Copy)]
pub struct Ending {
    pub reason: &'static str,
    /// The requested signal, if that is the reason.
    pub signal: i32,
    pub step: EndingStep,
    /// When this step began.
    pub since: Instant,
    /// When the next, stronger step is due.
    pub next_at: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum EndingStep {
    /// The requested signal is being delivered; no stronger step follows.
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

    /// Whether the command certainly ends. A command that only received a signal may handle it and
    /// continue.
    pub fn is_certain(&self) -> bool {
        self.ending
            .is_some_and(|ending| ending.step != EndingStep::Signalled)
    }

    /// Returns true the first time it is called for a process.
    pub fn is_new(&mut self, pid: i32) -> bool {
        let is_new = !self.signalled.contains(&pid);
        if is_new {
            self.signalled.push(pid);
        }
        is_new
    }
}
