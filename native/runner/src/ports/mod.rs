//! TODO

pub mod dial;
pub mod listing;
