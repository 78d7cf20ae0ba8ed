//! TODO

pub mod ending;
pub mod reap;
pub mod requests;
