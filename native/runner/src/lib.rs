//! The runner: PID 1 of every sandbox, and the small clients that talk to it.

pub mod capabilities;
pub mod client;
pub mod disk_usage;
pub mod frame;
pub mod init;
pub mod probe;
pub mod relay;

mod base64;
mod cgroup;
mod connection;
mod dial;
mod dispatch;
mod error;
mod exec;
mod exec_io;
mod exec_request;
mod files;
mod finish;
mod message;
mod proc_tree;
mod process;
mod reap;
mod run_dir;
mod server;
mod shell;
mod shell_command;
mod spool;
mod start;
mod stdin;
mod sys;
mod timeout;
mod token;
mod tracker;
mod worker;
