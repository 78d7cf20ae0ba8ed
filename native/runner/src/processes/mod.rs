//! Processes of the sandbox: how they are started, and which command they belong to.

mod cgroup;
mod keeper;
pub mod launch;
pub mod proc_tree;
pub mod terminal;
mod tracker;
pub mod user;

pub use keeper::Keeper;
pub use tracker::{Group, Tracker};
