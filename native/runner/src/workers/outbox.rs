//! Frames on their way from threads to the event loop.

use crate::connections::Address;
use crate::sys;
use crate::workers::lock;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Mutex;

pub struct Outbox {
    parcels: Mutex<Vec<Parcel>>,
    wake: OwnedFd,
}

pub struct Parcel {
    pub address: Address,
    pub frame: Vec<u8>,
    /// The stream ends with this frame.
    pub last: bool,
    /// May be dropped when the connection is congested.
    pub droppable: bool,
    /// Bytes that the peer may send in addition.
    pub grant: u64,
}

impl Outbox {
    pub fn new() -> io::Result<Outbox> {
        Ok(Outbox {
            parcels: Mutex::new(Vec::new()),
            wake: sys::eventfd()?,
        })
    }

    /// Becomes readable when there is something to take.
    pub fn fd(&self) -> RawFd {
        self.wake.as_raw_fd()
    }

    pub fn post(&self, parcel: Parcel) {
        lock(&self.parcels).push(parcel);
        let _ = sys::write(self.wake.as_raw_fd(), &1u64.to_ne_bytes());
    }

    pub fn take(&self) -> Vec<Parcel> {
        let mut counter = [0u8; 8];
        let _ = sys::read(self.wake.as_raw_fd(), &mut counter);
        std::mem::take(&mut *lock(&self.parcels))
    }
}
