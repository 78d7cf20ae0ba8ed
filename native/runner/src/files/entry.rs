//! The description of a file.

use super::place::{answer, raw, shown};
use super::{is_kind, open_itself, open_plainly, stat_fd};
use crate::protocol::failure::Failure;
use crate::protocol::message::Entry;
use crate::sys;
use serde_json::{Value, json};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

pub fn stat(path: &Path, follow: bool) -> Result<Value, Failure> {
    let failed = |error| Failure::io("stat", &shown(path), &error);
    let file = if follow {
        open_plainly(path, libc::O_PATH, 0)
    } else {
        open_itself(path)
    };
    let file = file.map_err(failed)?;
    let found = stat_fd(file.as_raw_fd()).map_err(failed)?;
    // With an empty name, the call reads the link that the descriptor itself refers to.
    let target = read_link(file.as_raw_fd(), b"", &found);
    Ok(json!({ "entry": entry(path, &found, target) }))
}

/// The path without links, `.` and `..`, as the kernel names the open file.
pub fn resolve(path: &Path) -> Result<Value, Failure> {
    let failed = |error| Failure::io("resolve", &shown(path), &error);
    let file = open_plainly(path, libc::O_PATH, 0).map_err(failed)?;
    let found = stat_fd(file.as_raw_fd()).map_err(failed)?;
    if found.st_nlink == 0 {
        // Removed since it was opened: the kernel's name for it is no longer a path.
        return Err(failed(io::Error::from_raw_os_error(libc::ENOENT)));
    }
    let resolved = opened_path(file.as_raw_fd(), &found)
        .ok_or_else(|| Failure::new("unsupported", format!("{} has no path", shown(path))))?;
    Ok(answer(&resolved, json!({})))
}

/// The suffix that the kernel adds to the path of a file that was removed after it was opened.
const REMOVED: &[u8] = b" (deleted)";

/// The path under which a file was opened, without links; `None` if the kernel cannot name it.
pub fn opened_path(file: RawFd, found: &libc::stat) -> Option<PathBuf> {
    let link = format!("/proc/self/fd/{file}");
    let mut path =
        read_link_bytes(libc::AT_FDCWD, link.as_bytes()).filter(|path| path.starts_with(b"/"))?;
    if path.ends_with(REMOVED) && !is_at(Path::new(OsStr::from_bytes(&path)), found) {
        path.truncate(path.len() - REMOVED.len());
    }
    Some(PathBuf::from(OsString::from_vec(path)))
}

fn is_at(path: &Path, found: &libc::stat) -> bool {
    let there = open_itself(path).and_then(|file| stat_fd(file.as_raw_fd()));
    there.is_ok_and(|there| (there.st_dev, there.st_ino) == (found.st_dev, found.st_ino))
}

/// Distinguishes two contents of a path: a rewritten file has another inode, and a file changed in
/// place has another time.
pub fn version_of(found: &libc::stat) -> String {
    let mtime_ns = i128::from(found.st_mtime) * 1_000_000_000 + i128::from(found.st_mtime_nsec);
    format!("{:x}-{:x}-{mtime_ns:x}", found.st_ino, found.st_size)
}

pub fn entry(path: &Path, found: &libc::stat, target: Option<String>) -> Entry {
    Entry {
        path: shown(path),
        name: path
            .file_name()
            .map_or_else(|| shown(path), |name| name.to_string_lossy().into_owned()),
        kind: match found.st_mode & libc::S_IFMT {
            libc::S_IFREG => "file",
            libc::S_IFDIR => "dir",
            libc::S_IFLNK => "symlink",
            _ => "other",
        },
        size: size_of(found),
        mode: found.st_mode & 0o7777,
        mtime_ms: mtime_ms_of(found),
        uid: found.st_uid,
        gid: found.st_gid,
        target,
        raw_path: raw(path),
        version: version_of(found),
        unreadable: false,
    }
}

/// Readers use doubles, which are exact up to here.
const MAX_EXACT: i64 = (1 << 53) - 1;
/// The earliest and latest times that a JavaScript date can represent.
const MAX_TIME_MS: i64 = 8_640_000_000_000_000;

pub fn size_of(found: &libc::stat) -> u64 {
    found.st_size.clamp(0, MAX_EXACT) as u64
}

pub fn mtime_ms_of(found: &libc::stat) -> i64 {
    found
        .st_mtime
        .saturating_mul(1000)
        .saturating_add(found.st_mtime_nsec / 1_000_000)
        .clamp(-MAX_TIME_MS, MAX_TIME_MS)
}

/// The target of a link; `None` for anything else.
pub fn read_link(dir: RawFd, name: &[u8], found: &libc::stat) -> Option<String> {
    if !is_kind(found, libc::S_IFLNK) {
        return None;
    }
    let target = read_link_bytes(dir, name)?;
    Some(String::from_utf8_lossy(&target).into_owned())
}

pub fn read_link_bytes(dir: RawFd, name: &[u8]) -> Option<Vec<u8>> {
    let name = sys::c_string(name).ok()?;
    let mut target = vec![0u8; libc::PATH_MAX as usize];
    // SAFETY: target is valid for its length, name is a valid C string.
    let n =
        unsafe { libc::readlinkat(dir, name.as_ptr(), target.as_mut_ptr().cast(), target.len()) };
    if n < 0 {
        return None;
    }
    target.truncate(n as usize);
    Some(target)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn an_open_file_has_the_path_that_it_was_opened_under() {
        let dir = std::env::temp_dir().join(format!("opened-path-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        let dir = dir.canonicalize().unwrap();
        let (plain, odd) = (dir.join("plain"), dir.join("odd (deleted)"));
        for path in [&plain, &odd] {
            fs::write(path, "x").unwrap();
            fs::hard_link(path, path.with_extension("kept")).unwrap();
            let file = open_itself(path).unwrap();
            let opened = || opened_path(file.as_raw_fd(), &stat_fd(file.as_raw_fd()).unwrap());
            assert_eq!(opened().as_ref(), Some(path));
            fs::remove_file(path).unwrap();
            assert_eq!(opened().as_ref(), Some(path), "removed, with another name");
            fs::remove_file(path.with_extension("kept")).unwrap();
            assert_eq!(opened().as_ref(), Some(path), "removed");
        }
        fs::remove_dir(dir).unwrap();
    }
}
