//! The end of a command: its result, and when it is forgotten.

use crate::execs::exec::{Exec, State};
use crate::execs::stop::{Ending, EndingStep};
use crate::protocol::failure::Failure;
use crate::protocol::frame::Kind;
use crate::protocol::message::ExecEnd;
use crate::sandbox::limits::Limits;
use crate::server::context::Context;

/// How a command ended, as its process or its shell reported it.
pub struct Outcome {
    pub exit_code: i32,
    pub signal: Option<i32>,
    pub cwd: Option<String>,
}

impl Outcome {
    pub fn exited(exit_code: i32) -> Outcome {
        Outcome {
            exit_code,
            signal: None,
            cwd: None,
        }
    }
}

/// The status that a shell reports for an interrupted command.
const INTERRUPTED: i32 = 128 + libc::SIGINT;
pub const CANCELLED_EXIT_CODE: i32 = INTERRUPTED;
const TIMEOUT_EXIT_CODE: i32 = 124;

impl Exec {
    pub(super) fn finish(&mut self, outcome: Outcome, limits: &Limits, cx: &mut Context) {
        if std::mem::take(&mut self.quiet) {
            self.announce(cx);
        }
        self.state = State::Done;
        let more_can_come = self.drain_output(cx);
        let killed = outcome.signal == Some(libc::SIGKILL) || outcome.exit_code == 137;
        let starved = killed && limits.oom_kills() > self.oom_kills_before;
        let (end_reason, exit_code) = match &self.stop.ending {
            Some(ending) if ending.reason == "killed" => {
                killed_by(ending, self.stop.heeded, outcome.exit_code)
            }
            Some(ending) if ending.reason == "cancelled" => ("cancelled", CANCELLED_EXIT_CODE),
            Some(ending) => (ending.reason, TIMEOUT_EXIT_CODE),
            None if starved => ("oom", outcome.exit_code),
            None if outcome.signal.is_some() => ("killed", outcome.exit_code),
            None => ("exited", outcome.exit_code),
        };
        self.spool.mark_done();
        self.command = Vec::new();
        self.stdin.finish(&cx.poll);
        let lasting_terminal = self.on_terminal && self.shell.is_some();
        self.end = Some(ExecEnd {
            exec_id: self.request.exec_id.clone(),
            end_reason,
            exit_code,
            signal: match &self.stop.ending {
                Some(ending) if end_reason == "killed" => Some(ending.signal),
                _ => outcome.signal,
            },
            cwd: outcome.cwd,
            duration_ms: self.age().as_millis() as u64,
            stdout_bytes: self.spool.stdout_bytes,
            stderr_bytes: self.spool.stderr_bytes,
            dropped_bytes: self.spool.dropped,
            shell_restarted: self.shell_restarted,
            output_open: more_can_come && !lasting_terminal,
        });
        self.output_paused = false;
        self.watch_output(cx);
        self.pump(cx);
    }

    pub(super) fn forget(&mut self, cx: &mut Context) {
        self.forgotten = true;
        self.spool.discard_to(u64::MAX);
        for reader in std::mem::take(&mut self.readers) {
            if reader.answered {
                cx.connections.end_stream(reader.address);
            } else {
                let failure = Failure::new("not_found", "the command was forgotten");
                cx.connections.answer(reader.address, Kind::Error, &failure);
            }
        }
    }

    /// Whether it has been forgotten and no process holds its pipes.
    pub(super) fn is_over(&self) -> bool {
        self.forgotten && self.output.iter().all(Option::is_none)
    }
}

/// A command that handled a signal itself and ran to completion has exited.
fn killed_by(ending: &Ending, cut_short: bool, exit_code: i32) -> (&'static str, i32) {
    let by_signal = 128 + ending.signal;
    match exit_code {
        _ if cut_short || ending.step != EndingStep::Signalled => ("killed", by_signal),
        INTERRUPTED => ("killed", by_signal),
        code if code == by_signal => ("killed", by_signal),
        code => ("exited", code),
    }
}
