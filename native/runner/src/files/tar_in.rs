//! Unpacks a tar stream below a directory, and nowhere else.

use super::place::shown;
use super::tar::{BLOCK, Header, Kind, pax_records};
use super::{open_directory, open_named_directory, tree};
use crate::protocol::failure::Failure;
use crate::sys;
use crate::workers::Mailbox;
use serde_json::{Value, json};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

const DEFAULT_MAX_BYTES: u64 = 64 << 30;
const DEFAULT_MAX_ENTRIES: u64 = 10_000_000;
/// Extended headers and long names are held in memory.
const MAX_META_BYTES: u64 = 1 << 20;

pub fn extract(
    path: &Path,
    max_bytes: Option<u64>,
    max_entries: Option<u64>,
    mailbox: &Mailbox,
) -> Result<Value, Failure> {
    let failed = |error: io::Error| Failure::io("unpack into", &shown(path), &error);
    tree::make_parents(path)?;
    let root = open_named_directory(path).map_err(failed)?;
    let mut unpacking = Unpacking {
        body: Body {
            mailbox,
            buffer: Vec::new(),
            at: 0,
        },
        root,
        max_bytes: max_bytes.unwrap_or(DEFAULT_MAX_BYTES),
        max_entries: max_entries.unwrap_or(DEFAULT_MAX_ENTRIES),
        entries: 0,
        bytes: 0,
    };
    unpacking.run()?;
    Ok(json!({ "entries": unpacking.entries, "bytes": unpacking.bytes }))
}

/// What compressed files have at an offset. An archive begins with a name, which may be `BZh`.
const COMPRESSED: [(&str, usize, &[u8]); 4] = [
    ("gzip", 0, b"\x1f\x8b"),
    ("bzip2", 4, b"1AY&SY"),
    ("xz", 0, b"\xfd7zXZ"),
    ("zstd", 0, b"\x28\xb5\x2f\xfd"),
];
const MAGIC_BYTES: usize = 10;

/// The archive's bytes.
struct Body<'a> {
    mailbox: &'a Mailbox,
    buffer: Vec<u8>,
    at: usize,
}

impl Body<'_> {
    /// At least one byte, at most `limit`; empty at the end.
    fn some(&mut self, limit: usize) -> Result<&[u8], Failure> {
        if self.at == self.buffer.len() {
            self.buffer = self.mailbox.receive()?.unwrap_or_default();
            self.at = 0;
        }
        let end = self.buffer.len().min(self.at.saturating_add(limit));
        let piece = &self.buffer[self.at..end];
        self.at = end;
        Ok(piece)
    }

    /// A compressed archive would only seem to be damaged.
    fn require_uncompressed(&mut self) -> Result<(), Failure> {
        while self.buffer.len() < MAGIC_BYTES {
            let Some(more) = self.mailbox.receive()? else {
                break;
            };
            self.buffer.extend_from_slice(&more);
        }
        let has = |at: usize, magic: &[u8]| {
            let there = self.buffer.get(at..).unwrap_or_default();
            there.starts_with(magic)
        };
        match COMPRESSED.iter().find(|(_, at, magic)| has(*at, magic)) {
            None => Ok(()),
            Some((name, ..)) => Err(Failure::invalid(format!(
                "the archive is compressed with {name}; send it uncompressed"
            ))),
        }
    }

    /// Exactly one block; `None` if the archive ends before it.
    fn block(&mut self) -> Result<Option<[u8; BLOCK]>, Failure> {
        let mut block = [0u8; BLOCK];
        let mut filled = 0;
        while filled < BLOCK {
            let piece = self.some(BLOCK - filled)?;
            if piece.is_empty() {
                return if filled == 0 { Ok(None) } else { Err(cut()) };
            }
            block[filled..filled + piece.len()].copy_from_slice(piece);
            filled += piece.len();
        }
        Ok(Some(block))
    }

    /// Passes an entry's content to a consumer and skips its padding.
    fn content(
        &mut self,
        size: u64,
        mut consume: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut rest = size;
        while rest > 0 {
            let piece = self.some(usize::try_from(rest).unwrap_or(usize::MAX))?;
            if piece.is_empty() {
                return Err(cut());
            }
            rest -= piece.len() as u64;
            consume(piece)?;
        }
        let mut padding = (size.next_multiple_of(BLOCK as u64) - size) as usize;
        while padding > 0 {
            let n = self.some(padding)?.len();
            if n == 0 {
                return Err(cut());
            }
            padding -= n;
        }
        Ok(())
    }
}

