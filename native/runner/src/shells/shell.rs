//! A named shell, across all the processes that successively run it.

use crate::execs::Serial;
use crate::processes::Group;
use crate::shells::memory::ShellMemory;
use crate::shells::process::ShellProcess;
use crate::shells::reports::Current;
use crate::shells::terminal::ShellTerminal;
use std::collections::VecDeque;

/// Identifies a shell; numbers are never reused.
pub type ShellId = u32;

pub struct Shell {
    pub(super) name: String,
    pub(super) process: Option<ShellProcess>,
    pub(super) queue: VecDeque<Serial>,
    pub(super) current: Option<Current>,
    pub(super) memory: ShellMemory,
    pub(super) terminal: Option<ShellTerminal>,
    /// The shell's process was replaced since its last command.
    pub(super) replaced: bool,
    /// Why the profile files are skipped; the next command reports it.
    pub(super) profile_problem: Option<String>,
    pub(super) skip_profiles: bool,
    /// It accepts no more commands and is removed when the last one has ended.
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

    /// Kills an unusable process; the next process gets the command.
    pub fn replace_process(&mut self, serial: Serial) {
        self.queue.push_front(serial);
        self.replaced = true;
        if let Some(process) = &mut self.process {
            process.discard();
        }
    }
}
