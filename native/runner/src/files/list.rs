//! Lists directories page by page, in bounded memory however large they are.

use super::entry::{entry, read_link};
use super::place::shown;
use super::{
    for_each_name, is_kind, open_directory, open_named_directory, open_searchable,
    require_searchable, stat_at,
};
use crate::protocol::base64;
use crate::protocol::failure::Failure;
use crate::protocol::message::Entry;
use crate::sys;
use crate::workers::Mailbox;
use serde_json::{Value, json};
use std::collections::BinaryHeap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const MAX_LIMIT: usize = 1000;
/// A page stays well below the size of a frame.
const MAX_PAGE_BYTES: usize = 512 * 1024;
/// Paths are opened in pieces no longer than this, because the kernel accepts at most 4096 bytes.
const MAX_OPEN_BYTES: usize = 2048;

/// A directory on the way down, with the names still to be listed, last first.
struct Level {
    names: Vec<Vec<u8>>,
}

/// The position of the listing: the components of the last listed path.
type After = Vec<Vec<u8>>;

pub fn list(
    path: &Path,
    recursive: bool,
    limit: Option<usize>,
    cursor: Option<&str>,
    mailbox: &Mailbox,
) -> Result<Value, Failure> {
    let failed = |error: io::Error| Failure::io("list", &shown(path), &error);
    let limit = limit.unwrap_or(MAX_LIMIT).clamp(1, MAX_LIMIT);
    let after = parse_cursor(cursor)?;
    let root = open_named_directory(path).map_err(failed)?;
    require_searchable(&root).map_err(failed)?;
    let mut walk = Walk::begin(root, recursive, limit, &after).map_err(failed)?;
    let mut entries: Vec<Entry> = Vec::new();
    let mut bytes = 0;
    let mut last: Option<Vec<u8>> = None;
    let mut more = false;
    while let Some(relative) = walk.peek() {
        if entries.len() == limit || bytes > MAX_PAGE_BYTES {
            more = true;
            break;
        }
        if mailbox.cancelled() {
            return Err(Failure::cancelled());
        }
        // Entries that vanished after they were listed are omitted.
        if let Some(found) = walk.take(path) {
            bytes += serde_json::to_vec(&found).map_or(0, |json| json.len());
            entries.push(found);
            last = Some(relative);
        }
    }
    match last.filter(|_| more) {
        Some(last) => Ok(json!({ "entries": entries, "next_cursor": base64::encode(&last) })),
        None => Ok(json!({ "entries": entries })),
    }
}

fn parse_cursor(cursor: Option<&str>) -> Result<After, Failure> {
    let Some(cursor) = cursor else {
        return Ok(Vec::new());
    };
    let bytes = base64::decode(cursor).ok_or_else(|| Failure::invalid("bad cursor"))?;
    if bytes.is_empty() || bytes.contains(&0) {
        return Err(Failure::invalid("bad cursor"));
    }
    let components: After = bytes.split(|b| *b == b'/').map(<[u8]>::to_vec).collect();
    let tricky = |c: &Vec<u8>| c.is_empty() || c.as_slice() == b"." || c.as_slice() == b"..";
    if components.iter().any(tricky) {
        return Err(Failure::invalid("bad cursor"));
    }
    Ok(components)
}

/// A walk in which a directory comes before its contents and names come in byte order. Only the
/// current directory is open, so depth costs no descriptors.
struct Walk {
    root: OwnedFd,
    recursive: bool,
    limit: usize,
    levels: Vec<Level>,
    trail: Vec<Vec<u8>>,
    here: OwnedFd,
}

impl Walk {
    fn begin(root: OwnedFd, recursive: bool, limit: usize, after: &After) -> io::Result<Walk> {
        let here = root.try_clone()?;
        let mut walk = Walk {
            root,
            recursive,
            limit,
            levels: Vec::new(),
            trail: Vec::new(),
            here,
        };
        let first = after.first().map(Vec::as_slice);
        walk.levels.push(Level {
            names: names_after(&walk.here, first, limit)?,
        });
        // Descends to where the last page ended; entries that have been removed since are skipped.
        for (depth, component) in after.iter().enumerate() {
            if !recursive || walk.descend(component, after.get(depth + 1)).is_err() {
                break;
            }
        }
        Ok(walk)
    }

    fn descend(&mut self, name: &[u8], after: Option<&Vec<u8>>) -> io::Result<()> {
        let child = open_searchable(self.here.as_raw_fd(), &sys::c_string(name)?)?;
        let names = names_after(&child, after.map(Vec::as_slice), self.limit)?;
        self.here = child;
        self.trail.push(name.to_vec());
        self.levels.push(Level { names });
        Ok(())
    }

    /// The path of the next entry, below the root.
    fn peek(&mut self) -> Option<Vec<u8>> {
        while self.levels.last()?.names.is_empty() {
            self.levels.pop();
            self.trail.pop();
            if self.levels.is_empty() {
                return None;
            }
            match self.reopen() {
                Ok(here) => self.here = here,
                // The tree was removed during the walk.
                Err(_) => return None,
            }
        }
        let name = self.levels.last()?.names.last()?;
        Some(join(&self.trail, name))
    }

    fn take(&mut self, base: &Path) -> Option<Entry> {
        let name = self.levels.last_mut()?.names.pop()?;
        let found = stat_at(self.here.as_raw_fd(), &sys::c_string(&name).ok()?).ok()?;
        let path: PathBuf = base.join(OsStr::from_bytes(&join(&self.trail, &name)));
        let target = read_link(self.here.as_raw_fd(), &name, &found);
        let mut listed = entry(&path, &found, target);
        if self.recursive && is_kind(&found, libc::S_IFDIR) {
            // A directory that may not be read is listed and marked, without its contents.
            listed.unreadable = self
                .descend(&name, None)
                .is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied);
        }
        Some(listed)
    }

    fn reopen(&self) -> io::Result<OwnedFd> {
        let mut here = self.root.try_clone()?;
        let mut piece: Vec<u8> = Vec::new();
        for (index, name) in self.trail.iter().enumerate() {
            if !piece.is_empty() {
                piece.push(b'/');
            }
            piece.extend_from_slice(name);
            if piece.len() > MAX_OPEN_BYTES || index + 1 == self.trail.len() {
                here = open_directory(here.as_raw_fd(), &sys::c_string(&piece)?)?;
                piece.clear();
            }
        }
        Ok(here)
    }
}

fn join(trail: &[Vec<u8>], name: &[u8]) -> Vec<u8> {
    let mut path = trail.join(&b'/');
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// The first names after a given one, as many as a page can need, in descending order.
fn names_after(dir: &OwnedFd, after: Option<&[u8]>, limit: usize) -> io::Result<Vec<Vec<u8>>> {
    let mut smallest: BinaryHeap<Vec<u8>> = BinaryHeap::new();
    for_each_name(dir, |name, _| {
        if after.is_some_and(|after| name <= after) {
            return;
        }
        if smallest.len() <= limit {
            smallest.push(name.to_vec());
        } else if smallest
            .peek()
            .is_some_and(|largest| name < largest.as_slice())
        {
            smallest.pop();
            smallest.push(name.to_vec());
        }
    })?;
    let mut names = smallest.into_sorted_vec();
    names.reverse();
    Ok(names)
}
