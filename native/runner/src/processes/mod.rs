//! Processes of the sandbox: how they are started, and which command they belong to.

mod cgroup;
pub mod launch;
pub mod proc_tree;
mod shared_directory;
pub mod terminal;
mod tracker;
pub mod user;

pub use shared_directory::SharedDirectory;
pub use tracker::{Group, Tracker};
