//! The runner: PID 1 of every sandbox, and the small clients that talk to it.

pub mod init;
pub mod protocol;
pub mod sandbox;
pub mod subcommands;

mod commands;
mod connections;
mod execs;
mod files;
mod network;
mod ports;
mod processes;
mod server;
mod shells;
mod sys;
mod workers;
