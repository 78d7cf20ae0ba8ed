//! The binary's commands other than PID 1.

pub mod client;
pub mod disk_usage;
pub mod probe;
pub mod relay;
