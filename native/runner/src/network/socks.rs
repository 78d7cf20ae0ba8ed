//! The part of SOCKS 5 that a client needs to open a connection.

use std::net::{Ipv4Addr, Ipv6Addr};

pub const VERSION: u8 = 5;
/// No authentication; only the sandbox can reach its loopback.
pub const GREETING_ANSWER: [u8; 2] = [VERSION, 0];
pub const NO_METHOD: [u8; 2] = [VERSION, 0xff];

#[derive(Clone, Copy)]
pub enum Reply {
    Success = 0,
    Failure = 1,
    NotAllowed = 2,
    HostUnreachable = 4,
    Refused = 5,
    CommandNotSupported = 7,
    AddressNotSupported = 8,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Parsed<T> {
    More,
    /// The number of bytes consumed.
    Complete(T, usize),
}

/// True if the client offers a method without authentication.
pub fn greeting(bytes: &[u8]) -> Parsed<bool> {
    let Some([_, count]) = bytes.get(..2) else {
        return Parsed::More;
    };
    let end = 2 + *count as usize;
    match bytes.get(2..end) {
        Some(methods) => Parsed::Complete(methods.contains(&0), end),
        None => Parsed::More,
    }
}

pub fn request(bytes: &[u8]) -> Result<Parsed<(String, u16)>, Reply> {
    let Some([version, command, _, kind, first]) = bytes.get(..5) else {
        return Ok(Parsed::More);
    };
    if *version != VERSION {
        return Err(Reply::Failure);
    }
    if *command != 1 {
        return Err(Reply::CommandNotSupported);
    }
    let (start, length) = match kind {
        1 => (4, 4),
        3 => (5, *first as usize),
        4 => (4, 16),
        _ => return Err(Reply::AddressNotSupported),
    };
    let end = start + length;
    let Some([p0, p1]) = bytes.get(end..end + 2) else {
        return Ok(Parsed::More);
    };
    let port = u16::from_be_bytes([*p0, *p1]);
    let host = match (kind, &bytes[start..end]) {
        (1, [a, b, c, d]) => Ipv4Addr::new(*a, *b, *c, *d).to_string(),
        (4, octets) => match <[u8; 16]>::try_from(octets) {
            Ok(octets) => Ipv6Addr::from(octets).to_string(),
            Err(_) => return Err(Reply::Failure),
        },
        (_, name) => {
            let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(byte);
            match std::str::from_utf8(name) {
                Ok(text) if !text.is_empty() && name.iter().all(plain) => text.to_owned(),
                _ => return Err(Reply::Failure),
            }
        }
    };
    if port == 0 {
        return Err(Reply::Failure);
    }
    Ok(Parsed::Complete((host, port), end + 2))
}

/// The bound address is of no use to the client.
pub fn answer(reply: Reply) -> Vec<u8> {
    vec![VERSION, reply as u8, 0, 1, 0, 0, 0, 0, 0, 0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_byte_by_byte() {
        let cases: [(&[u8], &str); 3] = [
            (b"\x05\x01\x00\x01\x0a\x01\x02\x03\x01\xbb", "10.1.2.3"),
            (b"\x05\x01\x00\x03\x06a.test\x01\xbb", "a.test"),
            (
                b"\x05\x01\x00\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x01\xbb",
                "::1",
            ),
        ];
        for (bytes, host) in cases {
            for end in 0..bytes.len() {
                assert!(matches!(request(&bytes[..end]), Ok(Parsed::More)), "{end}");
            }
            let found = request(bytes).ok();
            assert_eq!(
                found,
                Some(Parsed::Complete((host.into(), 443), bytes.len()))
            );
        }
    }

    #[test]
    fn only_connecting_is_possible() {
        let code = |bytes: &[u8]| request(bytes).err().map(|reply| reply as u8);
        assert_eq!(code(b"\x05\x02\x00\x01\0\0\0\0\0\x50"), Some(7));
        assert_eq!(code(b"\x05\x01\x00\x09\0\0\0\0\0\x50"), Some(8));
        assert_eq!(code(b"\x04\x01\x00\x01\0\0\0\0\0\x50"), Some(1));
        assert_eq!(code(b"\x05\x01\x00\x03\x03a\0b\0\x50"), Some(1));
        assert_eq!(code(b"\x05\x01\x00\x03\x00\x00\x50"), Some(1));
        assert_eq!(code(b"\x05\x01\x00\x01\0\0\0\0\0\0"), Some(1));
    }

    #[test]
    fn a_client_that_requires_a_password_is_detected() {
        assert_eq!(greeting(b"\x05"), Parsed::More);
        assert_eq!(greeting(b"\x05\x02\x00"), Parsed::More);
        assert_eq!(greeting(b"\x05\x02\x02\x00"), Parsed::Complete(true, 4));
        assert_eq!(greeting(b"\x05\x01\x02"), Parsed::Complete(false, 3));
    }
}
