//! A stream between the event loop and the thread that works for it.

use crate::connections::Address;
use crate::protocol::failure::Failure;
use crate::protocol::frame::{self, INITIAL_CREDIT, Kind};
use crate::sys;
use crate::workers::lock;
use crate::workers::outbox::{Outbox, Parcel};
use serde::Serialize;
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

struct Inbox {
    data: VecDeque<Vec<u8>>,
    ended: bool,
    credit: u64,
    cancelled: bool,
}

pub struct Mailbox {
    address: Address,
    inbox: Mutex<Inbox>,
    changed: Condvar,
    outbox: Arc<Outbox>,
    /// Becomes readable on cancellation, for work that waits in poll.
    cancel: Mutex<Option<Arc<OwnedFd>>>,
    /// Closed after the answer.
    held: Mutex<Option<OwnedFd>>,
}

impl Mailbox {
    pub fn new(address: Address, outbox: Arc<Outbox>) -> Mailbox {
        Mailbox {
            address,
            inbox: Mutex::new(Inbox {
                data: VecDeque::new(),
                ended: false,
                credit: INITIAL_CREDIT,
                cancelled: false,
            }),
            changed: Condvar::new(),
            outbox,
            cancel: Mutex::new(None),
            held: Mutex::new(None),
        }
    }

    // The event loop's side.

    pub fn deliver(&self, data: Vec<u8>) {
        lock(&self.inbox).data.push_back(data);
        self.changed.notify_one();
    }

    pub fn deliver_end(&self) {
        lock(&self.inbox).ended = true;
        self.changed.notify_one();
    }

    /// False if that is more than was sent.
    pub fn add_credit(&self, bytes: u64) -> bool {
        let mut inbox = lock(&self.inbox);
        inbox.credit += bytes;
        self.changed.notify_one();
        inbox.credit <= INITIAL_CREDIT
    }

    pub fn cancel(&self) {
        lock(&self.inbox).cancelled = true;
        self.changed.notify_one();
        if let Some(fd) = lock(&self.cancel).as_ref() {
            let _ = sys::write(fd.as_raw_fd(), &1u64.to_ne_bytes());
        }
    }

    // The thread's side.

    /// A descriptor that becomes readable on cancellation.
    pub fn cancel_fd(&self) -> std::io::Result<Arc<OwnedFd>> {
        let fd = Arc::new(sys::eventfd()?);
        *lock(&self.cancel) = Some(fd.clone());
        if self.cancelled() {
            let _ = sys::write(fd.as_raw_fd(), &1u64.to_ne_bytes());
        }
        Ok(fd)
    }

    /// Keeps a file open until the answer is sent, because closing the last descriptor of a large
    /// file that was replaced takes time.
    pub fn hold(&self, file: OwnedFd) {
        *lock(&self.held) = Some(file);
    }

    pub fn cancelled(&self) -> bool {
        lock(&self.inbox).cancelled
    }

    /// The next bytes of the body; `None` at its end.
    pub fn receive(&self) -> Result<Option<Vec<u8>>, Failure> {
        let mut inbox = lock(&self.inbox);
        loop {
            if inbox.cancelled {
                return Err(Failure::cancelled());
            }
            if let Some(data) = inbox.data.pop_front() {
                drop(inbox);
                self.outbox.post(Parcel {
                    grant: data.len() as u64,
                    ..self.parcel(frame::encode_credit(self.address.stream, data.len() as u32))
                });
                return Ok(Some(data));
            }
            if inbox.ended {
                return Ok(None);
            }
            inbox = self
                .changed
                .wait(inbox)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until the peer accepts bytes; returns how many, at most `wanted`.
    pub fn claim_credit(&self, wanted: usize) -> Result<usize, Failure> {
        let mut inbox = lock(&self.inbox);
        loop {
            if inbox.cancelled {
                return Err(Failure::cancelled());
            }
            if inbox.credit > 0 {
                let granted = inbox.credit.min(wanted as u64);
                inbox.credit -= granted;
                return Ok(granted as usize);
            }
            inbox = self
                .changed
                .wait(inbox)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Sends bytes as the peer accepts them.
    pub fn send_data(&self, mut bytes: &[u8]) -> Result<(), Failure> {
        while !bytes.is_empty() {
            let n = self.claim_credit(bytes.len())?;
            self.send(frame::encode(Kind::Data, self.address.stream, &bytes[..n]));
            bytes = &bytes[n..];
        }
        Ok(())
    }

    pub fn send_event(&self, event: &impl Serialize) {
        self.send(frame::encode_json(Kind::Event, self.address.stream, event));
    }

    /// Sends an event that may be dropped if the peer does not keep up.
    pub fn send_droppable(&self, event: &impl Serialize) {
        self.outbox.post(Parcel {
            droppable: true,
            ..self.parcel(frame::encode_json(Kind::Event, self.address.stream, event))
        });
    }

    fn send(&self, frame: Vec<u8>) {
        self.outbox.post(self.parcel(frame));
    }

    fn parcel(&self, frame: Vec<u8>) -> Parcel {
        Parcel {
            address: self.address,
            frame,
            last: false,
            droppable: false,
            grant: 0,
        }
    }

    /// Ends the stream with the answer.
    pub fn finish(&self, outcome: Result<serde_json::Value, Failure>) {
        let frame = match outcome {
            Ok(answer) => frame::encode_json(Kind::Response, self.address.stream, &answer),
            Err(failure) => frame::encode_json(Kind::Error, self.address.stream, &failure),
        };
        self.outbox.post(Parcel {
            last: true,
            ..self.parcel(frame)
        });
        drop(lock(&self.held).take());
    }
}
