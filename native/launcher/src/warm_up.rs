//! Spares the runner a wait: the kernel lets the first move between cgroups in a while wait for a
//! grace period, of 6 ms and more, and further ones soon after it for none.

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;

use crate::hierarchy::Hierarchies;
use crate::sys;

/// The `cgroup.procs` of the unified cgroup that we are in. Only time depends on it, so that what
/// fails here is no failure.
pub fn own_procs(hierarchies: &Hierarchies) -> Option<File> {
    let memberships = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = memberships
        .lines()
        .find_map(|line| line.strip_prefix("0::/"))?;
    let path = hierarchies.unified()?.root.join(own).join("cgroup.procs");
    OpenOptions::new().write(true).open(path).ok()
}

/// Has a child make a move that changes nothing, into the cgroup that it is in, while the runtime is
/// at work. Not earlier, for while it waits nobody can make a cgroup or enter one.
pub fn begin(own_procs: &File) {
    // SAFETY: this process has one thread; the child makes a few system calls and exits. It is left
    // to be reaped with us, for we live hardly longer than it does.
    if let Ok(sys::Forked::Child) = unsafe { sys::fork(0) } {
        // Without what we hold, the lock of the sandbox above all.
        let moved = sys::place_fd(own_procs.as_raw_fd(), 0)
            .and_then(|()| sys::close_from(1))
            .and_then(|()| sys::write_once(0, b"0"));
        std::process::exit(i32::from(moved.is_err()));
    }
}
