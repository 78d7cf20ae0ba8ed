//! The runner's own directory: scripts and pipes of commands, shared with the shell.

use crate::shells::bash;
use crate::sys;
use std::ffi::CString;
use std::fs;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const PREFERRED: &str = "/run/sandkasten";
const FALLBACKS: [&str; 2] = ["/dev/shm/.sandkasten", "/tmp/.sandkasten"];
/// Repairs a bash whose builtins were disabled or replaced.
pub const REPAIR_FILE: &str = "repair";

pub struct RunDir(PathBuf);

impl RunDir {
    /// Finds a directory that only the runner can write to, or uses the chosen one.
    pub fn prepare(chosen: Option<&Path>) -> io::Result<RunDir> {
        if let Some(chosen) = chosen {
            return RunDir::claimed(chosen);
        }
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for candidate in std::iter::once(PREFERRED).chain(FALLBACKS) {
            match RunDir::claimed(Path::new(candidate)) {
                Ok(dir) => return Ok(dir),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Files left by an earlier runner may be out of date, so they are replaced.
    fn claimed(path: &Path) -> io::Result<RunDir> {
        claim(path)?;
        let dir = RunDir(path.into());
        dir.remove(&[REPAIR_FILE]);
        dir.restore()?;
        Ok(dir)
    }

    /// Recreates the permanent files if root code has emptied /run. Returns whether they were
    /// missing.
    pub fn restore(&self) -> io::Result<bool> {
        let is_there = fs::symlink_metadata(self.path(REPAIR_FILE)).is_ok();
        if !is_there {
            claim(&self.0)?;
            self.put(REPAIR_FILE, bash::repair_text().as_bytes())?;
        }
        Ok(!is_there)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn c_path(&self, name: &str) -> io::Result<CString> {
        sys::c_path(&self.path(name))
    }

    /// Writes a script for the shell to source.
    pub fn put(&self, name: &str, text: &[u8]) -> io::Result<()> {
        // Always a new file, so a shell that is still reading an old one is not disturbed.
        let mut file = fs::File::create_new(self.path(name))?;
        file.write_all(text)?;
        file.set_permissions(fs::Permissions::from_mode(0o644))
    }

    /// Creates a pipe that the shell opens by name for writing; returns the read end.
    ///
    /// The code user can reopen a named pipe through /dev/stdout, but not an anonymous pipe of
    /// another user.
    pub fn output_pipe(&self, name: &str) -> io::Result<OwnedFd> {
        self.fifo(name, 0o622, libc::O_RDONLY)
    }

    /// Creates a pipe that the shell opens by name for reading; returns the write end.
    pub fn input_pipe(&self, name: &str) -> io::Result<OwnedFd> {
        // Opened read-write, because opening for writing alone fails without a reader.
        self.fifo(name, 0o644, libc::O_RDWR)
    }

    fn fifo(&self, name: &str, mode: libc::mode_t, access: libc::c_int) -> io::Result<OwnedFd> {
        let path = self.c_path(name)?;
        sys::mkfifo(&path, mode)?;
        sys::open(&path, access | libc::O_NONBLOCK, 0)
    }

    pub fn remove(&self, names: &[impl AsRef<str>]) {
        for name in names {
            let _ = fs::remove_file(self.path(name.as_ref()));
        }
    }
}

fn claim(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // SECURITY: another user's directory, or a link to one, must not be used (threat:
            // replaced sockets).
            let found = fs::symlink_metadata(path)?;
            // SAFETY: plain system call.
            let own = unsafe { libc::geteuid() };
            if !found.is_dir() || std::os::unix::fs::MetadataExt::uid(&found) != own {
                return Err(io::Error::from(io::ErrorKind::PermissionDenied));
            }
        }
        Err(error) => return Err(error),
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o711))?;
    // A read-only file system is only detected by writing to it.
    let probe = path.join(".probe");
    fs::write(&probe, b"")?;
    fs::remove_file(&probe)
}
