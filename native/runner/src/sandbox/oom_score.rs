//! Makes the kernel kill code before the runner when memory runs out.
//!
//! SECURITY: code must not be able to lower its score to the runner's or the daemon's, so its /proc
//! is read-only where possible. The runner has the file of its own score, raises it during a fork,
//! and the child inherits it (threats: exhausting memory and filling memory-backed storage; guarded
//! by tests/hostile/oom-score.test.ts).

use crate::sandbox::receive_fd::receive_fd;
use crate::sys;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

const OWN_FILE: &std::ffi::CStr = c"/proc/self/oom_score_adj";
const MOST: &[u8] = b"1000";

/// The runner's score.
pub struct OomScore {
    /// None outside of sandboxes whose creation provides one.
    file: Option<OwnedFd>,
    /// The runner's own score, as text.
    rest: Vec<u8>,
}

/// While this exists, the score is that of code; dropping it restores the runner's own.
pub struct Raised<'a>(&'a OomScore);

impl OomScore {
    /// Takes the file in /proc or, if that is read-only, the one sent over the socket.
    pub fn open(from: Option<OwnedFd>) -> io::Result<OomScore> {
        let file = match sys::open(OWN_FILE, libc::O_RDWR, 0) {
            Ok(file) => {
                // Code can lower its own score here, and PID 1 must not have a higher one. Refused if
                // a privileged process has set a minimum, which then also applies to code.
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

    /// For the duration of a fork.
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
            // It was allowed when the runner started, and the minimum does not change.
            let _ = sys::write(file.as_raw_fd(), &self.0.rest);
        }
    }
}
