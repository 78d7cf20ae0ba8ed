//! Saves the runner a wait: after a pause, the kernel's first move between cgroups waits for a
//! grace period of 6 ms or more, and the moves soon after it do not.

use std::fs::{self, File, OpenOptions};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;

use crate::hierarchy::Hierarchies;
use crate::sys;

/// A child that moves itself into its own cgroup, which has no effect but the wait. If this value
/// is dropped first, the child exits without the move. Failures are ignored, because only timing
/// depends on the child. The launcher exits soon after, so it does not reap the child.
///
/// Fork it before entering a mount namespace: a child that waits in the kernel after the create has
/// ended would otherwise keep the sandbox's disk mounted.
pub struct WarmUp(PipeWriter);

impl WarmUp {
    /// Uses a child that waits at the other end of the pipe.
    pub fn of(begin: PipeWriter) -> WarmUp {
        WarmUp(begin)
    }

    pub fn fork(procs: &File) -> Option<WarmUp> {
        let (begun, begin) = io::pipe().ok()?;
        // SAFETY: this process has one thread; the child makes a few system calls and exits.
        match unsafe { sys::fork(0) }.ok()? {
            sys::Forked::Parent(_) => Some(WarmUp(begin)),
            sys::Forked::Child => wait_and_move(&begun, procs),
        }
    }

    /// Call this while the runtime works, not before: no process can create or enter a cgroup while
    /// the child waits.
    pub fn begin(mut self) {
        let _ = self.0.write_all(&[0]);
    }
}

/// Runs in the child: waits for `begin`, makes the move and exits.
pub fn wait_and_move(begun: &PipeReader, procs: &File) -> ! {
    // Drops our descriptors, above all the sandbox's lock.
    let moved = sys::place_fd(begun.as_raw_fd(), 0)
        .and_then(|()| sys::place_fd(procs.as_raw_fd(), 1))
        .and_then(|()| sys::close_from(2))
        .and_then(|()| io::stdin().read_exact(&mut [0]))
        .and_then(|()| sys::write_once(1, b"0"));
    std::process::exit(i32::from(moved.is_err()));
}

/// The `cgroup.procs` of our unified cgroup.
pub fn own_procs(hierarchies: &Hierarchies) -> Option<File> {
    let memberships = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = memberships
        .lines()
        .find_map(|line| line.strip_prefix("0::/"))?;
    let path = hierarchies.unified()?.root.join(own).join("cgroup.procs");
    OpenOptions::new().write(true).open(path).ok()
}
