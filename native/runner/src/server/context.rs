//! Shared resources that every part uses to handle an event. Parts keep their own state.

use crate::connections::Connections;
use crate::server::clock::Clock;
use crate::server::poll::Poll;
use crate::sys::Pages;

pub struct Context {
    pub poll: Poll,
    pub clock: Clock,
    /// The connections to the daemon.
    pub connections: Connections,
    /// To read into. Its content is only valid until the next read.
    pub buffer: Pages,
}
