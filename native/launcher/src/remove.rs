//! Removes a directory recursively, at any depth, without following links.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use crate::fault::{Context, Fault, Outcome};
use crate::sys;

/// Names are read in batches, so a directory with a million entries does not fill our memory.
const BATCH: usize = 4096;

/// Removes `path`, if it exists.
///
/// Nested directories are moved to the top before they are emptied, so neither the stack nor the number
/// of open descriptors grows with the depth of a sandbox's tree.
pub fn remove_tree(path: &Path) -> Outcome<()> {
    let doing = || format!("removing {}", path.display());
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Fault::new(format!("{} cannot be removed", path.display())));
    };
    let name = sys::cstring(name.as_encoded_bytes()).context(doing)?;
    let parent = match File::open(parent) {
        Ok(parent) => parent,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).context(doing),
    };
    let top = match sys::open_directory_at(parent.as_fd(), &name) {
        Ok(top) => top,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        // A link or a file: only the name is removed.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ELOOP | libc::ENOTDIR)) => {
            return sys::unlink_at(parent.as_fd(), &name, false).context(doing);
        }
        Err(error) => return Err(error).context(doing),
    };
    empty_top(top.as_fd()).context(doing)?;
    match sys::unlink_at(parent.as_fd(), &name, true) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error).context(doing),
        _ => Ok(()),
    }
}

fn empty_top(top: BorrowedFd<'_>) -> io::Result<()> {
    let device = sys::fstat(top)?.st_dev;
    let mut moved = 0u64;
    loop {
        // A new descriptor reads from the start again.
        let listing = sys::open_directory_at(top, c".")?;
        let names = sys::entries(listing.as_fd(), BATCH)?;
        if names.is_empty() {
            return Ok(());
        }
        for entry in names {
            if !entry.is_directory {
                unlink(top, &entry.name)?;
                continue;
            }
            if sys::unlink_at(top, &entry.name, true).is_ok() {
                continue;
            }
            let inner = sys::open_directory_at(top, &entry.name)?;
            if sys::fstat(inner.as_fd())?.st_dev != device {
                return Err(io::Error::other(format!(
                    "{:?} is on another filesystem",
                    entry.name
                )));
            }
            flatten(top, &inner, &mut moved)?;
            sys::unlink_at(top, &entry.name, true)?;
        }
    }
}

/// Empties one directory: files are removed, non-empty directories move to the top.
fn flatten(top: BorrowedFd<'_>, inner: &OwnedFd, moved: &mut u64) -> io::Result<()> {
    loop {
        let listing = sys::open_directory_at(inner.as_fd(), c".")?;
        let names = sys::entries(listing.as_fd(), BATCH)?;
        if names.is_empty() {
            return Ok(());
        }
        for entry in names {
            if !entry.is_directory {
                unlink(inner.as_fd(), &entry.name)?;
            } else if sys::unlink_at(inner.as_fd(), &entry.name, true).is_err() {
                move_to_top(top, inner, &entry.name, moved)?;
            }
        }
    }
}

fn move_to_top(
    top: BorrowedFd<'_>,
    inner: &OwnedFd,
    name: &CString,
    moved: &mut u64,
) -> io::Result<()> {
    loop {
        *moved += 1;
        let new_name = sys::cstring(format!(".removing-{moved}").as_bytes())?;
        match sys::rename_at(inner.as_fd(), name, top, &new_name) {
            // Left by an interrupted removal, or created by the sandbox with that name.
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EEXIST | libc::ENOTEMPTY | libc::ENOTDIR)
                ) => {}
            other => return other,
        }
    }
}

fn unlink(directory: BorrowedFd<'_>, name: &CString) -> io::Result<()> {
    match sys::unlink_at(directory, name, false) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir()
                .join(format!("sandkasten-remove-{}-{name}", std::process::id()));
            fs::create_dir(&path).unwrap();
            Scratch(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            remove_tree(&self.0).unwrap();
        }
    }

    #[test]
    fn a_tree_of_any_depth_is_removed() {
        let scratch = Scratch::new("deep");
        let tree = scratch.0.join("tree");
        fs::create_dir(&tree).unwrap();
        let mut at = File::open(&tree).unwrap();
        for _ in 0..3_000 {
            // Through the descriptor, since the whole path would exceed the length limit.
            let below = format!("/proc/self/fd/{}/d", at.as_raw_fd());
            fs::create_dir(&below).unwrap();
            fs::write(format!("{below}/file"), "x").unwrap();
            at = File::open(below).unwrap();
        }
        remove_tree(&tree).unwrap();
        assert!(!tree.exists());
    }

    #[test]
    fn links_are_removed_and_not_followed() {
        let scratch = Scratch::new("links");
        let (kept, tree) = (scratch.0.join("kept"), scratch.0.join("tree"));
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("file"), "x").unwrap();
        fs::create_dir_all(tree.join("inner/.removing-1/full")).unwrap();
        symlink(&kept, tree.join("inner/link")).unwrap();
        symlink(&kept, tree.join("link")).unwrap();
        remove_tree(&tree).unwrap();
        assert!(!tree.exists() && kept.join("file").exists());
        symlink(&kept, &tree).unwrap();
        remove_tree(&tree).unwrap();
        assert!(fs::symlink_metadata(&tree).is_err() && kept.join("file").exists());
        remove_tree(&tree).unwrap();
    }
}
