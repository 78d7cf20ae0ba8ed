//! The runtime's program, on a mount that cannot be written through.
//!
//! SECURITY: code in the sandbox could access and overwrite crun's file when crun enters it
//! (CVE-2019-5736), so crun restarts itself from a read-only mount of the file. If it is already
//! started from such a mount, and told so, it skips that (threat: leaked secrets and descriptors;
//! guarded by `the_runtime_runs_from_a_file_that_cannot_be_written`).

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use crate::mounts::READ_ONLY;
use crate::spec::{Runtime, RuntimeKind};
use crate::sys;

/// Tells crun that it runs from a read-only mount, which it verifies.
pub const TOLD: (&str, &str) = ("_LIBCONTAINER_CLONED_BINARY", "1");

/// The program on a mount that has no place in any namespace, so no process can make it writable.
pub struct ReadOnlyProgram(OwnedFd);

impl ReadOnlyProgram {
    /// None if the runtime runs from its own file and protects itself: kernels may lack the calls,
    /// and other runtimes have their own protection.
    pub fn of(runtime: &Runtime) -> Option<ReadOnlyProgram> {
        match runtime.kind {
            RuntimeKind::Crun => Self::mount(runtime).ok(),
            RuntimeKind::Runc | RuntimeKind::Runsc => None,
        }
    }

    fn mount(runtime: &Runtime) -> io::Result<ReadOnlyProgram> {
        let mount = sys::clone_tree(&fs::canonicalize(&runtime.path)?, false)?;
        sys::set_mount_attributes(mount.as_fd(), READ_ONLY, None, false)?;
        Ok(ReadOnlyProgram(mount))
    }

    pub fn path(&self) -> OsString {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::process::Command;

    #[test]
    fn the_runtime_runs_from_a_file_that_cannot_be_written() {
        if sys::geteuid() != 0 {
            eprintln!("skipped: not root");
            return;
        }
        let scratch = std::env::temp_dir().join(format!("runtime-{}", std::process::id()));
        fs::create_dir(&scratch).unwrap();
        let (file, link) = (scratch.join("file"), scratch.join("link"));
        fs::copy("/bin/true", &file).unwrap();
        symlink("file", &link).unwrap();
        let program = ReadOnlyProgram::of(&Runtime {
            kind: RuntimeKind::Crun,
            path: link,
            root: scratch.clone(),
            args: Vec::new(),
        })
        .unwrap();

        let through = |path: &OsString| fs::OpenOptions::new().write(true).open(path);
        let refused = through(&program.path()).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EROFS));
        assert!(through(&file.into()).is_ok());
        assert!(
            Command::new(program.path())
                .status()
                .is_ok_and(|status| status.success())
        );
        fs::remove_dir_all(&scratch).unwrap();
    }
}
