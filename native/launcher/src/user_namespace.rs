//! The sandbox's user namespace: created here and charged to the sandbox, mapped, and joined by the
//! runtime.

use std::fs::{self, File};
use std::io::{self, PipeReader, Read};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use crate::fault::{Context, Outcome};
use crate::ids::IdRange;
use crate::spec::RuntimeKind;
use crate::sys::{self, Forked};
use crate::warm_up::{self, WarmUp};

/// Creates a user namespace in which ids 0… are `range` on the host. It lives as long as the descriptor.
///
/// Its first process is only needed until then; with `procs`, it becomes the warm-up afterwards.
///
/// SECURITY: what the kernel counts per user (inotify instances, bytes in message queues, pending
/// signals, namespaces) it also charges to the creator of the user namespace. Runtimes create theirs as
/// root, so all sandboxes and the machine's root would share one account that each of them can exhaust.
/// Created by the first id of its range, a sandbox exhausts only its account (threat: using up
/// descriptors; guarded by `what_the_kernel_counts_is_charged_to_the_sandbox` and
/// resources-shared.test.ts).
pub fn make(range: IdRange, procs: Option<File>) -> Outcome<(OwnedFd, Option<WarmUp>)> {
    let making = || "creating the user namespace of the sandbox".to_string();
    let (ended, alive) = io::pipe().context(making)?;
    let mut alive = Some(alive);
    // The child must not return from this: the new namespace has no way back to our old id.
    let forked = sys::with_effective_id(range.base, || {
        // SAFETY: the launcher has one thread; the child waits and ends.
        match unsafe { sys::fork(libc::CLONE_NEWUSER) }? {
            Forked::Parent(child) => Ok(child),
            Forked::Child => {
                alive = None;
                match &procs {
                    Some(procs) => warm_up::wait_and_move(&ended, procs),
                    None => wait_for_end(&ended),
                }
            }
        }
    });
    let child = forked.context(making)?;
    let namespace = map_and_open(child, range);
    if procs.is_some() {
        return Ok((namespace?, alive.map(WarmUp::of)));
    }
    drop(alive);
    sys::wait_child(child).context(making)?;
    Ok((namespace?, None))
}

/// Ends this process when the other end of the pipe is closed: the launcher no longer needs the
/// namespace's first process, or was killed.
fn wait_for_end(mut pipe: &PipeReader) -> ! {
    let waited = pipe.read(&mut [0]);
    std::process::exit(i32::from(waited.is_err()));
}

fn map_and_open(pid: i32, range: IdRange) -> Outcome<OwnedFd> {
    let map = format!("0 {} {}\n", range.base, range.size);
    for file in ["uid_map", "gid_map"] {
        let path = format!("/proc/{pid}/{file}");
        fs::write(&path, &map).context(|| format!("writing {path}"))?;
    }
    let path = format!("/proc/{pid}/ns/user");
    let file = File::open(&path).context(|| format!("opening {path}"))?;
    Ok(file.into())
}

/// Whether a runtime joins a given user namespace.
///
/// gVisor does not: it has many threads by then, and the kernel only lets a single-threaded process
/// change its user namespace. It creates its own, as root.
pub fn is_joined_by(runtime: RuntimeKind) -> bool {
    runtime != RuntimeKind::Runsc
}

/// The path of a namespace that we hold, valid as long as this process lives.
pub fn path_of(namespace: BorrowedFd<'_>) -> PathBuf {
    PathBuf::from(format!(
        "/proc/{}/fd/{}",
        std::process::id(),
        namespace.as_raw_fd()
    ))
}
