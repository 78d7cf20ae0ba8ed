//! TODO

pub mod connection;
