//! Sockets that preserve packet boundaries and identify the writer of each packet.

use crate::sys::check;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// Packets sent by one system call.
const AT_ONCE: usize = 16;

/// Two connected sockets that preserve packet boundaries.
pub fn packet_socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: fds has room for the two descriptors.
    check(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) })?;
    // SAFETY: both were just made.
    Ok(unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) })
}

/// Makes the kernel identify the process that wrote each packet.
pub fn receive_credentials(socket: RawFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the option's value is one int, which outlives the call.
    check(unsafe {
        libc::setsockopt(
            socket,
            libc::SOL_SOCKET,
            libc::SO_PASSCRED,
            (&raw const on).cast(),
            std::mem::size_of::<libc::c_int>() as libc::socklen_t,
        )
    })
    .map(drop)
}

/// Sends as many packets as one call accepts; returns how many were sent.
pub fn send_packets(
    socket: RawFd,
    packets: &mut dyn Iterator<Item = &Vec<u8>>,
) -> io::Result<usize> {
    let mut parts: Vec<libc::iovec> = packets
        .take(AT_ONCE)
        .map(|packet| libc::iovec {
            iov_base: packet.as_ptr().cast_mut().cast(),
            iov_len: packet.len(),
        })
        .collect();
    // SAFETY: an all-zero mmsghdr is a valid value to be filled in.
    let mut messages: [libc::mmsghdr; AT_ONCE] = unsafe { std::mem::zeroed() };
    for (message, part) in messages.iter_mut().zip(&mut parts) {
        message.msg_hdr.msg_iov = part;
        message.msg_hdr.msg_iovlen = 1;
    }
    let count = parts.len() as libc::c_uint;
    // SAFETY: all that the messages point to is valid for its length, and only read.
    check(unsafe { libc::sendmmsg(socket, messages.as_mut_ptr(), count, libc::MSG_NOSIGNAL) })
        .map(|sent| sent as usize)
}

/// Receives one packet: its length, and the pid of its writer (0 if unknown).
pub fn receive_with_pid(socket: RawFd, buffer: &mut [u8]) -> io::Result<(usize, i32)> {
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // Room and alignment for one control message with credentials.
    let mut control = [0u64; 8];
    // SAFETY: an all-zero msghdr is a valid value to be filled in.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = std::mem::size_of_val(&control) as _;
    // SAFETY: all that the message points to is valid for its length.
    let n = unsafe { libc::recvmsg(socket, &mut message, libc::MSG_CMSG_CLOEXEC) };
    if n < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut pid = 0;
    // SAFETY: the kernel has filled in the control messages; the macros stay within them.
    // Descriptors that were sent along belong to us now, and are closed.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&message);
        while !header.is_null() {
            let data = libc::CMSG_DATA(header);
            match (*header).cmsg_type {
                libc::SCM_CREDENTIALS => {
                    pid = data.cast::<libc::ucred>().read_unaligned().pid;
                }
                libc::SCM_RIGHTS => {
                    let bytes = (*header).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                    for index in 0..bytes / std::mem::size_of::<RawFd>() {
                        libc::close(data.cast::<RawFd>().add(index).read_unaligned());
                    }
                }
                _ => {}
            }
            header = libc::CMSG_NXTHDR(&message, header);
        }
    }
    Ok((n as usize, pid))
}

/// Memory used by packets that the other side has not read, if the kernel reports it.
pub fn bytes_unsent(socket: RawFd) -> Option<usize> {
    let mut n: libc::c_int = 0;
    // SAFETY: SIOCOUTQ, which is TIOCOUTQ, writes one int.
    match unsafe { libc::ioctl(socket, libc::TIOCOUTQ, &mut n) } {
        0 => usize::try_from(n).ok(),
        _ => None,
    }
}
