//! What is known of dash and busybox when a command of theirs has to end and has no trap for it. They get
//! an interrupt then, which must not come at a wrong moment.

use crate::exec::{Ending, Serial};
use crate::proc_tree;
use crate::server::Server;
use crate::sys;
use crate::timeout::AGAIN;
use std::os::fd::AsRawFd;

impl Server {
    /// False of a shell other than bash that has not been told to give up its command. What it waits
    /// for must not end before.
    pub fn is_told(&self, serial: Serial) -> bool {
        self.shells.kind() == "bash"
            || (self.execs.get(serial)).is_none_or(|exec| !exec.in_shell() || exec.stop_sent)
    }

    /// Whether a shell other than bash has come to the command and not to its report. At other times
    /// an interrupt would cost it our own lines, and leave busybox at its prompt, where the death of a
    /// child ends it.
    pub fn is_in_command(&self, serial: Serial) -> bool {
        let Some(exec) = self.execs.get(serial) else {
            return false;
        };
        let state = exec.shell.and_then(|shell| self.shells.get(shell));
        let reports = state.is_some_and(|state| {
            let asked = (state.current.as_ref()).is_none_or(|current| current.closing.is_empty());
            asked || (state.shell.as_ref()).is_some_and(|shell| shell.socket.is_drained())
        });
        !reports
            && (exec.on_terminal
                || exec.spool.end() > 0
                || (exec.output[0].as_ref()).is_none_or(|fd| sys::was_opened(fd.as_raw_fd())))
    }

    /// Whether a shell that was told to give up its command does nothing any more: nothing is left to
    /// wait for, and still it sleeps.
    pub fn is_caught(&self, serial: Serial, ending: &Ending) -> bool {
        let Some(exec) = self.execs.get(serial) else {
            return false;
        };
        self.shells.kind() != "bash"
            && exec.in_shell()
            && exec.stop_sent
            && ending.since + AGAIN < self.now()
            && proc_tree::is_asleep(exec.pid)
            && !proc_tree::ignores(exec.pid, libc::SIGINT)
            && self.later_members(serial).is_empty()
    }
}
