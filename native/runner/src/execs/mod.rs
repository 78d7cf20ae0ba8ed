//! Commands: each with its pipes, its unread output and its readers.

mod exec;
mod finish;
mod output;
mod readers;
mod spool;
mod start;
mod stdin;
mod stop;
mod table;

pub use exec::{Exec, Pipes, Serial, State};
pub use finish::{CANCELLED_EXIT_CODE, Outcome};
pub use stop::EndingStep;

use crate::connections::{Address, ConnectionId};
use crate::processes::proc_tree::Origin;
use crate::processes::{Group, Tracker};
use crate::protocol::failure::Failure;
use crate::protocol::frame::Kind;
use crate::protocol::message::{AttachRequest, ExecListing};
use crate::sandbox::Sandbox;
use crate::server::context::Context;
use std::rc::Rc;
use std::time::Instant;
use table::Table;

pub struct Execs {
    sandbox: Rc<Sandbox>,
    tracker: Rc<Tracker>,
    table: Table,
    /// Commands that have started in this turn of the event loop.
    begun: Vec<Serial>,
}

impl Execs {
    pub fn new(sandbox: Rc<Sandbox>, tracker: Rc<Tracker>) -> Execs {
        Execs {
            sandbox,
            tracker,
            table: Table::default(),
            begun: Vec::new(),
        }
    }

    pub fn insert(&mut self, exec: Exec) -> Serial {
        self.table.insert(exec)
    }

    pub fn contains(&self, exec_id: &str) -> bool {
        self.table.find(exec_id).is_some()
    }

    pub fn find(&self, exec_id: &str) -> Result<&Exec, Failure> {
        self.table
            .find(exec_id)
            .and_then(|serial| self.table.get(serial))
            .ok_or_else(|| unknown(exec_id))
    }

    pub fn get(&self, serial: Serial) -> Option<&Exec> {
        self.table.get(serial)
    }

    pub fn get_mut(&mut self, serial: Serial) -> Option<&mut Exec> {
        self.table.get_mut(serial)
    }

    pub fn listings(&self) -> Vec<ExecListing> {
        let known = self.table.iter().filter(|exec| !exec.forgotten);
        known.map(Exec::listing).collect()
    }

    pub fn running(&self) -> impl Iterator<Item = &Exec> {
        self.table
            .iter()
            .filter(|exec| exec.state == State::Running)
    }

