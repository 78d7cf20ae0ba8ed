//! Parses the host and port in the target of a request.

use crate::network::http::Refused;

/// `host`, `host:port` or `[v6]:port`. The gateway judges the host; here only its form counts.
pub fn authority(text: &str) -> Result<(String, Option<u16>), Refused> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest
                .split_once(']')
                .ok_or("the host has no closing bracket")?;
            if !host
                .bytes()
                .all(|b| b.is_ascii_hexdigit() || b == b':' || b == b'.')
            {
                return Err("the host is not an IPv6 address");
            }
            match after.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if after.is_empty() => (host, None),
                None => return Err("the host is followed by something other than a port"),
            }
        }
        None => {
            let (host, port) = match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            };
            if !host
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
            {
                return Err("the host has characters that it must not have");
            }
            (host, port)
        }
    };
    if host.is_empty() || host.len() > 255 {
        return Err("the host is empty or too long");
    }
    let port = match port {
        None => None,
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => match digits.parse() {
            Ok(port) if port > 0 => Some(port),
            _ => return Err("the port is not one of 1 to 65535"),
        },
        Some(_) => return Err("the port is not a number"),
    };
    Ok((host.to_owned(), port))
}
