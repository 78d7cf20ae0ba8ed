//! Packs a tree into a tar stream. Links are stored as links, never followed.

use super::entry::read_link_bytes;
use super::glob::Excluded;
use super::place::{answer, shown};
use super::tar::{BLOCK, Header, Kind};
use super::walk::{Visitor, walk};
use super::{is_kind, open_named_directory, open_searchable, stat_at, stat_fd};
use crate::protocol::failure::Failure;
use crate::protocol::message::OnUnreadable;
use crate::sys;
use crate::workers::Mailbox;
use serde_json::{Value, json};
use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A tree that claims to be larger than this (a sparse file can) is refused.
const MAX_BYTES: u64 = 64 << 30;
const PIECE: usize = 128 * 1024;
/// How many of the omitted entries are named.
const MAX_NAMED: usize = 20;

/// The tree is walked twice: first to find what cannot be packed, while the request can still fail
/// with an error, and then to pack it.
pub fn archive(
    path: &Path,
    exclude: &[String],
    on_unreadable: OnUnreadable,
    mailbox: &Mailbox,
) -> Result<Value, Failure> {
    let excluded = Excluded::parse(exclude)?;
    let mut scan = Packing::new(path, &excluded, on_unreadable, mailbox, false);
    scan.all()?;
    mailbox.send_event(&json!({
        "event": "archive",
        "unreadable": scan.unreadable,
        "unreadable_paths": scan.named,
    }));
    let mut packing = Packing::new(path, &excluded, on_unreadable, mailbox, true);
    packing.all()?;
    if packing.unreadable > scan.unreadable {
        // More entries are missing than were reported: the archive gets no end, so it is not
        // mistaken for a complete one.
        let message = format!("{} changed while it was being read; try again", shown(path));
        return Err(Failure::new("busy", message));
    }
    mailbox.send_data(&[0; 2 * BLOCK])?;
    Ok(json!({ "entries": packing.entries, "bytes": packing.bytes }))
}

struct Packing<'a> {
    path: &'a Path,
    excluded: &'a Excluded,
    on_unreadable: OnUnreadable,
    mailbox: &'a Mailbox,
    /// Otherwise this only checks whether everything could be sent.
    sends: bool,
    entries: u64,
    bytes: u64,
    unreadable: u64,
    named: Vec<Value>,
}

