//! The protocol between the daemon and the runner.

pub mod base64;
pub mod failure;
pub mod frame;
pub mod message;
