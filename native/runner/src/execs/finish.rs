//! The end of a command: what is still in its pipes, its result, and when it is forgotten.

use crate::protocol::failure::Failure;
use crate::execs::exec::{Ending, EndingStep, Serial, State};
use crate::protocol::frame::Kind;
use crate::protocol::message::ExecEnd;
use crate::server::event_loop::Server;
use crate::sys;
use std::os::fd::AsRawFd;
use std::time::Instant;

/// How a command's process or the shell said that it ended.
pub struct Outcome {
    pub exit_code: i32,
    pub signal: Option<i32>,
    pub cwd: Option<String>,
}

/// What a shell says of a command that was interrupted.
const INTERRUPTED: i32 = 128 + libc::SIGINT;
pub const CANCELLED_EXIT_CODE: i32 = INTERRUPTED;

const TERMINAL_TRIES: u32 = 10;
const QUIET_LOOKS: u32 = 2;
const TERMINAL_BYTES: usize = 256 * 1024;

impl Server {
    /// The command has ended: takes what is in its pipes and answers its readers.
    pub fn finish(&mut self, serial: Serial, outcome: Outcome) {
        let Some(exec) = self.execs.get_mut(serial) else {
            return;
        };
        exec.state = State::Done;
        if exec.on_terminal {
            self.drain_terminal(serial);
        }
        for which in [0, 1] {
            let waiting = self
                .execs
                .get(serial)
                .and_then(|exec| exec.output[which].as_ref())
                .map_or(0, |fd| sys::bytes_waiting(fd.as_raw_fd()));
            // No more than is there now: a process left behind may write for ever.
            if waiting > 0 {
                self.read_output(serial, which as u8, waiting);
            }
        }
        let killed = outcome.signal == Some(libc::SIGKILL) || outcome.exit_code == 137;
        let oom_kills = if killed { self.oom_kills() } else { 0 };
        let Some(exec) = self.execs.get_mut(serial) else {
            return;
        };
        let starved = oom_kills > exec.oom_kills_before;
        let (end_reason, exit_code) = match &exec.ending {
            Some(ending) if ending.reason == "killed" => {
                killed_by(ending, exec.cut_short, outcome.exit_code)
            }
            Some(ending) if ending.reason == "cancelled" => ("cancelled", CANCELLED_EXIT_CODE),
            Some(ending) => (ending.reason, 124),
            None if starved => ("oom", outcome.exit_code),
            None if outcome.signal.is_some() => ("killed", outcome.exit_code),
            None => ("exited", outcome.exit_code),
        };
        exec.spool.mark_done();
        exec.command = Vec::new();
        exec.stdin.queue.clear();
        if let Some(fd) = exec.stdin.fd.take() {
            self.epoll.remove(fd.as_raw_fd());
        }
        let lasting_terminal = exec.on_terminal && exec.shell.is_some();
        let output_open = !lasting_terminal
            && exec
                .output
                .iter()
                .flatten()
                .any(|fd| sys::more_can_come(fd.as_raw_fd()));
        exec.end = Some(ExecEnd {
            exec_id: exec.request.exec_id.clone(),
            end_reason,
            exit_code,
            signal: match &exec.ending {
                Some(ending) if end_reason == "killed" => Some(ending.signal),
                _ => outcome.signal,
            },
            cwd: outcome.cwd,
            duration_ms: Instant::now().duration_since(exec.started).as_millis() as u64,
            stdout_bytes: exec.spool.stdout_bytes,
            stderr_bytes: exec.spool.stderr_bytes,
            dropped_bytes: exec.spool.dropped,
            shell_restarted: exec.shell_restarted,
            output_open,
        });
        if exec.output_paused {
            exec.output_paused = false;
            self.watch_output(serial);
        }
        self.pump(serial);
        for surplus in self.execs.surplus() {
            self.forget(surplus);
        }
    }

    /// What was written to a terminal reaches its other side a moment later, and nothing tells
    /// how much is on the way: it is read until it ends or stays quiet.
    fn drain_terminal(&mut self, serial: Serial) {
        let mut quiet = 0;
        for _ in 0..TERMINAL_TRIES {
            let before = self.execs.get(serial).map_or(0, |exec| exec.spool.end());
            self.read_output(serial, 0, TERMINAL_BYTES);
            let Some(exec) = self.execs.get(serial) else {
                return;
            };
            if exec.output[0].is_none() || exec.spool.end() - before >= TERMINAL_BYTES as u64 {
                return;
            }
            // A shell's own end says nothing of its terminal, which stays open.
            quiet = match exec.spool.end() == before && exec.shell.is_some() {
                true => quiet + 1,
                false => 0,
            };
            if quiet == QUIET_LOOKS {
                return;
            }
            crate::commands::reap::pause_ms(2);
        }
    }

    /// Frees a finished command and its id. What it left running must not lose its pipes: it
    /// would be killed by its next word.
    pub fn forget(&mut self, serial: Serial) {
        self.execs.unname(serial);
        let Some(exec) = self.execs.get_mut(serial) else {
            return;
        };
        exec.forgotten = true;
        exec.spool.discard_to(u64::MAX);
        for reader in std::mem::take(&mut exec.readers) {
            if reader.answered {
                self.end_stream(reader.address);
            } else {
                let failure = Failure::new("not_found", "the command was forgotten");
                self.answer(reader.address, Kind::Error, &failure);
            }
        }
        self.drop_if_over(serial);
    }

    /// Lets go of a forgotten command once nobody holds its pipes.
    pub fn drop_if_over(&mut self, serial: Serial) {
        let over = self
            .execs
            .get(serial)
            .is_some_and(|exec| exec.forgotten && exec.output.iter().all(Option::is_none));
        if over {
            self.execs.remove(serial);
        }
    }
}

/// A command that took a signal in its own way and went on to its end has exited.
fn killed_by(ending: &Ending, cut_short: bool, exit_code: i32) -> (&'static str, i32) {
    let by_signal = 128 + ending.signal;
    match exit_code {
        _ if cut_short || ending.step != EndingStep::Signalled => ("killed", by_signal),
        INTERRUPTED => ("killed", by_signal),
        code if code == by_signal => ("killed", by_signal),
        code => ("exited", code),
    }
}
