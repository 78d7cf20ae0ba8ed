//! The moment a change becomes visible, one change at a time.

use super::place::shown;
use super::{entry, stat_at};
use crate::protocol::failure::Failure;
use crate::sys;
use crate::workers::Mailbox;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a conditional change waits for another sandbox's, or for code that holds the lock.
const PATIENCE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(2);

static TURN: Mutex<()> = Mutex::new(());

/// A change that depends on the current version must not interleave with another change of this
/// runner.
pub fn take_turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The version that a file must have for the change to be made.
pub struct Condition(pub Option<String>);

impl Condition {
    /// Refuses the change if the name refers to another version. The caller has its turn and keeps
    /// the lock until the change is made.
    ///
    /// Several sandboxes may share a workspace, each with a runner: what they share is the
    /// directory's lock. Code can hold it too; the change then fails instead of waiting forever.
    pub fn check(
        &self,
        directory: &OwnedFd,
        name: &CString,
        path: &Path,
        mailbox: &Mailbox,
    ) -> Result<Option<DirectoryLock>, Failure> {
        let Some(wanted) = &self.0 else {
            return Ok(None);
        };
        let lock = DirectoryLock::acquire(directory, path, mailbox)?;
        match stat_at(directory.as_raw_fd(), name) {
            Ok(found) => self.check_version(&entry::version_of(&found), path)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let message = format!(
                    "{} does not exist, but version {wanted} of it was expected",
                    shown(path)
                );
                return Err(Failure::new("changed", message));
            }
            Err(error) => return Err(Failure::io("write", &shown(path), &error)),
        }
        Ok(Some(lock))
    }

    pub fn check_version(&self, found: &str, path: &Path) -> Result<(), Failure> {
        match &self.0 {
            Some(wanted) if wanted != found => Err(Failure::new(
                "changed",
                format!(
                    "{} is at version {found}, not {wanted}; read it again and repeat the change",
                    shown(path)
                ),
            )),
            _ => Ok(()),
        }
    }
}

/// An exclusive lock on a directory, for as long as it lives.
pub struct DirectoryLock(OwnedFd);

impl DirectoryLock {
    fn acquire(directory: &OwnedFd, path: &Path, mailbox: &Mailbox) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::io("lock the directory of", &shown(path), &error);
        // A separate description: duplicates share one lock.
        let own = super::open_directory(directory.as_raw_fd(), c".").map_err(failed)?;
        let until = Instant::now() + PATIENCE;
        loop {
            // SAFETY: plain system call on a descriptor that we own.
            let taken =
                sys::check(unsafe { libc::flock(own.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) });
            match taken {
                Ok(_) => return Ok(DirectoryLock(own)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(failed(error)),
            }
            if mailbox.cancelled() {
                return Err(Failure::cancelled());
            }
            if Instant::now() > until {
                let message = format!(
                    "another process holds a lock on the directory of {}; try again",
                    shown(path)
                );
                return Err(Failure::new("busy", message));
            }
            thread::sleep(PAUSE);
        }
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // SAFETY: as above. Closing would do, unless a fork has the descriptor for a moment.
        unsafe { libc::flock(self.0.as_raw_fd(), libc::LOCK_UN) };
    }
}
