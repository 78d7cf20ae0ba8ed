//! Runs a function in a child process, so its changes to the process end with it.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use crate::fault::{Context, Fault, Outcome};
use crate::sys::{self, Forked};

const GOOD: u8 = b'+';
const BAD: u8 = b'-';

/// The result of `question`, run in a child.
pub fn ask(question: impl FnOnce() -> Outcome<String>) -> Outcome<String> {
    let (mut ours, mut theirs) = UnixStream::pair().context(|| "creating a socket pair".into())?;
    // SAFETY: the launcher has one thread; the child answers and ends.
    let child = match unsafe { sys::fork(0) }.context(|| "forking".into())? {
        Forked::Parent(child) => child,
        Forked::Child => {
            drop(ours);
            let (kind, text) = match question() {
                Ok(text) => (GOOD, text),
                Err(fault) => (BAD, fault.to_string()),
            };
            let sent = theirs
                .write_all(&[kind])
                .and_then(|()| theirs.write_all(text.as_bytes()));
            std::process::exit(i32::from(sent.is_err()));
        }
    };
    drop(theirs);
    let mut answer = Vec::new();
    let read = ours.read_to_end(&mut answer);
    sys::wait_child(child).context(|| "waiting for the child process".into())?;
    read.context(|| "reading the response of the child process".into())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match answer.split_first() {
        Some((&GOOD, rest)) => Ok(text(rest)),
        Some((_, rest)) => Err(Fault::new(text(rest))),
        None => Err(Fault::new("the child process exited without a response")),
    }
}
