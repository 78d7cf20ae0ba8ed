//! TODO

pub mod cgroup;
pub mod launch;
pub mod proc_tree;
pub mod tracker;
pub mod user;
