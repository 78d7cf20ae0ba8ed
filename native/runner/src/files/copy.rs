//! Copying files and trees. Links are copied as links, never followed.

use super::commit::take_turn;
use super::copy_content::copy_content;
use super::entry::read_link_bytes;
use super::place::{answer, require_directory_if_named, require_file_name, shown};
use super::read::not_regular;
use super::remove::{Trees, remove_tree};
use super::temporary::{Temporary, unique_name};
use super::walk::{Descent, Visitor, walk};
use super::write::exists;
use super::{
    identity, is_kind, open_directory, open_named_directory, open_searchable, stat_at, stat_fd,
    tree,
};
use crate::protocol::failure::Failure;
use crate::sys;
use crate::workers::Mailbox;
use serde_json::{Value, json};
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub fn copy(
    from: &Path,
    to: &Path,
    overwrite: bool,
    recursive: bool,
    mailbox: &Mailbox,
) -> Result<Value, Failure> {
    let failed = |error: io::Error| Failure::io("copy", &shown(from), &error);
    require_directory_if_named("copy", from)?;
    let (Some(parent), Some(name)) = (from.parent(), from.file_name()) else {
        return Err(Failure::invalid(format!(
            "{} cannot be copied",
            shown(from)
        )));
    };
    let parent = open_named_directory(parent).map_err(failed)?;
    let name = sys::c_string(name.as_bytes()).map_err(failed)?;
    let found = stat_at(parent.as_raw_fd(), &name).map_err(failed)?;
    let mut copied = Copied::default();
    match found.st_mode & libc::S_IFMT {
        libc::S_IFREG => {
            require_file_name("copy to", to)?;
            let source = open_source(&parent, &name).map_err(failed)?;
            copied.bytes = copy_file(
                source.ok_or_else(|| not_regular(from))?,
                to,
                overwrite,
                mailbox,
            )?;
            copied.entries = 1;
        }
        libc::S_IFLNK => {
            require_file_name("copy to", to)?;
            let target = read_link_bytes(parent.as_raw_fd(), name.as_bytes()).unwrap_or_default();
            copy_link(&target, to, overwrite)?;
            copied.entries = 1;
        }
        libc::S_IFDIR if !recursive => {
            let message = format!("{} is a directory; copy it with `recursive`", shown(from));
            return Err(Failure::new("is_directory", message));
        }
        libc::S_IFDIR => {
            let source = open_searchable(parent.as_raw_fd(), &name).map_err(failed)?;
            copied = copy_tree(source, from, to, overwrite, mailbox)?;
        }
        _ => return Err(not_regular(from)),
    }
    let Copied {
        entries,
        bytes,
        skipped,
    } = copied;
    Ok(answer(
        to,
        json!({ "entries": entries, "bytes": bytes, "skipped": skipped }),
    ))
}

#[derive(Default)]
struct Copied {
    entries: u64,
    bytes: u64,
    /// Pipes, sockets and devices.
    skipped: u64,
}

/// The target of a copy: its directory and its name there.
fn target_of(to: &Path) -> Result<(OwnedFd, CString), Failure> {
    let failed = |error: io::Error| Failure::io("copy to", &shown(to), &error);
    let (Some(parent), Some(name)) = (to.parent(), to.file_name()) else {
        return Err(exists(to));
    };
    let parent = open_named_directory(parent).map_err(failed)?;
    Ok((parent, sys::c_string(name.as_bytes()).map_err(failed)?))
}

fn not_placed(to: &Path, error: &io::Error) -> Failure {
    if error.kind() == io::ErrorKind::AlreadyExists {
        return exists(to);
    }
    Failure::io("copy to", &shown(to), error)
}

/// Copies an open file. Readers see either the old file or the complete new one.
pub fn copy_file(
    source: OwnedFd,
    to: &Path,
    overwrite: bool,
    mailbox: &Mailbox,
) -> Result<u64, Failure> {
    let failed = |error: io::Error| Failure::io("copy to", &shown(to), &error);
    let found = stat_fd(source.as_raw_fd()).map_err(failed)?;
    let (_, name) = target_of(to)?;
    let parent = to.parent().unwrap_or(Path::new("/"));
    let temporary = Temporary::create(parent, found.st_mode & 0o777)?;
    let bytes = copy_content(&source, &temporary.file, found.st_size, mailbox)
        .map_err(|error| given_up(mailbox, failed(error)))?;
    let _turn = take_turn();
    let placed = temporary.become_file(&name, overwrite);
    placed.map_err(|error| not_placed(to, &error))?;
    Ok(bytes)
}

fn given_up(mailbox: &Mailbox, failure: Failure) -> Failure {
    if mailbox.cancelled() {
        Failure::cancelled()
    } else {
        failure
    }
}

fn copy_link(target: &[u8], to: &Path, overwrite: bool) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::io("copy to", &shown(to), &error);
    let (parent, name) = target_of(to)?;
    let temporary = unique_name().map_err(failed)?;
    make_link(target, parent.as_raw_fd(), &temporary).map_err(failed)?;
    let _turn = take_turn();
    let dir = parent.as_raw_fd();
    tree::rename_at(dir, &temporary, dir, &name, overwrite).map_err(|error| {
        // SAFETY: the name is a valid C string.
        unsafe { libc::unlinkat(dir, temporary.as_ptr(), 0) };
        not_placed(to, &error)
    })
}

fn make_link(target: &[u8], dir: RawFd, name: &CStr) -> io::Result<()> {
    let target = sys::c_string(target)?;
    // SAFETY: both are valid C strings.
    sys::check(unsafe { libc::symlinkat(target.as_ptr(), dir, name.as_ptr()) }).map(drop)
}

