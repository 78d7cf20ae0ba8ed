//! The launcher as a server: runs alongside the daemon and forks a child for every request, which
//! does the work of a separate launcher. Forking this small process takes a fraction of a
//! millisecond; starting one from the daemon, which is large, blocks the daemon for several.
//!
//! A request is a line `ID COMMAND JSON` on stdin, and its answer a line `ID JSON` on stdout, as soon
//! as the child has it. The server only parses up to the command: the child handles the JSON and its
//! errors.
//!
//! SECURITY: only the process that started it can send requests, through a private descriptor; it has
//! no name that could be found (threat: replaced sockets).

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::ExitStatus;

use crate::commands;
use crate::fault::{Context, Fault, Outcome};
use crate::responses::{self, Death, Died, Failed};
use crate::sys::{self, Forked};

const READ_BYTES: usize = 64 << 10;
/// As for a single request: limits invalid input.
const MAX_LINE_BYTES: usize = 8 << 20;
/// The maximum output kept of a child that ended without an answer.
const MAX_SAID: usize = 4096;
/// Terminates an answer; does not occur in JSON.
const COMPLETE: u8 = 0;

struct Server {
    requests: File,
    /// The beginning of an incomplete line.
    unread: Vec<u8>,
    null: File,
    running: Vec<Running>,
}

/// A running child.
struct Running {
    id: String,
    child: i32,
    ended: OwnedFd,
    /// None after its end.
    output: Option<PipeReader>,
    text: Vec<u8>,
    is_answered: bool,
}

/// Serves until the input ends, which happens when the daemon ends. Running children then continue,
/// like a launcher whose daemon dies: the next daemon finds their sandboxes.
pub fn serve() -> Outcome<()> {
    // A Ctrl-C is for the daemon, which may still need to destroy its sandboxes.
    sys::setsid();
    let requests = io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .context(|| "opening stdin".into())?;
    let null = File::open("/dev/null").context(|| "opening /dev/null".into())?;
    let mut server = Server {
        requests: requests.into(),
        unread: Vec::new(),
        null,
        running: Vec::new(),
    };
    while server.turn()? {}
    Ok(())
}

impl Server {
    /// Waits for an event and handles it; false if there are no more requests.
    fn turn(&mut self) -> Outcome<bool> {
        let ended = self.running.iter().map(|work| work.ended.as_fd());
        let outputs = self.running.iter().filter_map(|work| work.output.as_ref());
        let watched: Vec<_> = std::iter::once(self.requests.as_fd())
            .chain(ended)
            .chain(outputs.map(AsFd::as_fd))
            .collect();
        let ready = sys::wait_readable_any(&watched).context(|| "waiting for requests".into())?;
        for work in &mut self.running {
            work.listen()?;
            work.pass_on()?;
        }
        let mut ended = ready[1..].iter();
        for work in self.running.extract_if(.., |_| ended.next() == Some(&true)) {
            work.finish()?;
        }
        Ok(!ready[0] || self.read_requests()?)
    }

    fn read_requests(&mut self) -> Outcome<bool> {
        let before = self.unread.len();
        self.unread.resize(before + READ_BYTES, 0);
        let taken = self
            .requests
            .read(&mut self.unread[before..])
            .context(|| "reading requests".into())?;
        self.unread.truncate(before + taken);
        // There is no line break before this position.
        let mut from = before;
        while let Some(at) = self.unread[from..].iter().position(|byte| *byte == b'\n') {
            let rest = self.unread.split_off(from + at + 1);
            let line = std::mem::replace(&mut self.unread, rest);
            self.begin(&line[..from + at])?;
            from = 0;
        }
        if self.unread.len() > MAX_LINE_BYTES {
            return Err(Fault::new("a request is too long"));
        }
        Ok(taken > 0)
    }

    /// Starts a child for a line's request.
    fn begin(&mut self, line: &[u8]) -> Outcome<()> {
        let (id, command, request) =
            parts(line).ok_or_else(|| Fault::new("a request is not ID COMMAND JSON"))?;
        // Answered by the server itself: it shows whether requests are served, however long they
        // take.
        if command == "ping" {
            return send(id, "{}");
        }
        match self.fork(command, request) {
            Ok((child, ended, output)) => {
                self.running.push(Running {
                    id: id.to_owned(),
                    child,
                    ended,
                    output: Some(output),
                    text: Vec::new(),
                    is_answered: false,
                });
                Ok(())
            }
            Err(fault) => send(
                id,
                &responses::value(Failed::at("fork", &fault)).to_string(),
            ),
        }
    }

