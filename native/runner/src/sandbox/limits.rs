//! The sandbox's limits that the runner needs to know.

use crate::sandbox::guest_cgroup::GuestCgroup;
use crate::sys;
use serde_json::Value;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

pub struct Limits {
    /// Present in a sandbox that has its own kernel.
    pub guest: Option<GuestCgroup>,
    /// Counts how often the kernel has killed a process because memory ran out.
    pub memory_events: Option<OwnedFd>,
}

impl Limits {
    /// Fails if code has reached its limit of processes.
    pub fn check_room(&self) -> io::Result<()> {
        match &self.guest {
            Some(guest) => guest.check_room(),
            None => Ok(()),
        }
    }

    /// Like `oom_kills`, for a command that is about to start.
    pub fn oom_kills_before(&self) -> u64 {
        if let Some(guest) = &self.guest {
            guest.watch_closely();
        }
        self.oom_kills()
    }

    /// How often a process of this sandbox was killed because memory ran out.
    pub fn oom_kills(&self) -> u64 {
        if let Some(guest) = &self.guest {
            return guest.kills();
        }
        let text = match &self.memory_events {
            Some(events) => {
                let mut text = [0u8; 1024];
                let n = sys::pread(events.as_raw_fd(), &mut text, 0).unwrap_or(0);
                String::from_utf8_lossy(&text[..n]).into_owned()
            }
            // The counters of the whole machine: they only matter for a command that was killed,
            // and two sandboxes rarely run out of memory at the same moment.
            None => std::fs::read_to_string("/proc/vmstat").unwrap_or_default(),
        };
        text.lines()
            .find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
            .unwrap_or(0)
    }

    /// Adds the numbers that only the sandbox's own kernel provides.
    pub fn describe(&self, status: &mut Value) {
        if let Some(guest) = &self.guest {
            status["memory_bytes"] = guest.memory_bytes().into();
            status["pids"] = guest.pids().into();
            status["oom_kills"] = guest.kills().into();
        }
    }
}
