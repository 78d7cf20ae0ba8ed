//! Saves the runner a wait: the kernel's first move between cgroups in a while waits for a grace
//! period, of 6 ms and more, and moves soon after it do not.

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;

use crate::hierarchy::Hierarchies;
use crate::sys;

/// The `cgroup.procs` of our unified cgroup. It only affects timing, so failures here are ignored.
pub fn own_procs(hierarchies: &Hierarchies) -> Option<File> {
    let memberships = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = memberships
        .lines()
        .find_map(|line| line.strip_prefix("0::/"))?;
    let path = hierarchies.unified()?.root.join(own).join("cgroup.procs");
    OpenOptions::new().write(true).open(path).ok()
}

/// Lets a child make a move that changes nothing, into its own cgroup, while the runtime works. Not
/// earlier, because no process can create or enter a cgroup while it waits.
pub fn begin(own_procs: &File) {
    // SAFETY: this process has one thread; the child makes a few system calls and exits. It is left
    // to be reaped with us, for we live hardly longer than it does.
    if let Ok(sys::Forked::Child) = unsafe { sys::fork(0) } {
        // Without our descriptors, above all the sandbox's lock.
        let moved = sys::place_fd(own_procs.as_raw_fd(), 0)
            .and_then(|()| sys::close_from(1))
            .and_then(|()| sys::write_once(0, b"0"));
        std::process::exit(i32::from(moved.is_err()));
    }
}
