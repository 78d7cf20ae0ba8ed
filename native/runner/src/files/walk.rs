//! Walks a tree that may change during the walk.

use super::place::shown;
use super::{for_each_name, identity, open_directory};
use crate::protocol::failure::Failure;
use crate::sys;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

pub trait Visitor {
    /// Visits an entry before its contents; returns a directory to enter. The path is relative to
    /// the root.
    fn visit(
        &mut self,
        dir: &OwnedFd,
        name: &CString,
        path: &[u8],
    ) -> Result<Option<OwnedFd>, Failure>;

    /// All entries of the most recently entered directory have been visited.
    fn leave(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}

/// Visits everything below a directory, in the byte order of names.
pub fn walk(root: OwnedFd, base: &Path, visitor: &mut impl Visitor) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::io("read", &shown(base), &error);
    let mut here = Descent::at(root);
    let mut levels = vec![names(here.directory()).map_err(failed)?];
    let mut lengths: Vec<usize> = Vec::new();
    let mut prefix: Vec<u8> = Vec::new();
    while let Some(waiting) = levels.last_mut() {
        let Some(name) = waiting.pop() else {
            levels.pop();
            let Some(length) = lengths.pop() else {
                break;
            };
            prefix.truncate(length);
            visitor.leave()?;
            here.up(base)?;
            continue;
        };
        let c_name = sys::c_string(&name).map_err(failed)?;
        let path = [prefix.as_slice(), &name].concat();
        if let Some(child) = visitor.visit(here.directory(), &c_name, &path)? {
            levels.push(names(&child).map_err(failed)?);
            lengths.push(prefix.len());
            prefix.extend_from_slice(&name);
            prefix.push(b'/');
            here.down(child).map_err(failed)?;
        }
    }
    Ok(())
}

fn names(dir: &OwnedFd) -> io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for_each_name(dir, |name, _| names.push(name.to_vec()))?;
    names.sort_unstable_by(|a, b| b.cmp(a));
    Ok(names)
}

/// A directory walked down and back up with one descriptor, so depth costs no descriptors.
pub struct Descent {
    here: OwnedFd,
    above: Vec<(u64, u64)>,
}

impl Descent {
    pub fn at(root: OwnedFd) -> Descent {
        Descent {
            here: root,
            above: Vec::new(),
        }
    }

    pub fn directory(&self) -> &OwnedFd {
        &self.here
    }

    pub fn down(&mut self, child: OwnedFd) -> io::Result<()> {
        self.above.push(identity(&self.here)?);
        self.here = child;
        Ok(())
    }

    /// SECURITY: the parent of a directory that was moved meanwhile is another one, whose contents
    /// were not requested (threat: path races). Guarded by tests/hostile/files-races.test.ts.
    pub fn up(&mut self, base: &Path) -> Result<(), Failure> {
        let failed = |error: io::Error| Failure::io("read", &shown(base), &error);
        let above = open_directory(self.here.as_raw_fd(), c"..").map_err(failed)?;
        if self.above.pop() != Some(identity(&above).map_err(failed)?) {
            let message = format!("{} changed during the request; try again", shown(base));
            return Err(Failure::new("busy", message));
        }
        self.here = above;
        Ok(())
    }
}
