//! Packing a tree into a tar stream. Links are stored as links, never followed.

use super::entry::read_link_bytes;
use super::tar::{BLOCK, Header, Kind};
use super::{
    for_each_name, is_kind, open_directory, open_named_directory, shown, stat_at, stat_fd,
};
use crate::error::Failure;
use crate::sys;
use crate::worker::Mailbox;
use serde_json::{Value, json};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A tree that claims to be larger than this (a sparse file can) is refused.
const MAX_BYTES: u64 = 64 << 30;
const PIECE: usize = 128 * 1024;

pub fn archive(path: &Path, mailbox: &Mailbox) -> Result<Value, Failure> {
    let failed = |error: io::Error| Failure::io("archive", &shown(path), &error);
    let c_path = sys::c_path(path).map_err(failed)?;
    let mut archive = Archive {
        mailbox,
        entries: 0,
        bytes: 0,
        path,
    };
    let found = stat_at(libc::AT_FDCWD, &c_path).map_err(failed)?;
    if is_kind(&found, libc::S_IFDIR) {
        let root = open_directory(libc::AT_FDCWD, &c_path).map_err(failed)?;
        archive.tree(root)?;
    } else {
        let parent = path.parent().unwrap_or(Path::new("/"));
        let name = path.file_name().unwrap_or_default().as_bytes();
        let parent = open_named_directory(parent).map_err(failed)?;
        archive.one(&parent, name, name)?;
    }
    mailbox.send_data(&[0; 2 * BLOCK])?;
    Ok(json!({ "entries": archive.entries, "bytes": archive.bytes }))
}

struct Archive<'a> {
    mailbox: &'a Mailbox,
    entries: u64,
    bytes: u64,
    path: &'a Path,
}

impl Archive<'_> {
    fn failed(&self, error: &io::Error) -> Failure {
        Failure::io("archive", &shown(self.path), error)
    }

    /// Goes down and up with one descriptor, so that depth costs none.
    fn tree(&mut self, root: OwnedFd) -> Result<(), Failure> {
        let mut here = root;
        let mut trail: Vec<(u64, u64, usize)> = Vec::new();
        let mut levels = vec![self.names(&here)?];
        let mut prefix: Vec<u8> = Vec::new();
        loop {
            let Some(names) = levels.last_mut() else {
                return Ok(());
            };
            let Some(name) = names.pop() else {
                levels.pop();
                let Some((dev, ino, length)) = trail.pop() else {
                    return Ok(());
                };
                prefix.truncate(length);
                here =
                    open_directory(here.as_raw_fd(), c"..").map_err(|error| self.failed(&error))?;
                let back = stat_fd(here.as_raw_fd()).map_err(|error| self.failed(&error))?;
                if (back.st_dev, back.st_ino) != (dev, ino) {
                    let message = format!("{} changed while it was read", shown(self.path));
                    return Err(Failure::new("busy", message));
                }
                continue;
            };
            let length = prefix.len();
            let full = [prefix.as_slice(), &name].concat();
            if let Some(child) = self.one(&here, &name, &full)? {
                let above = stat_fd(here.as_raw_fd()).map_err(|error| self.failed(&error))?;
                trail.push((above.st_dev, above.st_ino, length));
                levels.push(self.names(&child)?);
                prefix.extend_from_slice(&name);
                prefix.push(b'/');
                here = child;
            }
        }
    }

    fn names(&self, dir: &OwnedFd) -> Result<Vec<Vec<u8>>, Failure> {
        let mut names = Vec::new();
        for_each_name(dir, |name, _| names.push(name.to_vec()))
            .map_err(|error| self.failed(&error))?;
        names.sort_unstable_by(|a, b| b.cmp(a));
        Ok(names)
    }

    /// Writes one entry; gives a directory to go into.
    fn one(&mut self, dir: &OwnedFd, name: &[u8], full: &[u8]) -> Result<Option<OwnedFd>, Failure> {
        if self.mailbox.cancelled() {
            return Err(Failure::cancelled());
        }
        let c_name = sys::c_string(name).map_err(|error| self.failed(&error))?;
        let found = match stat_at(dir.as_raw_fd(), &c_name) {
            Ok(found) => found,
            // It vanished meanwhile, which is nobody's fault.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failed(&error)),
        };
        let mut header = Header {
            path: full.to_vec(),
            link: Vec::new(),
            kind: Kind::File,
            mode: found.st_mode & 0o777,
            size: 0,
            mtime: found.st_mtime,
        };
        match found.st_mode & libc::S_IFMT {
            libc::S_IFDIR => {
                let child = open_directory(dir.as_raw_fd(), &c_name)
                    .map_err(|error| self.failed(&error))?;
                header.kind = Kind::Directory;
                header.path.push(b'/');
                self.send(&header)?;
                return Ok(Some(child));
            }
            libc::S_IFLNK => {
                header.kind = Kind::Symlink;
                header.link = read_link_bytes(dir.as_raw_fd(), name).unwrap_or_default();
                self.send(&header)?;
            }
            libc::S_IFREG => self.file(dir, &c_name, header)?,
            // Sockets, pipes and devices have no content to carry.
            _ => {}
        }
        Ok(None)
    }

    fn send(&mut self, header: &Header) -> Result<(), Failure> {
        self.entries += 1;
        self.mailbox.send_data(&header.encode())
    }

    fn file(
        &mut self,
        dir: &OwnedFd,
        name: &std::ffi::CString,
        mut header: Header,
    ) -> Result<(), Failure> {
        let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let file =
            sys::open_at(dir.as_raw_fd(), name, flags, 0).map_err(|error| self.failed(&error))?;
        let found = stat_fd(file.as_raw_fd()).map_err(|error| self.failed(&error))?;
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
            return Err(Failure::new("too_large", message));
        }
        self.send(&header)?;
        let mut rest = header.size;
        let mut buffer = vec![0u8; PIECE];
        while rest > 0 {
            let wanted = rest.min(PIECE as u64) as usize;
            let n = sys::read(file.as_raw_fd(), &mut buffer[..wanted])
                .map_err(|error| self.failed(&error))?;
            if n == 0 {
                // The file became shorter: the header's promise is kept with zeros.
                buffer.fill(0);
                self.mailbox.send_data(&buffer[..wanted])?;
                rest -= wanted as u64;
                continue;
            }
            self.mailbox.send_data(&buffer[..n])?;
            rest -= n as u64;
        }
        self.bytes += header.size;
        let padding = header.size.next_multiple_of(BLOCK as u64) - header.size;
        self.mailbox.send_data(&[0; BLOCK][..padding as usize])
    }
}
