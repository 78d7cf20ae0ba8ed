//! Connecting to the sandbox's own loopback addresses.

use crate::sys;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

#[derive(Clone, Copy)]
pub enum Loopback {
    V4,
    V6,
}

/// Starts connecting; true if it is already connected.
///
/// SECURITY: always the sandbox's own loopback, never an address that the caller chooses.
pub fn connect(loopback: Loopback, port: u16) -> io::Result<(OwnedFd, bool)> {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let family = match loopback {
        Loopback::V4 => libc::AF_INET,
        Loopback::V6 => libc::AF_INET6,
    };
    // SAFETY: plain system call.
    let fd = sys::check(unsafe { libc::socket(family, kind, 0) })?;
    // SAFETY: the descriptor was just made.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let result = match loopback {
        Loopback::V4 => {
            let address = libc::sockaddr_in {
                sin_family: libc::AF_INET as u16,
                sin_port: port.to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from_be_bytes([127, 0, 0, 1]).to_be(),
                },
                sin_zero: [0; 8],
            };
            connect_to(&fd, &address)
        }
        Loopback::V6 => {
            let address = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as u16,
                sin6_port: port.to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr {
                    s6_addr: std::net::Ipv6Addr::LOCALHOST.octets(),
                },
                sin6_scope_id: 0,
            };
            connect_to(&fd, &address)
        }
    };
    match result {
        Ok(()) => Ok((fd, true)),
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok((fd, false)),
        Err(error) => Err(error),
    }
}

fn connect_to<Address>(fd: &OwnedFd, address: &Address) -> io::Result<()> {
    // SAFETY: address is a valid socket address of the length given.
    let result = unsafe {
        libc::connect(
            fd.as_raw_fd(),
            std::ptr::from_ref(address).cast(),
            std::mem::size_of_val(address) as libc::socklen_t,
        )
    };
    sys::check(result).map(drop)
}

/// Why an attempt to connect has failed, if it has.
pub fn pending_error(fd: i32) -> io::Result<()> {
    let mut code: libc::c_int = 0;
    let mut length = std::mem::size_of_val(&code) as libc::socklen_t;
    // SAFETY: code and length are valid for writing.
    sys::check(unsafe {
        libc::getsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_ERROR,
            (&raw mut code).cast(),
            &mut length,
        )
    })?;
    match code {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}
