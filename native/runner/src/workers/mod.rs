//! TODO

pub mod worker;
