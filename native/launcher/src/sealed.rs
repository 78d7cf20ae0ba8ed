//! A copy of the runtime's program in memory that nobody can change.
//!
//! SECURITY: crun does not trust the file that it runs from, which code in the sandbox could get hold
//! of and overwrite when it is entered (CVE-2019-5736): it makes a copy that cannot be changed and
//! starts itself a second time from there. Started from one, it knows that it need not (threat: leaked
//! secrets and descriptors).

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use crate::spec::{Runtime, RuntimeKind};
use crate::sys;

/// None when the runtime is run from its file: the kernel may forbid to run what is in memory, and
/// runc, which would know the difference too, is so large that the copy takes longer than it saves.
pub fn copy(runtime: &Runtime) -> Option<File> {
    match runtime.kind {
        RuntimeKind::Crun => try_copy(runtime).ok(),
        RuntimeKind::Runc | RuntimeKind::Runsc => None,
    }
}

fn try_copy(runtime: &Runtime) -> io::Result<File> {
    let mut program = File::open(&runtime.path)?;
    let mut copy = File::from(sys::memory_program(c"runtime")?);
    io::copy(&mut program, &mut copy)?;
    sys::seal(copy.as_fd())?;
    Ok(copy)
}
