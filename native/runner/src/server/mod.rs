//! TODO

pub mod dispatch;
pub mod event_loop;
pub mod token;
