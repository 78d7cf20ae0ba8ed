//! An immutable copy of the runtime's program in memory.
//!
//! SECURITY: crun does not trust the file that it runs from, which code in the sandbox could access and
//! overwrite when it is entered (CVE-2019-5736): it creates a copy that cannot be changed and restarts
//! itself from there. If it is started from such a copy, it skips that (threat: leaked secrets and
//! descriptors).

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use crate::spec::{Runtime, RuntimeKind};
use crate::sys;

/// None if the runtime is run from its file: the kernel may forbid running programs in memory, and
/// runc, which also detects such a copy, is so large that copying takes longer than it saves.
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
