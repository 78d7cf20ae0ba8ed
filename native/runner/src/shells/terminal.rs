//! The terminal of a shell, on which all its commands run.

use crate::execs::{Pipes, Serial};
use crate::processes::terminal;
use crate::shells::pipes::CommandPipes;
use crate::sys;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

pub struct ShellTerminal {
    master: OwnedFd,
    /// Keeps the terminal open while no process has it open.
    slave: OwnedFd,
    path: String,
    /// The command that receives the terminal's output.
    pub(super) reader: Option<Serial>,
}

impl ShellTerminal {
    pub fn open(rows: u16, cols: u16, uid: u32, gid: u32) -> io::Result<ShellTerminal> {
        let (master, slave) = terminal::open(rows, cols, uid, gid)?;
        let path = terminal::path(master.as_raw_fd())?;
        Ok(ShellTerminal {
            master,
            slave,
            path,
            reader: None,
        })
    }

    /// The runner's ends for one command, and the redirections that connect the command. Discards
    /// input that the previous command did not read, including an end of input.
    pub fn pipes(&self, stdin: bool) -> io::Result<CommandPipes> {
        // SAFETY: no memory is involved. It cannot fail on a terminal that is open.
        unsafe { libc::tcflush(self.slave.as_raw_fd(), libc::TCIFLUSH) };
        let writer = stdin.then(|| self.master.try_clone()).transpose()?;
        let pipes = Pipes {
            output: [Some(self.master.try_clone()?), None],
            stdin: writer,
            stdin_opened: stdin,
            on_terminal: true,
        };
        Ok(CommandPipes {
            tag: sys::random_hex()?,
            files: Vec::new(),
            redirections: format!("<>{} >&0 2>&1", self.path),
            pipes,
        })
    }
}
