//! Receives a descriptor through a socket.

use crate::sys;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// Waits for one byte with one descriptor; an end of the stream before that is an error.
pub fn receive_fd(socket: RawFd) -> io::Result<OwnedFd> {
    let mut byte = [0u8; 1];
    let mut part = libc::iovec {
        iov_base: byte.as_mut_ptr().cast(),
        iov_len: byte.len(),
    };
    // Words, so that it is aligned as its head has to be; one descriptor and its head take three.
    let mut control = [0u64; 3];
    // SAFETY: an all-zero msghdr is a valid value to be filled in.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = std::mem::size_of_val(&control) as _;
    loop {
        // SAFETY: all that the message points to is valid for its length.
        let n = unsafe { libc::recvmsg(socket, &mut message, libc::MSG_CMSG_CLOEXEC) };
        match sys::check(n as libc::c_int) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            result => result?,
        };
        break;
    }
    // SAFETY: the kernel has filled in at most one control message, which there was room for.
    unsafe {
        let head = libc::CMSG_FIRSTHDR(&message);
        if head.is_null() || (*head).cmsg_type != libc::SCM_RIGHTS {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let fd = libc::CMSG_DATA(head).cast::<RawFd>().read_unaligned();
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

#[cfg(test)]
mod tests {
    use super::receive_fd;
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_message_without_a_descriptor_is_an_error() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        assert!(receive_fd(ours.as_raw_fd()).is_err());
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(b"x").unwrap();
        assert!(receive_fd(ours.as_raw_fd()).is_err());
    }
}
