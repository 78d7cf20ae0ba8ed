//! Puts each command in a separate cgroup, so that everything it started can be found.

use crate::sys;
use std::cell::{Cell, RefCell};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Children of the sandbox's own cgroup on the unified hierarchy, which the host has delegated. A
/// process cannot leave its group: neither `setsid` nor a double fork nor an empty environment
/// changes it.
pub struct CgroupTree {
    dir: OwnedFd,
    next: Cell<u32>,
    /// Groups that are no longer used but may still hold processes.
    left: RefCell<Vec<u32>>,
    /// The group whose processes were requested last, which is likely to be the next one too, and
    /// its list.
    asked: RefCell<Option<(u32, OwnedFd)>>,
}

impl CgroupTree {
    /// Uses the directory if groups can actually be created in it.
    pub fn adopt(dir: OwnedFd) -> Option<CgroupTree> {
        let tree = CgroupTree {
            dir,
            next: Cell::new(0),
            left: RefCell::default(),
            asked: RefCell::default(),
        };
        let probe = tree.create().ok()?;
        let usable = tree.pids(probe).is_ok();
        tree.leave(probe);
        tree.sweep();
        usable.then_some(tree)
    }

    pub fn create(&self) -> io::Result<u32> {
        let group = self.next.get();
        self.next.set(group + 1);
        let name = file(group, "")?;
        // SAFETY: name is a valid C string.
        sys::check(unsafe { libc::mkdirat(self.dir.as_raw_fd(), name.as_ptr(), 0o755) })?;
        Ok(group)
    }

    /// A descriptor with which a process can move itself into the group.
    pub fn entrance(&self, group: u32) -> io::Result<OwnedFd> {
        self.open(group, "/cgroup.procs", libc::O_WRONLY)
    }

    /// The same for the cgroup that contains the groups.
    pub fn entrance_of_all(&self) -> io::Result<OwnedFd> {
        sys::open_at(self.dir.as_raw_fd(), c"cgroup.procs", libc::O_WRONLY, 0)
    }

    pub fn move_into(&self, group: u32, pid: i32) -> io::Result<()> {
        let procs = self.entrance(group)?;
        sys::write(procs.as_raw_fd(), pid.to_string().as_bytes()).map(drop)
    }

    pub fn pids(&self, group: u32) -> io::Result<Vec<i32>> {
        let mut asked = self.asked.borrow_mut();
        let procs = match asked.take() {
            Some((last, procs)) if last == group => procs,
            _ => self.open(group, "/cgroup.procs", libc::O_RDONLY)?,
        };
        let mut text = Vec::new();
        let mut buffer = [0u8; 4096];
        loop {
            let n = sys::pread(procs.as_raw_fd(), &mut buffer, text.len() as i64)?;
            if n == 0 {
                break;
            }
            text.extend_from_slice(&buffer[..n]);
        }
        *asked = Some((group, procs));
        Ok(String::from_utf8_lossy(&text)
            .lines()
            .filter_map(|line| line.parse().ok())
            // 0 stands for a process that is not visible in this pid namespace.
            .filter(|pid| *pid > 0)
            .collect())
    }

    /// Kills everything in the group at once; a fork bomb cannot outrun it.
    pub fn kill(&self, group: u32) -> io::Result<()> {
        match self.open(group, "/cgroup.kill", libc::O_WRONLY) {
            Ok(switch) => sys::write(switch.as_raw_fd(), b"1").map(drop),
            Err(_) => {
                // Kernels before 5.14 do not have this file.
                for _ in 0..64 {
                    let pids = self.pids(group)?;
                    if pids.is_empty() {
                        break;
                    }
                    for pid in pids {
                        let _ = sys::kill(pid, libc::SIGKILL);
                    }
                }
                Ok(())
            }
        }
    }

    /// The group is no longer used; it is removed when its last process is gone.
    pub fn leave(&self, group: u32) {
        self.left.borrow_mut().push(group);
    }

    /// Removes abandoned groups that have become empty.
    pub fn sweep(&self) {
        let dir = self.dir.as_raw_fd();
        self.left.borrow_mut().retain(|group| {
            let Ok(name) = file(*group, "") else {
                return false;
            };
            // SAFETY: name is a valid C string.
            let result = unsafe { libc::unlinkat(dir, name.as_ptr(), libc::AT_REMOVEDIR) };
            result < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EBUSY)
        });
    }

    fn open(&self, group: u32, name: &str, flags: i32) -> io::Result<OwnedFd> {
        sys::open_at(self.dir.as_raw_fd(), &file(group, name)?, flags, 0)
    }
}

fn file(group: u32, name: &str) -> io::Result<CString> {
    sys::c_string(format!("exec-{group}{name}"))
}
