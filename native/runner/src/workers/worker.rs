//! Threads that do file work, so that a slow disk never holds up a command's output.

use crate::protocol::failure::Failure;
use crate::protocol::frame::{self, INITIAL_CREDIT, Kind};
use crate::sys;
use serde::Serialize;
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::execs::exec::Address;

const MAX_WATCHES: usize = 32;
const STACK_BYTES: usize = 256 * 1024;
const IDLE: Duration = Duration::from_secs(5);

/// Frames on their way from threads to the event loop.
pub struct Outbox {
    frames: Mutex<Vec<Parcel>>,
    wake: OwnedFd,
}

pub struct Parcel {
    pub address: Address,
    pub frame: Vec<u8>,
    /// The stream is over with this frame.
    pub last: bool,
    /// May be dropped when the connection is congested.
    pub droppable: bool,
    /// So many bytes more the peer may send.
    pub grant: u64,
}

impl Outbox {
    pub fn new() -> std::io::Result<Outbox> {
        Ok(Outbox {
            frames: Mutex::new(Vec::new()),
            wake: sys::eventfd()?,
        })
    }

    pub fn wake_fd(&self) -> &OwnedFd {
        &self.wake
    }

    fn post(&self, parcel: Parcel) {
        lock(&self.frames).push(parcel);
        let _ = sys::write(self.wake.as_raw_fd(), &1u64.to_ne_bytes());
    }

    pub fn take(&self) -> Vec<Parcel> {
        let mut counter = [0u8; 8];
        let _ = sys::read(self.wake.as_raw_fd(), &mut counter);
        std::mem::take(&mut *lock(&self.frames))
    }
}

/// A panic aborts the whole process, so a poisoned lock cannot be seen.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Inbox {
    data: VecDeque<Vec<u8>>,
    ended: bool,
    credit: u64,
    cancelled: bool,
}

/// A thread's side of a stream.
pub struct Mailbox {
    address: Address,
    inbox: Mutex<Inbox>,
    changed: Condvar,
    outbox: Arc<Outbox>,
    /// Becomes readable on cancellation, for work that waits in poll.
    cancel: Mutex<Option<Arc<OwnedFd>>>,
    /// Let go of after the answer.
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

    /// False when that is more than was ever sent.
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

    /// Keeps a file open until the answer is given, for closing the last descriptor of a large
    /// file that was replaced takes its time.
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

    /// Waits until the peer takes bytes, and tells how many, at most `wanted`.
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

    /// Sends bytes as the peer takes them.
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

    /// Sends an event that may be lost when the peer does not keep up.
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

    fn finish(&self, outcome: Result<serde_json::Value, Failure>) {
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

pub type Work = Box<dyn FnOnce(&Mailbox) -> Result<serde_json::Value, Failure> + Send>;

struct Job {
    mailbox: Arc<Mailbox>,
    work: Work,
}

struct Queue {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    watches: usize,
}

struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    uid: u32,
    gid: u32,
    max_threads: usize,
}

/// A few threads with the file rights of the code user; they leave when there is nothing to do.
pub struct Pool(Arc<Shared>);

impl Pool {
    pub fn new(uid: u32, gid: u32, max_threads: usize) -> Pool {
        Pool(Arc::new(Shared {
            queue: Mutex::new(Queue {
                jobs: VecDeque::new(),
                threads: 0,
                idle: 0,
                watches: 0,
            }),
            changed: Condvar::new(),
            uid,
            gid,
            max_threads,
        }))
    }

    pub fn submit(&self, mailbox: Arc<Mailbox>, work: Work) {
        let mut queue = lock(&self.0.queue);
        queue.jobs.push_back(Job { mailbox, work });
        if queue.idle < queue.jobs.len() && queue.threads < self.0.max_threads {
            let shared = self.0.clone();
            let started = thread::Builder::new()
                .stack_size(STACK_BYTES)
                .spawn(move || serve(&shared));
            match started {
                Ok(_) => queue.threads += 1,
                // Out of pids or memory: with no thread at all the job has to fail.
                Err(error) if queue.threads == 0 => {
                    if let Some(job) = queue.jobs.pop_back() {
                        job.mailbox
                            .finish(Err(Failure::new("busy", format!("no thread: {error}"))));
                    }
                }
                Err(_) => {}
            }
        }
        self.0.changed.notify_one();
    }

    /// Work that lasts until it is cancelled gets a thread of its own.
    pub fn submit_lasting(&self, mailbox: Arc<Mailbox>, work: Work) {
        let mut queue = lock(&self.0.queue);
        if queue.watches >= MAX_WATCHES {
            mailbox.finish(Err(Failure::new("busy", "too many watches are open")));
            return;
        }
        let shared = self.0.clone();
        let own = mailbox.clone();
        let started = thread::Builder::new()
            .stack_size(STACK_BYTES)
            .spawn(move || {
                sys::set_fs_user(shared.uid, shared.gid);
                let outcome = work(&own);
                lock(&shared.queue).watches -= 1;
                own.finish(outcome);
            });
        match started {
            Ok(_) => queue.watches += 1,
            Err(error) => {
                mailbox.finish(Err(Failure::new("busy", format!("no thread: {error}"))));
            }
        }
    }
}

fn serve(shared: &Shared) {
    // SECURITY: file work is done with the rights of the code user, never with the runner's.
    sys::set_fs_user(shared.uid, shared.gid);
    loop {
        let mut queue = lock(&shared.queue);
        while queue.jobs.is_empty() {
            queue.idle += 1;
            let (guard, timeout) = shared
                .changed
                .wait_timeout(queue, IDLE)
                .unwrap_or_else(PoisonError::into_inner);
            queue = guard;
            queue.idle -= 1;
            if timeout.timed_out() && queue.jobs.is_empty() {
                queue.threads -= 1;
                drop(queue);
                sys::give_back_memory();
                return;
            }
        }
        let Some(job) = queue.jobs.pop_front() else {
            continue;
        };
        drop(queue);
        let outcome = (job.work)(&job.mailbox);
        job.mailbox.finish(outcome);
    }
}
