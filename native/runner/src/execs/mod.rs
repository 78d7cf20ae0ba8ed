//! TODO

pub mod exec;
pub mod finish;
pub mod output;
pub mod spool;
pub mod start;
pub mod stdin;
