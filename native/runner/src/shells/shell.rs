//! A shell by its name, through all the processes that run it one after the other.

use crate::execs::Serial;
use crate::processes::Group;
use crate::shells::memory::ShellMemory;
use crate::shells::process::ShellProcess;
use crate::shells::reports::Current;
use crate::shells::terminal::ShellTerminal;
use std::collections::VecDeque;

/// Which shell; numbers are never used twice.
pub type ShellId = u32;

pub struct Shell {
    pub(super) name: String,
    pub(super) process: Option<ShellProcess>,
    pub(super) queue: VecDeque<Serial>,
    pub(super) current: Option<Current>,
    pub(super) memory: ShellMemory,
    pub(super) terminal: Option<ShellTerminal>,
    /// The process that the next command finds is not the one that the last command left.
    pub(super) replaced: bool,
    /// What went wrong with the profile files, which are skipped; the next command reports it.
    pub(super) profile_problem: Option<String>,
    pub(super) skip_profiles: bool,
    /// It takes no more commands and goes when its last one has ended.
    pub(super) closing: bool,
}

impl Shell {
    pub fn new(name: &str, cwd: &str) -> Shell {
        Shell {
            name: name.into(),
            process: None,
            queue: VecDeque::new(),
            current: None,
            memory: ShellMemory::new(cwd),
            terminal: None,
            replaced: false,
            profile_problem: None,
            skip_profiles: false,
            closing: false,
        }
    }

    pub fn pid(&self) -> Option<i32> {
        self.process.as_ref().map(|process| process.pid)
    }

    pub fn group(&self) -> Option<Group> {
        self.process.as_ref().map(|process| process.group)
    }

    pub fn current_serial(&self) -> Option<Serial> {
        self.current.as_ref().map(|current| current.serial)
    }

    pub fn is_busy(&self) -> bool {
        self.current.is_some() || self.process.as_ref().is_some_and(|process| !process.ready)
    }

    /// Ends a process that is of no use any more; the next one gets the command.
    pub fn replace_process(&mut self, serial: Serial) {
        self.queue.push_front(serial);
        self.replaced = true;
        if let Some(process) = &mut self.process {
            process.discard();
        }
    }
}
