//! What the binary does besides being PID 1.

pub mod client;
pub mod disk_usage;
pub mod probe;
pub mod relay;