    fn fork(&self, command: &str, request: &[u8]) -> Outcome<(i32, OwnedFd, PipeReader)> {
        let (output, answer) = io::pipe().context(|| "creating a pipe".into())?;
        let server = std::process::id();
        // SAFETY: the server has one thread; the child answers and ends.
        match unsafe { sys::fork(0) }.context(|| "forking".into())? {
            Forked::Child => work(command, request, &self.null, &answer, server),
            Forked::Parent(child) => {
                // Done first, to free a descriptor for the next child.
                drop(answer);
                let ended = sys::pidfd_open(child).context(|| "opening a child process".into())?;
                Ok((child, ended, output))
            }
        }
    }
}

fn parts(line: &[u8]) -> Option<(&str, &str, &[u8])> {
    let mut parts = line.splitn(3, |byte| *byte == b' ');
    let id = str::from_utf8(parts.next()?).ok()?;
    let command = str::from_utf8(parts.next()?).ok()?;
    let plain = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
    plain.then_some((id, command, parts.next().unwrap_or_default()))
}

/// Does the work of a separate launcher, and exits like one.
///
/// SECURITY: the child keeps none of the server's descriptors, neither the pipes of other requests nor
/// the ones to the daemon (threat: leaked secrets and descriptors; guarded by
/// `a_child_inherits_no_descriptors_of_other_requests` and `a_server_leaks_no_descriptors`). Changes to
/// namespaces, ids and limits end with the child.
fn work(command: &str, request: &[u8], null: &File, answer: &PipeWriter, server: u32) -> ! {
    let placed = sys::place_fd(null.as_raw_fd(), 0)
        .and_then(|()| sys::place_fd(answer.as_raw_fd(), 1))
        .and_then(|()| sys::place_fd(answer.as_raw_fd(), 2))
        .and_then(|()| sys::close_from(3));
    if let Err(error) = placed {
        eprintln!("duplicating descriptors: {error}");
        std::process::exit(2);
    }
    let outcome = commands::run(command, || Ok(request.to_vec()), Some(server));
    let Some(Ok(answer) | Err(answer)) = outcome else {
        eprintln!("unknown command {command:?}");
        std::process::exit(2);
    };
    let mut line = answer.to_string().into_bytes();
    line.push(COMPLETE);
    // The reader may be gone; the work is done anyway, and a sweep finds it.
    let mut out = io::stdout();
    let _ = out.write_all(&line).and_then(|()| out.flush());
    std::process::exit(0);
}

impl Running {
    /// Reads the child's new output.
    fn listen(&mut self) -> Outcome<()> {
        let listening = || "polling a child process".to_string();
        while let Some(output) = &mut self.output
            && sys::wait_readable(output.as_fd(), 0).context(listening)?
        {
            let mut bytes = [0; READ_BYTES];
            match output.read(&mut bytes).context(listening)? {
                0 => self.output = None,
                taken => self.text.extend_from_slice(&bytes[..taken]),
            }
        }
        Ok(())
    }

    /// Passes on a complete answer. The request is done by then: only the release of a create's
    /// mounts, at the child's end, takes some more time.
    fn pass_on(&mut self) -> Outcome<()> {
        if let Some(text) = self.text.strip_suffix(&[COMPLETE])
            && !self.is_answered
        {
            self.is_answered = true;
            let said = String::from_utf8_lossy(text);
            send(&self.id, said.lines().last().unwrap_or_default())?;
        }
        Ok(())
    }

    /// Reaps the child, and reports how it ended if it has not answered.
    fn finish(mut self) -> Outcome<()> {
        let status =
            sys::wait_child(self.child).context(|| "waiting for a child process".into())?;
        self.listen()?;
        self.pass_on()?;
        if self.is_answered {
            return Ok(());
        }
        send(&self.id, &death(&self.text, status))
    }
}

/// How a child ended without an answer.
fn death(text: &[u8], status: ExitStatus) -> String {
    let said = String::from_utf8_lossy(text.trim_ascii_end());
    let said: String = said.chars().take(MAX_SAID).collect();
    let how = status.to_string();
    responses::value(Died {
        died: Death { how, said },
    })
    .to_string()
}

fn send(id: &str, answer: &str) -> Outcome<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{id} {answer}")
        .and_then(|()| out.flush())
        .context(|| "answering".into())
}
