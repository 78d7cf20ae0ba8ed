//! Commands by number and by the id that the daemon assigned.

use crate::execs::exec::{Exec, Serial, State};
use std::collections::{BTreeMap, HashMap};

/// Finished commands beyond this number are forgotten, oldest first.
const KEPT_FINISHED: usize = 256;
/// Unread output of finished commands beyond this is forgotten, oldest command first.
const KEPT_BYTES: u64 = 32 << 20;

#[derive(Default)]
pub struct Table {
    execs: BTreeMap<Serial, Exec>,
    by_id: HashMap<String, Serial>,
    next: Serial,
}

impl Table {
    pub fn insert(&mut self, mut exec: Exec) -> Serial {
        let serial = self.next;
        self.next += 1;
        exec.serial = serial;
        self.by_id.insert(exec.request.exec_id.clone(), serial);
        self.execs.insert(serial, exec);
        serial
    }

    pub fn find(&self, exec_id: &str) -> Option<Serial> {
        self.by_id.get(exec_id).copied()
    }

    pub fn get(&self, serial: Serial) -> Option<&Exec> {
        self.execs.get(&serial)
    }

    pub fn get_mut(&mut self, serial: Serial) -> Option<&mut Exec> {
        self.execs.get_mut(&serial)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Exec> {
        self.execs.values()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Exec> {
        self.execs.values_mut()
    }

    pub fn remove(&mut self, serial: Serial) -> Option<Exec> {
        self.unname(serial);
        self.execs.remove(&serial)
    }

    /// Frees the id; the command itself stays.
    pub fn unname(&mut self, serial: Serial) {
        if let Some(exec) = self.execs.get(&serial)
            && self.by_id.get(&exec.request.exec_id) == Some(&serial)
        {
            self.by_id.remove(&exec.request.exec_id);
        }
    }

    /// Finished commands beyond either limit, oldest first.
    pub fn surplus(&self) -> Vec<Serial> {
        let finished: Vec<(Serial, u64)> = self
            .iter()
            .filter(|exec| exec.state == State::Done && !exec.forgotten)
            .map(|exec| (exec.serial, exec.spool.kept()))
            .collect();
        let mut bytes: u64 = finished.iter().map(|(_, kept)| kept).sum();
        let mut count = finished.len();
        let mut surplus = Vec::new();
        for (serial, kept) in finished {
            if count <= KEPT_FINISHED && bytes <= KEPT_BYTES {
                break;
            }
            surplus.push(serial);
            count -= 1;
            bytes -= kept;
        }
        surplus
    }
}
