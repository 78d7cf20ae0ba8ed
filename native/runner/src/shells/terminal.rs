//! A terminal that a shell keeps: all its commands run on it.

use crate::execs::exec::Serial;
use crate::processes::launch;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

pub struct ShellTerminal {
    pub master: OwnedFd,
    /// Held so that the terminal lives on while no process has it open.
    _slave: OwnedFd,
    pub path: String,
    /// The command that gets what the terminal says.
    pub reader: Option<Serial>,
}

impl ShellTerminal {
    pub fn open(rows: u16, cols: u16, uid: u32, gid: u32) -> io::Result<ShellTerminal> {
        let (master, slave) = launch::open_terminal(rows, cols, uid, gid)?;
        let number = launch::terminal_number(master.as_raw_fd())?;
        Ok(ShellTerminal {
            master,
            _slave: slave,
            path: format!("/dev/pts/{number}"),
            reader: None,
        })
    }
}
