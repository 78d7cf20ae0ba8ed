//! Threads with the file rights of the code user.

use crate::protocol::failure::Failure;
use crate::sys;
use crate::workers::lock;
use crate::workers::mailbox::Mailbox;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

const MAX_WATCHES: usize = 32;
const STACK_BYTES: usize = 256 * 1024;
const IDLE: Duration = Duration::from_secs(5);

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

/// A few threads, which end when there is no work.
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
                // Out of pids or memory: without any thread, the job must fail.
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

    /// Runs work that lasts until it is cancelled in a separate thread.
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
