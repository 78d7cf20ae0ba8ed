//! Carries bytes between stdin/stdout and the runner's socket, for transports that can only
//! start a program inside the sandbox.

use crate::sys;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// How long PID 1 may take from its start until it listens.
const PATIENCE: Duration = Duration::from_secs(4);
const BUFFER_BYTES: usize = 64 * 1024;

pub fn run(socket: &Path) -> io::Result<()> {
    let socket: OwnedFd = connect(socket)?.into();
    // One thread, because a sandbox may have few; so no write may ever block.
    sys::set_nonblocking(socket.as_raw_fd())?;
    sys::set_nonblocking(libc::STDOUT_FILENO)?;
    let mut inward = Direction::new(libc::STDIN_FILENO, socket.as_raw_fd());
    let mut outward = Direction::new(socket.as_raw_fd(), libc::STDOUT_FILENO);
    loop {
        inward.advance()?;
        outward.advance()?;
        if inward.is_over() && !inward.told {
            inward.told = true;
            // SAFETY: plain system call on a socket that we own.
            unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_WR) };
        }
        // Either end may close first; the runner answers the end of input with its own end.
        if outward.is_over() {
            return Ok(());
        }
        wait(&[&inward, &outward])?;
    }
}

fn connect(path: &Path) -> io::Result<UnixStream> {
    let begun = Instant::now();
    loop {
        match UnixStream::connect(path) {
            Err(error)
                if begun.elapsed() < PATIENCE
                    && matches!(
                        error.kind(),
                        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
                    ) =>
            {
                thread::sleep(Duration::from_millis(2));
            }
            result => return result,
        }
    }
}

/// One of the two directions.
struct Direction {
    from: RawFd,
    to: RawFd,
    buffer: Vec<u8>,
    /// The part of the buffer that was read and not yet written.
    pending: std::ops::Range<usize>,
    ended: bool,
    told: bool,
}

impl Direction {
    fn new(from: RawFd, to: RawFd) -> Direction {
        Direction {
            from,
            to,
            buffer: vec![0; BUFFER_BYTES],
            pending: 0..0,
            ended: false,
            told: false,
        }
    }

    fn is_over(&self) -> bool {
        self.ended && self.pending.is_empty()
    }

    /// Transfers as many bytes as possible without blocking.
    fn advance(&mut self) -> io::Result<()> {
        loop {
            while !self.pending.is_empty() {
                match sys::write(self.to, &self.buffer[self.pending.clone()]) {
                    Ok(n) => self.pending.start += n,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                    Err(error) => return Err(error),
                }
            }
            if self.ended || !is_readable(self.from)? {
                return Ok(());
            }
            match sys::read(self.from, &mut self.buffer) {
                Ok(0) => self.ended = true,
                Ok(n) => self.pending = 0..n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    fn poll_fd(&self) -> libc::pollfd {
        let (fd, events) = match (self.pending.is_empty(), self.ended) {
            (false, _) => (self.to, libc::POLLOUT),
            (true, false) => (self.from, libc::POLLIN),
            // poll ignores a negative descriptor.
            (true, true) => (-1, 0),
        };
        libc::pollfd {
            fd,
            events,
            revents: 0,
        }
    }
}

/// The end of a stream counts as readable, too.
fn is_readable(fd: RawFd) -> io::Result<bool> {
    let mut fds = [libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    }];
    Ok(poll(&mut fds, 0)? > 0)
}

fn wait(directions: &[&Direction; 2]) -> io::Result<()> {
    poll(&mut directions.map(Direction::poll_fd), -1).map(drop)
}

fn poll(fds: &mut [libc::pollfd], timeout_ms: i32) -> io::Result<i32> {
    loop {
        // SAFETY: the descriptors are valid for reading and writing, and their count is right.
        let ready = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout_ms) };
        match sys::check(ready) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            result => return result,
        }
    }
}
