//! TODO

pub mod bash;
pub mod command;
pub mod lines;
pub mod memory;
pub mod named;
pub mod openings;
pub mod run_dir;
pub mod sh;
pub mod shell;
pub mod socket;
pub mod terminal;
