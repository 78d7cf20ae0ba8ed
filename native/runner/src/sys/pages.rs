//! Memory that is not allocated until it is used.

use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Zeroed memory from the kernel. Unused pages are not allocated, whereas the heap allocator may
/// have to write the zeros.
pub struct Pages {
    start: NonNull<u8>,
    length: usize,
}

impl Pages {
    pub fn of(length: usize) -> io::Result<Pages> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping, which overlaps nothing.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, access, kind, -1, 0) };
        let start = match start {
            libc::MAP_FAILED => return Err(io::Error::last_os_error()),
            start => NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?,
        };
        Ok(Pages { start, length })
    }
}

impl Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is this long, readable, and lives as long as self.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and writable; `&mut self` is the only way to it.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: nothing borrows the mapping any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::Pages;

    #[test]
    fn pages_are_zero_and_writable() {
        let mut pages = Pages::of(100_000).unwrap();
        assert!(pages.iter().all(|byte| *byte == 0));
        pages[99_999] = 7;
        assert_eq!((pages.len(), pages[99_999]), (100_000, 7));
    }
}