    /// When the next action is due for a running command.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.running().filter_map(Exec::next_deadline).min()
    }

    /// A shell got the command. Most commands end within a moment; until then, the start is not
    /// reported and the pipes are not watched, because each open or close of a pipe would wake the
    /// loop.
    pub fn begin_quietly(&mut self, serial: Serial) {
        if let Some(exec) = self.table.get_mut(serial) {
            exec.quiet = true;
            self.begun.push(serial);
        }
    }

    /// Whether a command has just started and its pipes are not watched yet.
    pub fn are_quiet(&self) -> bool {
        let quiet = |serial: &Serial| self.get(*serial).is_some_and(|exec| exec.quiet);
        self.begun.iter().any(quiet)
    }

    /// Announces commands that have just started, and watches their pipes.
    pub fn end_quiet(&mut self, cx: &mut Context) {
        for serial in std::mem::take(&mut self.begun) {
            if let Some(exec) = self.table.get_mut(serial) {
                exec.end_quiet(cx);
            }
        }
    }

    // Readers and writers.

    pub fn attach(
        &mut self,
        address: Address,
        request: &AttachRequest,
        cx: &mut Context,
    ) -> Result<(), Failure> {
        let exec = self.table.find(&request.exec_id);
        match exec.and_then(|serial| self.table.get_mut(serial)) {
            Some(exec) => exec.attach(address, request, cx),
            None => Err(unknown(&request.exec_id)),
        }
    }

    /// One of the command's pipes is ready.
    pub fn take_output(&mut self, serial: Serial, which: u8, cx: &mut Context) {
        if let Some(exec) = self.table.get_mut(serial) {
            exec.take_output(which, cx);
            self.drop_if_over(serial);
        }
    }

    /// The connection accepts bytes again.
    pub fn pump_connection(&mut self, connection: ConnectionId, cx: &mut Context) {
        for exec in self.table.iter_mut() {
            if exec.is_read_on(connection) {
                exec.pump(cx);
            }
        }
    }

    /// Commands continue; their unacknowledged output waits for the next reader.
    pub fn lose_connection(&mut self, connection: ConnectionId, cx: &mut Context) {
        for exec in self.table.iter_mut() {
            exec.lose_connection(connection, cx);
        }
    }

    pub fn drop_reader(&mut self, serial: Serial, address: Address, cx: &mut Context) {
        let exec = self.table.get_mut(serial);
        let was_answered = exec.is_some_and(|exec| exec.drop_reader(address));
        match was_answered {
            true => drop(cx.connections.end_stream(address)),
            false => (cx.connections).answer(address, Kind::Error, &Failure::cancelled()),
        }
        // The command may have been waiting for the reader that left.
        if let Some(exec) = self.table.get_mut(serial) {
            exec.after_acknowledgement(cx);
            exec.pump(cx);
        }
    }

    // The end.

    /// The command has ended: reads the rest of its pipes and answers its readers.
    pub fn finish(&mut self, serial: Serial, outcome: Outcome, cx: &mut Context) {
        let Some(exec) = self.table.get_mut(serial) else {
            return;
        };
        exec.finish(outcome, &self.sandbox.limits, cx);
        for surplus in self.table.surplus() {
            self.forget(surplus, cx);
        }
    }

    /// Frees a finished command and its id. The processes that it left running must keep their
    /// pipes, or their next output would kill them.
    pub fn forget(&mut self, serial: Serial, cx: &mut Context) {
        self.table.unname(serial);
        if let Some(exec) = self.table.get_mut(serial) {
            exec.forget(cx);
            self.drop_if_over(serial);
        }
    }

    fn drop_if_over(&mut self, serial: Serial) {
        if self.table.get(serial).is_some_and(Exec::is_over) {
            self.table.remove(serial);
        }
    }

    /// A command that could not start leaves no trace.
    pub fn refuse(&mut self, serial: Serial, failure: &Failure, cx: &mut Context) {
        if let Some(exec) = self.table.remove(serial) {
            for address in exec.addresses() {
                cx.connections.answer(address, Kind::Error, failure);
            }
        }
    }

    // The processes that commands started. `shells` are the pids of all shells, which never count.

    pub fn members(&self, serial: Serial, shells: &[i32]) -> Vec<i32> {
        match self.get(serial).and_then(Exec::group) {
            Some(group) => self.members_in(group, serial, shells),
            None => Vec::new(),
        }
    }

    /// Like `members`, for another group than the one the command started in.
    pub fn members_in(&self, group: Group, serial: Serial, shells: &[i32]) -> Vec<i32> {
        self.origin(serial, shells)
            .map_or_else(Vec::new, |origin| self.tracker.members(group, &origin))
    }

    pub fn signal_members(&self, serial: Serial, signal: i32, shells: &[i32]) -> usize {
        let group = self.get(serial).and_then(Exec::group);
        match group.zip(self.origin(serial, shells)) {
            Some((group, origin)) => self.tracker.signal(group, &origin, signal),
            None => 0,
        }
    }

    pub fn kill_members(&self, serial: Serial, shells: &[i32]) {
        let group = self.get(serial).and_then(Exec::group);
        if let Some((group, origin)) = group.zip(self.origin(serial, shells)) {
            self.tracker.kill(group, &origin);
        }
    }

    fn origin(&self, serial: Serial, shells: &[i32]) -> Option<Origin<'_>> {
        let exec = self.get(serial)?;
        let others = self
            .running()
            .filter(|other| other.serial != serial)
            .map(Exec::pid)
            .chain(shells.iter().copied())
            .filter(|pid| *pid != exec.pid);
        Some(Origin {
            exec_id: &exec.request.exec_id,
            // The pid of a process that has ended may have been reused.
            root: match exec.state {
                State::Done if !exec.in_shell() => 0,
                _ => exec.pid,
            },
            in_shell: exec.in_shell(),
            since: exec.started_ticks,
            others: others.collect(),
        })
    }
}

fn unknown(exec_id: &str) -> Failure {
    Failure::new("not_found", format!("no command has the id {exec_id}"))
}