/// `None` if it is not a regular file any more.
fn open_source(dir: &OwnedFd, name: &CStr) -> io::Result<Option<OwnedFd>> {
    let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = sys::open_at(dir.as_raw_fd(), name, flags, 0)?;
    let found = stat_fd(file.as_raw_fd())?;
    Ok(is_kind(&found, libc::S_IFREG).then_some(file))
}

/// The copy is written under a temporary name and renamed when it is complete.
fn copy_tree(
    source: OwnedFd,
    from: &Path,
    to: &Path,
    overwrite: bool,
    mailbox: &Mailbox,
) -> Result<Copied, Failure> {
    let failed = |error: io::Error| Failure::io("copy to", &shown(to), &error);
    let (parent, name) = target_of(to)?;
    let dir = parent.as_raw_fd();
    if !overwrite && stat_at(dir, &name).is_ok() {
        return Err(exists(to));
    }
    let mode = stat_fd(source.as_raw_fd()).map_err(failed)?.st_mode & 0o777;
    let temporary = unique_name().map_err(failed)?;
    let root = make_directory(dir, &temporary).map_err(failed)?;
    let outcome = fill(source, root, mode, from, mailbox).and_then(|copied| {
        let _turn = take_turn();
        tree::rename_at(dir, &temporary, dir, &name, overwrite)
            .map_err(|error| not_placed(to, &error))?;
        Ok(copied)
    });
    if outcome.is_err() {
        // Also after a cancelled request: an incomplete copy must not stay.
        remove_tree(parent, temporary, to, Trees::Unlocked, &|| false)?;
    }
    outcome
}

fn make_directory(dir: RawFd, name: &CStr) -> io::Result<OwnedFd> {
    // SAFETY: name is a valid C string.
    sys::check(unsafe { libc::mkdirat(dir, name.as_ptr(), 0o700) })?;
    open_directory(dir, name)
}

fn fill(
    source: OwnedFd,
    root: OwnedFd,
    mode: u32,
    from: &Path,
    mailbox: &Mailbox,
) -> Result<Copied, Failure> {
    let failed = |error: io::Error| Failure::io("copy", &shown(from), &error);
    let mut copying = Copying {
        root: identity(&root).map_err(failed)?,
        target: Descent::at(root),
        modes: Vec::new(),
        from,
        copied: Copied::default(),
        mailbox,
    };
    walk(source, from, &mut copying)?;
    set_mode(copying.target.directory(), mode).map_err(failed)?;
    copying.copied.entries += 1;
    Ok(copying.copied)
}

fn set_mode(dir: &OwnedFd, mode: u32) -> io::Result<()> {
    // SAFETY: plain system call on a descriptor that we own.
    sys::check(unsafe { libc::fchmod(dir.as_raw_fd(), mode) }).map(drop)
}

struct Copying<'a> {
    /// The copy's own root, which the source must not contain.
    root: (u64, u64),
    target: Descent,
    /// The modes of directories being filled, which may become read-only only afterwards.
    modes: Vec<u32>,
    from: &'a Path,
    copied: Copied,
    mailbox: &'a Mailbox,
}

impl Visitor for Copying<'_> {
    fn visit(
        &mut self,
        dir: &OwnedFd,
        name: &CString,
        path: &[u8],
    ) -> Result<Option<OwnedFd>, Failure> {
        if self.mailbox.cancelled() {
            return Err(Failure::cancelled());
        }
        let shown = shown(&self.from.join(std::ffi::OsStr::from_bytes(path)));
        let failed = |error: io::Error| Failure::io("copy", &shown, &error);
        let found = match stat_at(dir.as_raw_fd(), name) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let target = self.target.directory();
        self.copied.entries += 1;
        match found.st_mode & libc::S_IFMT {
            libc::S_IFDIR => {
                if (found.st_dev, found.st_ino) == self.root {
                    let whole = super::place::shown(self.from);
                    let message = format!("{whole} cannot be copied into itself");
                    return Err(Failure::invalid(message));
                }
                let child = open_searchable(dir.as_raw_fd(), name).map_err(failed)?;
                let copy = make_directory(target.as_raw_fd(), name).map_err(failed)?;
                self.modes.push(found.st_mode & 0o777);
                self.target.down(copy).map_err(failed)?;
                return Ok(Some(child));
            }
            libc::S_IFLNK => {
                let link = read_link_bytes(dir.as_raw_fd(), name.as_bytes()).unwrap_or_default();
                make_link(&link, target.as_raw_fd(), name).map_err(failed)?;
            }
            libc::S_IFREG => match open_source(dir, name).map_err(failed)? {
                Some(source) => self
                    .file(&source, name)
                    .map_err(|error| given_up(self.mailbox, Failure::io("copy", &shown, &error)))?,
                None => self.skip(),
            },
            _ => self.skip(),
        }
        Ok(None)
    }

    fn leave(&mut self) -> Result<(), Failure> {
        let failed = |error: io::Error| Failure::io("copy", &shown(self.from), &error);
        let filled = self.target.directory().try_clone().map_err(failed)?;
        self.target.up(self.from)?;
        set_mode(&filled, self.modes.pop().unwrap_or(0o700)).map_err(failed)
    }
}

impl Copying<'_> {
    fn skip(&mut self) {
        self.copied.entries -= 1;
        self.copied.skipped += 1;
    }

    fn file(&mut self, source: &OwnedFd, name: &CStr) -> io::Result<()> {
        let found = stat_fd(source.as_raw_fd())?;
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
        let dir = self.target.directory().as_raw_fd();
        let target = sys::open_at(dir, name, flags, 0o600)?;
        self.copied.bytes += copy_content(source, &target, found.st_size, self.mailbox)?;
        set_mode(&target, found.st_mode & 0o777)
    }
}
