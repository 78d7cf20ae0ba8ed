//! Reports changes as they happen.

use super::place::{answer, shown};
use super::temporary::is_unique_name;
use super::{for_each_name, open_directory, open_plainly};
use crate::protocol::failure::Failure;
use crate::sys;
use crate::workers::Mailbox;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Directories that one watch may cover.
const MAX_DIRECTORIES: usize = 4096;
const MASK: u32 = libc::IN_CREATE
    | libc::IN_CLOSE_WRITE
    | libc::IN_MODIFY
    | libc::IN_DELETE
    | libc::IN_DELETE_SELF
    | libc::IN_MOVED_FROM
    | libc::IN_MOVED_TO
    | libc::IN_MOVE_SELF
    | libc::IN_ATTRIB;

struct Watch {
    inotify: OwnedFd,
    paths: HashMap<i32, PathBuf>,
    recursive: bool,
}

pub fn watch(path: &Path, recursive: bool, mailbox: &Mailbox) -> Result<Value, Failure> {
    let failed = |error: io::Error| match error.raw_os_error() {
        // From inotify, these mean that no more watches are available, and say nothing about a
        // disk.
        Some(libc::ENOSPC | libc::EMFILE) => Failure::new(
            "too_many",
            format!(
                "cannot watch {}: no more watches are available; watch a smaller directory",
                shown(path)
            ),
        ),
        _ => Failure::io("watch", &shown(path), &error),
    };
    // SAFETY: plain system call.
    let fd = sys::check(unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) })
        .map_err(failed)?;
    let mut watch = Watch {
        // SAFETY: the descriptor was just made.
        inotify: unsafe { OwnedFd::from_raw_fd(fd) },
        paths: HashMap::new(),
        recursive,
    };
    // Only what can be reached without the runner's own descriptors (threat: links to the host).
    drop(open_plainly(path, libc::O_PATH, 0).map_err(failed)?);
    watch.add(path).map_err(failed)?;
    let cancel = mailbox.cancel_fd().map_err(failed)?;
    mailbox.send_event(&json!({ "event": "ready" }));
    let mut buffer = vec![0u8; 64 * 1024];
    loop {
        let mut polled = [
            poll_for(watch.inotify.as_raw_fd()),
            poll_for(cancel.as_raw_fd()),
        ];
        // SAFETY: polled is valid for its length.
        unsafe { libc::poll(polled.as_mut_ptr(), 2, -1) };
        if mailbox.cancelled() {
            return Err(Failure::cancelled());
        }
        match sys::read(watch.inotify.as_raw_fd(), &mut buffer) {
            Ok(n) => watch.tell(&buffer[..n], mailbox),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(failed(error)),
        }
    }
}

fn poll_for(fd: i32) -> libc::pollfd {
    libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    }
}

impl Watch {
    fn add(&mut self, path: &Path) -> io::Result<()> {
        let mut waiting = vec![path.to_path_buf()];
        let mut first = true;
        while let Some(path) = waiting.pop() {
            if self.paths.len() >= MAX_DIRECTORIES {
                return Err(io::Error::from_raw_os_error(libc::ENOSPC));
            }
            let c_path = sys::c_path(&path)?;
            // SAFETY: c_path is a valid C string.
            let added = sys::check(unsafe {
                libc::inotify_add_watch(self.inotify.as_raw_fd(), c_path.as_ptr(), MASK)
            });
            match added {
                Ok(id) => {
                    self.paths.insert(id, path.clone());
                }
                Err(error) if first => return Err(error),
                // A directory below may be gone again, or not accessible to us.
                Err(_) => continue,
            }
            first = false;
            if self.recursive
                && let Ok(dir) = open_directory(libc::AT_FDCWD, &c_path)
            {
                for_each_name(&dir, |name, kind| {
                    if kind == libc::DT_DIR {
                        waiting.push(path.join(std::ffi::OsStr::from_bytes(name)));
                    }
                })?;
            }
        }
        Ok(())
    }

    fn tell(&mut self, mut events: &[u8], mailbox: &Mailbox) {
        const HEAD: usize = std::mem::size_of::<libc::inotify_event>();
        while events.len() >= HEAD {
            // struct inotify_event: watch 4, mask 4, cookie 4, length of name 4.
            let word = |at: usize| {
                u32::from_ne_bytes([events[at], events[at + 1], events[at + 2], events[at + 3]])
            };
            let (id, mask, length) = (word(0) as i32, word(4), word(12) as usize);
            let name = &events[HEAD..HEAD + length];
            let name = &name[..name.iter().position(|b| *b == 0).unwrap_or(name.len())];
            self.tell_one(id, mask, name, mailbox);
            events = &events[HEAD + length..];
        }
    }

    fn tell_one(&mut self, id: i32, mask: u32, name: &[u8], mailbox: &Mailbox) {
        if mask & libc::IN_Q_OVERFLOW != 0 {
            mailbox.send_event(&json!({ "event": "change", "kind": "overflow", "path": "" }));
            return;
        }
        let Some(directory) = self.paths.get(&id).cloned() else {
            return;
        };
        if mask & libc::IN_IGNORED != 0 {
            self.paths.remove(&id);
            return;
        }
        // File calls create these and then rename them; watchers are told the final name.
        if is_unique_name(name) {
            return;
        }
        let path = if name.is_empty() {
            directory
        } else {
            directory.join(std::ffi::OsStr::from_bytes(name))
        };
        if self.recursive
            && mask & libc::IN_ISDIR != 0
            && mask & (libc::IN_CREATE | libc::IN_MOVED_TO) != 0
            && self.add(&path).is_err()
        {
            mailbox.send_event(&json!({ "event": "change", "kind": "overflow", "path": "" }));
        }
        let kind = if mask & libc::IN_CREATE != 0 {
            "create"
        } else if mask & (libc::IN_DELETE | libc::IN_DELETE_SELF) != 0 {
            "remove"
        } else if mask & (libc::IN_MOVED_FROM | libc::IN_MOVED_TO | libc::IN_MOVE_SELF) != 0 {
            "move"
        } else {
            "modify"
        };
        mailbox.send_droppable(&answer(&path, json!({ "event": "change", "kind": kind })));
    }
}
