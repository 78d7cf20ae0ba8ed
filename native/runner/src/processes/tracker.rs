//! Assigns processes to commands: by cgroup where possible, otherwise by searching /proc.

use crate::processes::cgroup::CgroupTree;
use crate::processes::proc_tree::{self, Origin};
use crate::sys;
use std::io;
use std::os::fd::OwnedFd;

/// A command's processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    Cgroup(u32),
    /// Found by search; it has no cgroup.
    Processes,
}

/// How often to check whether killed processes are gone before giving up.
const CHECKS: u32 = 64;

pub struct Tracker {
    cgroups: Option<CgroupTree>,
    uid: u32,
    gid: u32,
}

impl Tracker {
    pub fn new(cgroup_dir: Option<OwnedFd>, uid: u32, gid: u32) -> Tracker {
        Tracker {
            cgroups: cgroup_dir.and_then(CgroupTree::adopt),
            uid,
            gid,
        }
    }

    pub fn name(&self) -> &'static str {
        if self.cgroups.is_some() {
            "cgroup"
        } else {
            "processes"
        }
    }

    /// Whether commands' processes are identified by a marker in their environment.
    pub fn needs_marker(&self) -> bool {
        self.cgroups.is_none()
    }

    /// Creates a group. If no cgroup can be created (there are too many), the search is used
    /// instead.
    pub fn begin(&self) -> Group {
        match self.cgroups.as_ref().map(CgroupTree::create) {
            Some(Ok(group)) => Group::Cgroup(group),
            _ => Group::Processes,
        }
    }

    /// The file to which a new process must write "0" to join the group, if there are cgroups.
    ///
    /// SECURITY: never none if there are cgroups, because code's limits may be set on the cgroup
    /// above (threat: fork bombs; guarded by tests/hostile/strong-tier.test.ts).
    pub fn entrance(&self, group: Group) -> io::Result<Option<OwnedFd>> {
        match (group, &self.cgroups) {
            (Group::Cgroup(group), Some(tree)) => tree.entrance(group).map(Some),
            (Group::Processes, Some(tree)) => tree.entrance_of_all().map(Some),
            (_, None) => Ok(None),
        }
    }

    pub fn move_into(&self, group: Group, pid: i32) -> bool {
        match (group, &self.cgroups) {
            (Group::Cgroup(group), Some(tree)) => tree.move_into(group, pid).is_ok(),
            _ => true,
        }
    }

    pub fn members(&self, group: Group, origin: &Origin) -> Vec<i32> {
        match (group, &self.cgroups) {
            (Group::Cgroup(group), Some(tree)) => {
                let mut pids = tree.pids(group).unwrap_or_default();
                if origin.in_shell {
                    pids.retain(|pid| *pid != origin.root);
                }
                pids
            }
            _ => proc_tree::started_by(origin, self.uid, self.gid),
        }
    }

    pub fn signal(&self, group: Group, origin: &Origin, signal: i32) -> usize {
        self.members(group, origin)
            .into_iter()
            .filter(|pid| sys::kill(*pid, signal).is_ok())
            .count()
    }

    /// Kills all members. If the command runs in a shell, the shell must have left the cgroup
    /// before.
    pub fn kill(&self, group: Group, origin: &Origin) {
        if let (Group::Cgroup(group), Some(tree)) = (group, &self.cgroups)
            && tree.kill(group).is_ok()
        {
            // On a busy machine they take a moment to die. When the end of the command is reported,
            // the ports and files that they held must be free.
            for _ in 0..CHECKS {
                if tree.pids(group).is_ok_and(|pids| !pids.is_empty()) {
                    sys::pause_ms(2);
                } else {
                    return;
                }
            }
            return;
        }
        // Stopping them first keeps them from forking while the search continues.
        for _ in 0..CHECKS {
            let members = self.members(group, origin);
            if members.is_empty() {
                return;
            }
            for pid in &members {
                let _ = sys::kill(*pid, libc::SIGSTOP);
            }
            for pid in &members {
                let _ = sys::kill(*pid, libc::SIGKILL);
            }
            sys::pause_ms(2);
        }
    }

    pub fn end(&self, group: Group) {
        if let (Group::Cgroup(group), Some(tree)) = (group, &self.cgroups) {
            tree.leave(group);
        }
    }

    pub fn sweep(&self) {
        if let Some(tree) = &self.cgroups {
            tree.sweep();
        }
    }
}
