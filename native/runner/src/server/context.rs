//! What every part uses while it handles an event. None of it is the state of a part.

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
