//! Threads for work that may block, so that a slow disk never delays a command's output.

mod mailbox;
mod outbox;
mod pool;

pub use mailbox::Mailbox;
pub use outbox::Parcel;
pub use pool::Work;

use crate::connections::{Address, Stream};
use crate::server::context::Context;
use crate::server::poll::Poll;
use crate::server::token::Token;
use outbox::Outbox;
use pool::Pool;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The expected duration of work.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// The work is short.
    Quick,
    /// The work takes as long as its reader or writer.
    Streaming,
    /// The work runs until it is cancelled.
    Lasting,
}

pub struct Workers {
    outbox: Arc<Outbox>,
    quick: Pool,
    streaming: Pool,
}

impl Workers {
    pub fn new(uid: u32, gid: u32, poll: &Poll) -> io::Result<Workers> {
        let outbox = Arc::new(Outbox::new()?);
        poll.add(outbox.fd(), libc::EPOLLIN, Token::Outbox)?;
        Ok(Workers {
            outbox,
            quick: Pool::new(uid, gid, 4),
            streaming: Pool::new(uid, gid, 32),
        })
    }

    /// Makes a thread do the work and answer on the stream.
    pub fn start(&self, address: Address, pace: Pace, work: Work, cx: &mut Context) {
        let mailbox = Arc::new(Mailbox::new(address, self.outbox.clone()));
        cx.connections.open(address, Stream::Work(mailbox.clone()));
        match pace {
            Pace::Quick => self.quick.submit(mailbox, work),
            Pace::Streaming => self.streaming.submit(mailbox, work),
            Pace::Lasting => self.streaming.submit_lasting(mailbox, work),
        }
    }

    /// Sends the frames that the threads have queued.
    pub fn forward(&self, cx: &mut Context) {
        cx.connections.forward(self.outbox.take());
    }
}

/// A panic aborts the whole process, so a poisoned lock is never seen.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