impl<'a> Packing<'a> {
    fn new(
        path: &'a Path,
        excluded: &'a Excluded,
        on_unreadable: OnUnreadable,
        mailbox: &'a Mailbox,
        sends: bool,
    ) -> Packing<'a> {
        Packing {
            path,
            excluded,
            on_unreadable,
            mailbox,
            sends,
            entries: 0,
            bytes: 0,
            unreadable: 0,
            named: Vec::new(),
        }
    }

    fn all(&mut self) -> Result<(), Failure> {
        let failed = |error: io::Error| Failure::io("archive", &shown(self.path), &error);
        let c_path = sys::c_path(self.path).map_err(failed)?;
        let found = stat_at(libc::AT_FDCWD, &c_path).map_err(failed)?;
        if is_kind(&found, libc::S_IFDIR) {
            let root = open_searchable(libc::AT_FDCWD, &c_path).map_err(failed)?;
            return walk(root, self.path, self);
        }
        let parent = self.path.parent().unwrap_or(Path::new("/"));
        let name = self.path.file_name().unwrap_or_default().as_bytes();
        let parent = open_named_directory(parent).map_err(failed)?;
        let c_name = sys::c_string(name).map_err(failed)?;
        self.pack(&parent, &c_name, name)
            .map_err(|error| error.failure(self.path))?;
        Ok(())
    }

    fn pack(
        &mut self,
        dir: &OwnedFd,
        name: &CString,
        path: &[u8],
    ) -> Result<Option<OwnedFd>, Problem> {
        let found = stat_at(dir.as_raw_fd(), name)?;
        let is_directory = is_kind(&found, libc::S_IFDIR);
        if self.excluded.contains(path, is_directory) {
            return Ok(None);
        }
        let mut header = Header {
            path: path.to_vec(),
            link: Vec::new(),
            kind: Kind::File,
            mode: found.st_mode & 0o777,
            size: 0,
            mtime: found.st_mtime,
        };
        match found.st_mode & libc::S_IFMT {
            libc::S_IFDIR => {
                let child = open_searchable(dir.as_raw_fd(), name)?;
                header.kind = Kind::Directory;
                header.path.push(b'/');
                self.send(&header)?;
                return Ok(Some(child));
            }
            libc::S_IFLNK => {
                header.kind = Kind::Symlink;
                header.link = read_link_bytes(dir.as_raw_fd(), name.as_bytes()).unwrap_or_default();
                self.send(&header)?;
            }
            libc::S_IFREG => self.file(dir, name, header)?,
            // Sockets, pipes and devices have no content to carry.
            _ => {}
        }
        Ok(None)
    }

    fn send(&mut self, header: &Header) -> Result<(), Failure> {
        self.entries += 1;
        if self.sends {
            self.mailbox.send_data(&header.encode())?;
        }
        Ok(())
    }

    fn file(&mut self, dir: &OwnedFd, name: &CString, mut header: Header) -> Result<(), Problem> {
        let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = sys::open_at(dir.as_raw_fd(), name, flags, 0)?;
        let found = stat_fd(file.as_raw_fd())?;
        if !is_kind(&found, libc::S_IFREG) {
            return Ok(());
        }
        header.size = found.st_size.max(0) as u64;
        if self.bytes.saturating_add(header.size) > MAX_BYTES {
            let message = format!(
                "{} holds more than {} GiB",
                shown(self.path),
                MAX_BYTES >> 30
            );
            return Err(Failure::new("too_large", message).into());
        }
        self.bytes += header.size;
        self.send(&header)?;
        if self.sends {
            self.content(&file, header.size)?;
        }
        Ok(())
    }

    fn content(&self, file: &OwnedFd, size: u64) -> Result<(), Problem> {
        let mut rest = size;
        let mut buffer = vec![0u8; PIECE];
        while rest > 0 {
            let wanted = rest.min(PIECE as u64) as usize;
            let n = sys::read(file.as_raw_fd(), &mut buffer[..wanted])?;
            if n == 0 {
                // The file became shorter: zeros fill up the size that the header promised.
                buffer.fill(0);
                self.mailbox.send_data(&buffer[..wanted])?;
                rest -= wanted as u64;
                continue;
            }
            self.mailbox.send_data(&buffer[..n])?;
            rest -= n as u64;
        }
        let padding = size.next_multiple_of(BLOCK as u64) - size;
        Ok(self.mailbox.send_data(&[0; BLOCK][..padding as usize])?)
    }
}

impl Visitor for Packing<'_> {
    fn visit(
        &mut self,
        dir: &OwnedFd,
        name: &CString,
        path: &[u8],
    ) -> Result<Option<OwnedFd>, Failure> {
        if self.mailbox.cancelled() {
            return Err(Failure::cancelled());
        }
        let error = match self.pack(dir, name, path) {
            Ok(child) => return Ok(child),
            Err(error) => error,
        };
        let full = self.path.join(OsStr::from_bytes(path));
        match error {
            // An entry that has vanished is not an error.
            Problem::Io(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Problem::Io(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                if matches!(self.on_unreadable, OnUnreadable::Fail) {
                    let message = format!(
                        "{} cannot be read; leave it out with `exclude`, or all such entries with `on_unreadable`",
                        shown(&full)
                    );
                    return Err(Failure::new("permission", message));
                }
                self.unreadable += 1;
                if self.named.len() < MAX_NAMED {
                    self.named.push(answer(&full, json!({})));
                }
                Ok(None)
            }
            error => Err(error.failure(&full)),
        }
    }
}

/// The error of one entry.
enum Problem {
    Io(io::Error),
    Failure(Failure),
}

impl Problem {
    fn failure(self, path: &Path) -> Failure {
        match self {
            Problem::Io(error) => Failure::io("archive", &shown(path), &error),
            Problem::Failure(failure) => failure,
        }
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Problem {
        Problem::Io(error)
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Problem {
        Problem::Failure(failure)
    }
}
