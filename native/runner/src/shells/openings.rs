//! Detects when a shell opens a command's stdin.
//!
//! Until then the runner must keep its end open, or the shell would wait for a writer forever.

use crate::execs::Serial;
use crate::sys;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;

pub struct Openings {
    inotify: OwnedFd,
    awaited: HashMap<i32, Serial>,
}

impl Openings {
    pub fn new() -> io::Result<Openings> {
        Ok(Openings {
            inotify: sys::inotify()?,
            awaited: HashMap::new(),
        })
    }

    pub fn fd(&self) -> RawFd {
        self.inotify.as_raw_fd()
    }

    pub fn watch(&mut self, path: &Path, serial: Serial) -> io::Result<()> {
        let events = libc::IN_OPEN | libc::IN_ONESHOT;
        let watch = sys::add_watch(self.fd(), &sys::c_path(path)?, events)?;
        self.awaited.insert(watch, serial);
        Ok(())
    }

    /// Commands whose stdin was opened since the last call.
    pub fn take(&mut self) -> Vec<Serial> {
        let mut buffer = [0u8; 4096];
        let n = sys::read(self.fd(), &mut buffer).unwrap_or(0);
        let mut opened = Vec::new();
        let mut rest = &buffer[..n];
        // Each event: watch, mask, cookie, and the length of a name, which events of a FIFO do not
        // have.
        while let Some((event, after)) = rest.split_at_checked(16) {
            let word = |at: usize| [event[at], event[at + 1], event[at + 2], event[at + 3]];
            let name = u32::from_ne_bytes(word(12)) as usize;
            // The following event, which reports the removal of the watch, matches no awaited
            // command.
            opened.extend(self.awaited.remove(&i32::from_ne_bytes(word(0))));
            rest = after.get(name..).unwrap_or_default();
        }
        opened
    }
}