fn cut() -> Failure {
    Failure::invalid("the archive is truncated")
}

struct Unpacking<'a> {
    body: Body<'a>,
    root: OwnedFd,
    max_bytes: u64,
    max_entries: u64,
    entries: u64,
    bytes: u64,
}

/// Attributes of the next entry, from extended headers.
#[derive(Default)]
struct Override {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
}

impl Unpacking<'_> {
    fn run(&mut self) -> Result<(), Failure> {
        self.body.require_uncompressed()?;
        let mut next = Override::default();
        while let Some(block) = self.body.block()? {
            let header = Header::parse(&block)
                .map_err(|problem| Failure::invalid(format!("not a tar archive: {problem}")))?;
            let Some(mut header) = header else {
                break;
            };
            match header.kind {
                Kind::Pax => self.take_pax(header.size, &mut next)?,
                Kind::PaxGlobal => self.body.content(header.size, |_| Ok(()))?,
                Kind::LongName => next.path = Some(self.meta_text(header.size)?),
                Kind::LongLink => next.link = Some(self.meta_text(header.size)?),
                _ => {
                    let said = std::mem::take(&mut next);
                    header.path = said.path.unwrap_or(header.path);
                    header.link = said.link.unwrap_or(header.link);
                    header.size = said.size.unwrap_or(header.size);
                    self.entry(&header)?;
                }
            }
        }
        // The bytes after the end are padding; reading them keeps the sender from blocking.
        while !self.body.some(usize::MAX)?.is_empty() {}
        Ok(())
    }

    fn meta(&mut self, size: u64) -> Result<Vec<u8>, Failure> {
        if size > MAX_META_BYTES {
            return Err(Failure::new("too_large", "an extended header is too large"));
        }
        let mut data = Vec::new();
        self.body.content(size, |piece| {
            data.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(data)
    }

    fn meta_text(&mut self, size: u64) -> Result<Vec<u8>, Failure> {
        let mut text = self.meta(size)?;
        let end = text.iter().position(|b| *b == 0).unwrap_or(text.len());
        text.truncate(end);
        Ok(text)
    }

    fn take_pax(&mut self, size: u64, next: &mut Override) -> Result<(), Failure> {
        let data = self.meta(size)?;
        let records = pax_records(&data).map_err(Failure::invalid)?;
        for (key, value) in records {
            match key.as_slice() {
                b"path" => next.path = Some(value),
                b"linkpath" => next.link = Some(value),
                b"size" => {
                    let size = std::str::from_utf8(&value)
                        .ok()
                        .and_then(|v| v.parse().ok());
                    next.size = Some(size.ok_or_else(|| Failure::invalid("bad pax size"))?);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn entry(&mut self, header: &Header) -> Result<(), Failure> {
        self.entries += 1;
        if self.entries > self.max_entries {
            return Err(Failure::new(
                "too_large",
                "the archive has too many entries",
            ));
        }
        let path = components(&header.path)?;
        let Some((name, parents)) = path.split_last() else {
            // The directory itself.
            return self.body.content(header.size, |_| Ok(()));
        };
        let shown = String::from_utf8_lossy(&header.path).into_owned();
        let failed = |error: io::Error| Failure::io("unpack", &shown, &error);
        let parent = self.descend(parents, true).map_err(failed)?;
        let dir = parent.as_raw_fd();
        match header.kind {
            Kind::Directory => {
                self.body.content(header.size, |_| Ok(()))?;
                make_directory(dir, name, header.mode & 0o777).map_err(failed)
            }
            Kind::File => self.file(dir, name, header, &shown),
            Kind::Symlink => {
                self.body.content(header.size, |_| Ok(()))?;
                let target = sys::c_string(&header.link).map_err(failed)?;
                replace(dir, name).map_err(failed)?;
                // SAFETY: both are valid C strings.
                sys::check(unsafe { libc::symlinkat(target.as_ptr(), dir, name.as_ptr()) })
                    .map(drop)
                    .map_err(failed)
            }
            Kind::HardLink => {
                self.body.content(header.size, |_| Ok(()))?;
                self.hard_link(dir, name, header).map_err(failed)
            }
            _ => {
                let message = format!("{shown}: devices and special files are refused");
                Err(Failure::new("permission", message))
            }
        }
    }

    fn file(
        &mut self,
        dir: i32,
        name: &CString,
        header: &Header,
        shown: &str,
    ) -> Result<(), Failure> {
        self.bytes = self.bytes.saturating_add(header.size);
        if self.bytes > self.max_bytes {
            return Err(Failure::new(
                "too_large",
                "the archive holds too many bytes",
            ));
        }
        let failed = |error: io::Error| Failure::io("unpack", shown, &error);
        replace(dir, name).map_err(failed)?;
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
        let file = sys::open_at(dir, name, flags, 0o600).map_err(failed)?;
        self.body.content(header.size, |mut piece| {
            while !piece.is_empty() {
                let n = sys::write(file.as_raw_fd(), piece).map_err(failed)?;
                piece = &piece[n..];
            }
            Ok(())
        })?;
        // SECURITY: set-id bits are dropped (threat: hostile archives and images).
        // SAFETY: plain system call on a descriptor that we own.
        sys::check(unsafe { libc::fchmod(file.as_raw_fd(), header.mode & 0o777) })
            .map_err(failed)?;
        let time = libc::timespec {
            tv_sec: header.mtime,
            tv_nsec: 0,
        };
        // SAFETY: the array has the two times that are read.
        unsafe { libc::futimens(file.as_raw_fd(), [time, time].as_ptr()) };
        Ok(())
    }

    fn hard_link(&self, dir: i32, name: &CString, header: &Header) -> io::Result<()> {
        let invalid = || io::Error::from_raw_os_error(libc::EINVAL);
        let target = components(&header.link).map_err(|_| invalid())?;
        let (target_name, parents) = target.split_last().ok_or_else(invalid)?;
        let target_dir = self.descend(parents, false)?;
        let found = super::stat_at(target_dir.as_raw_fd(), target_name)?;
        if !super::is_kind(&found, libc::S_IFREG) {
            return Err(invalid());
        }
        replace(dir, name)?;
        // SAFETY: both are valid C strings; without flags no link is followed.
        sys::check(unsafe {
            libc::linkat(
                target_dir.as_raw_fd(),
                target_name.as_ptr(),
                dir,
                name.as_ptr(),
                0,
            )
        })
        .map(drop)
    }

    /// Opens a directory below the root, one component after the other.
    ///
    /// SECURITY: no component may be a link, so that no entry lands outside, whatever links earlier
    /// entries created (threat: hostile archives and images).
    fn descend(&self, components: &[CString], make: bool) -> io::Result<OwnedFd> {
        let mut here = self.root.try_clone()?;
        for name in components {
            here = match open_directory(here.as_raw_fd(), name) {
                Err(error) if make && error.kind() == io::ErrorKind::NotFound => {
                    make_directory(here.as_raw_fd(), name, 0o755)?;
                    open_directory(here.as_raw_fd(), name)?
                }
                opened => opened?,
            };
        }
        Ok(here)
    }
}

/// The components of a path; leading slashes and `.` are ignored, `..` is refused.
fn components(path: &[u8]) -> Result<Vec<CString>, Failure> {
    let mut parts = Vec::new();
    for part in path.split(|b| *b == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                let shown = String::from_utf8_lossy(path).into_owned();
                return Err(Failure::invalid(format!("{shown}: leads outside")));
            }
            part => parts
                .push(sys::c_string(part).map_err(|_| Failure::invalid("a name has a NUL byte"))?),
        }
    }
    Ok(parts)
}

fn make_directory(dir: i32, name: &CString, mode: u32) -> io::Result<()> {
    // SAFETY: name is a valid C string.
    match sys::check(unsafe { libc::mkdirat(dir, name.as_ptr(), 0o700) }) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let found = super::stat_at(dir, name)?;
            if !super::is_kind(&found, libc::S_IFDIR) {
                return Err(error);
            }
        }
        Err(error) => return Err(error),
    }
    // The owner can always continue to unpack below it.
    // SAFETY: as above; the entry is a directory, so no link is followed.
    sys::check(unsafe { libc::fchmodat(dir, name.as_ptr(), mode | 0o700, 0) }).map(drop)
}

/// Removes whatever is in the place of an entry.
fn replace(dir: i32, name: &CString) -> io::Result<()> {
    // SAFETY: name is a valid C string.
    match sys::check(unsafe { libc::unlinkat(dir, name.as_ptr(), 0) }) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}
