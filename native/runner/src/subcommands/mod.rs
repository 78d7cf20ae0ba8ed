//! TODO

pub mod client;
pub mod disk_usage;
pub mod probe;
pub mod relay;
