//! Who goes first when memory runs out: code, before the runner.
//!
//! SECURITY: code must not be able to lower its score to the runner's or the daemon's, so its /proc is
//! read-only where it can be. The runner has the file of its own score, raises it for the moment of a
//! fork, and the child inherits it (threats: exhausting memory and filling memory-backed storage;
//! guarded by tests/hostile/oom-score.test.ts).

use crate::sandbox::receive_fd::receive_fd;
use crate::sys;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

const OWN_FILE: &std::ffi::CStr = c"/proc/self/oom_score_adj";
const MOST: &[u8] = b"1000";

/// The runner's score.
pub struct OomScore {
    /// None outside of sandboxes that are made in a way that gives one.
    file: Option<OwnedFd>,
    /// What the runner itself has, as text.
    rest: Vec<u8>,
}

/// The score is that of code; when this is dropped, it is the runner's own again.
pub struct Raised<'a>(&'a OomScore);

impl OomScore {
    /// Takes the file in /proc, or where that is read-only, the one that comes from the socket.
    pub fn open(from: Option<OwnedFd>) -> io::Result<OomScore> {
        let file = match sys::open(OWN_FILE, libc::O_RDWR, 0) {
            Ok(file) => {
                // Code can write there as well, and lower its score as far as the kernel lets it. With
                // a higher one, PID 1 would go before it. Refused where a privileged process has set
                // the least, which then holds for code, too.
                let _ = sys::write(file.as_raw_fd(), b"0");
                Some(file)
            }
            Err(_) => match from {
                Some(socket) => Some(receive_fd(socket.as_raw_fd())?),
                None => None,
            },
        };
        let mut rest = vec![0; 16];
        if let Some(file) = &file {
            let length = sys::pread(file.as_raw_fd(), &mut rest, 0)?;
            rest.truncate(length);
        }
        Ok(OomScore { file, rest })
    }

    /// For the time of a fork.
    pub fn raise(&self) -> io::Result<Raised<'_>> {
        if let Some(file) = &self.file {
            sys::write(file.as_raw_fd(), MOST)?;
        }
        Ok(Raised(self))
    }
}

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        if let Some(file) = &self.0.file {
            // It was allowed when the runner started, and the least does not change.
            let _ = sys::write(file.as_raw_fd(), &self.0.rest);
        }
    }
}
