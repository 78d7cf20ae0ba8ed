//! TODO

pub mod capabilities;
pub mod guest_cgroup;
pub mod oom_score;
pub mod receive_fd;
