//! The moment at which a shell opens a command's stdin.
//!
//! Until then the runner must not close its end, or the shell would wait for a writer for ever.

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

    /// Commands whose stdin was opened since.
    pub fn take(&mut self) -> Vec<Serial> {
        let mut buffer = [0u8; 4096];
        let n = sys::read(self.fd(), &mut buffer).unwrap_or(0);
        let mut opened = Vec::new();
        let mut rest = &buffer[..n];
        // Each event: watch, mask, cookie, length of a name that a FIFO's events do not have.
        while let Some((event, after)) = rest.split_at_checked(16) {
            let word = |at: usize| [event[at], event[at + 1], event[at + 2], event[at + 3]];
            let name = u32::from_ne_bytes(word(12)) as usize;
            // The event after it, which says that the watch is gone, finds nothing awaited.
            opened.extend(self.awaited.remove(&i32::from_ne_bytes(word(0))));
            rest = after.get(name..).unwrap_or_default();
        }
        opened
    }
}
