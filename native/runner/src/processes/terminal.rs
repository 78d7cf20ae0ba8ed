//! Terminals of commands.

use crate::sys;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// The variable that describes the terminal to programs, unless it is already set.
pub const TYPE: (&str, &str) = ("TERM", "xterm-256color");

/// A new terminal: the non-blocking master, and the slave.
pub fn open(rows: u16, cols: u16, uid: u32, gid: u32) -> io::Result<(OwnedFd, OwnedFd)> {
    // The slave belongs to the user that opens the master, and code must be able to use it.
    sys::as_fs_user(uid, gid, || {
        let master = sys::open(
            c"/dev/ptmx",
            libc::O_RDWR | libc::O_NOCTTY | libc::O_NONBLOCK,
            0,
        )?;
        let unlock: libc::c_int = 0;
        // SAFETY: TIOCSPTLCK reads one int.
        sys::check(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSPTLCK, &unlock) })?;
        let name = sys::c_string(path(master.as_raw_fd())?)?;
        let slave = sys::open(&name, libc::O_RDWR | libc::O_NOCTTY, 0)?;
        resize(master.as_raw_fd(), rows, cols)?;
        Ok((master, slave))
    })
}

/// The path of the slave that belongs to this master.
pub fn path(master: RawFd) -> io::Result<String> {
    let mut number: libc::c_uint = 0;
    // SAFETY: TIOCGPTN writes one unsigned int.
    sys::check(unsafe { libc::ioctl(master, libc::TIOCGPTN, &mut number) })?;
    Ok(format!("/dev/pts/{number}"))
}

/// The character for end of input on this terminal.
pub fn end_of_input(master: RawFd) -> u8 {
    // SAFETY: an all-zero termios is a valid value to be overwritten.
    let mut settings: libc::termios = unsafe { std::mem::zeroed() };
    // SAFETY: settings is valid for writing.
    match unsafe { libc::tcgetattr(master, &mut settings) } {
        0 => settings.c_cc[libc::VEOF],
        _ => 4,
    }
}

pub fn resize(master: RawFd, rows: u16, cols: u16) -> io::Result<()> {
    let size = libc::winsize {
        ws_row: rows,
        ws_col: cols,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: TIOCSWINSZ reads one winsize.
    sys::check(unsafe { libc::ioctl(master, libc::TIOCSWINSZ, &size) }).map(drop)
}
