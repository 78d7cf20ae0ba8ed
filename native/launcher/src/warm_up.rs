//! Spares create a wait: the kernel lets the first move between cgroups in a while wait for a
//! grace period of about 6 ms, and further ones soon after it for none.

use std::fs::{self, OpenOptions};
use std::io::Write;

use crate::hierarchy::Hierarchies;
use crate::sys;

/// Has a child make a move that changes nothing, into the cgroup that it is in, while the sandbox
/// is being prepared. Only time depends on it, so that whatever fails here is no failure.
pub fn begin() {
    let Some(file) = own_cgroup().and_then(|path| OpenOptions::new().write(true).open(path).ok())
    else {
        return;
    };
    // SAFETY: this process has one thread; the child makes one system call and exits. It is left
    // to be reaped with us, for we live hardly longer than it does.
    if let Ok(sys::Forked::Child) = unsafe { sys::fork(0) } {
        let _ = (&file).write_all(b"0");
        std::process::exit(0);
    }
}

fn own_cgroup() -> Option<std::path::PathBuf> {
    let memberships = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = memberships
        .lines()
        .find_map(|line| line.strip_prefix("0::/"))?;
    let hierarchies = Hierarchies::discover().ok()?;
    let root = &hierarchies.unified()?.root;
    Some(root.join(own).join("cgroup.procs"))
}
