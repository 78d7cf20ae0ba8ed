//! Drops rights that a process was started with and no longer needs.

use crate::sys;
use std::io;

const VERSION_3: u32 = 0x2008_0522;

/// Capabilities that PID 1 always needs: to signal processes of the code user, and to start them.
pub const FOR_LIFE: [u32; 3] = [5 /* KILL */, 6 /* SETGID */, 7 /* SETUID */];

/// Reduces this thread's capabilities to these; later threads and children inherit the reduced set.
pub fn keep_only(kept: &[u32]) -> io::Result<()> {
    let header = [VERSION_3, 0];
    // Twice effective, permitted, inheritable: the lower 32 and the higher 32 of them.
    let mut held = [0u32; 6];
    // SAFETY: header and data have the layout of version 3: two words, and twice three.
    check(unsafe { libc::syscall(libc::SYS_capget, header.as_ptr(), held.as_mut_ptr()) })?;
    let mask = kept.iter().fold(0u64, |mask, number| mask | 1 << number);
    for (index, word) in held.iter_mut().enumerate() {
        *word &= (mask >> (32 * (index / 3))) as u32;
    }
    // SAFETY: as above.
    check(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), held.as_ptr()) })
}

fn check(result: libc::c_long) -> io::Result<()> {
    sys::check(result as libc::c_int).map(drop)
}

/// SECURITY: no process of the same uid may inspect or trace this process, and its /proc files
/// belong to root (threat: attacks on PID 1).
pub fn hide_from_tracers() {
    // SAFETY: plain system call with constant arguments.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
}
