//! Requests to an HTTP proxy: strict parsing of one request.
//!
//! SECURITY: if two readers could split a request in different places, one request could hide in
//! another (request smuggling). So everything ambiguous is refused, the head is rewritten from what
//! was parsed, the body is measured (see `http_body`), and nothing after it is forwarded.

use crate::network::authority::authority;
use crate::network::http_body::{Body, Chunks};

const MAX_HEAD_BYTES: usize = 32 * 1024;
const MAX_HEADERS: usize = 128;

/// A program's request.
#[derive(Debug, PartialEq, Eq)]
pub enum Request {
    /// A tunnel: bytes both ways.
    Connect { host: String, port: u16 },
    /// One request, to be sent with this head; the body follows.
    Forward {
        host: String,
        port: u16,
        head: Vec<u8>,
        body: Body,
    },
}

#[derive(Debug, PartialEq, Eq)]
pub enum Parsed {
    /// The head is not complete.
    More,
    /// The request, and the length of its head.
    Complete(Request, usize),
}

/// Why a request is refused, as text for the client.
pub type Refused = &'static str;

pub fn parse(bytes: &[u8]) -> Result<Parsed, Refused> {
    let Some(end) = find(bytes, b"\r\n\r\n") else {
        if bytes.len() > MAX_HEAD_BYTES {
            return Err("the head of the request is too long");
        }
        // Otherwise the proxy would wait forever for the end of a head that uses bare line feeds.
        if bytes
            .windows(2)
            .any(|pair| pair[1] == b'\n' && pair[0] != b'\r')
        {
            return Err("a line does not end in CR LF");
        }
        return Ok(Parsed::More);
    };
    if end > MAX_HEAD_BYTES {
        return Err("the head of the request is too long");
    }
    let head = &bytes[..end];
    if head.iter().any(|byte| *byte == 0 || *byte >= 0x7f) {
        return Err("the head has bytes that are not printable ASCII");
    }
    let text = std::str::from_utf8(head).map_err(|_| "the head is not ASCII")?;
    let mut lines = text.split("\r\n");
    let request_line = lines.next().unwrap_or_default();
    let headers = lines.map(header).collect::<Result<Vec<_>, _>>()?;
    if headers.len() > MAX_HEADERS {
        return Err("the request has too many headers");
    }
    if text.split("\r\n").any(|line| line.contains(['\r', '\n'])) {
        return Err("a line does not end in CR LF");
    }
    request(request_line, &headers).map(|request| Parsed::Complete(request, end + 4))
}

type Header<'a> = (&'a str, &'a str);

fn header(line: &str) -> Result<Header<'_>, Refused> {
    let (name, value) = line.split_once(':').ok_or("a header has no colon")?;
    // A folded line, or a space before the colon, must not pass for part of a name.
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err("the name of a header has characters that it must not have");
    }
    let value = value.trim_matches([' ', '\t']);
    if value.bytes().any(|byte| byte < 0x20 && byte != b'\t') {
        return Err("a header has a control character");
    }
    Ok((name, value))
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn request(line: &str, headers: &[Header<'_>]) -> Result<Request, Refused> {
    let mut parts = line.split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err("the request line does not have three parts");
    };
    if method.is_empty() || !method.bytes().all(is_token) {
        return Err("the method has characters that it must not have");
    }
    if version != "HTTP/1.1" && version != "HTTP/1.0" {
        return Err("the version is neither HTTP/1.1 nor HTTP/1.0");
    }
    if method == "CONNECT" {
        let (host, port) = authority(target)?;
        let port = port.ok_or("CONNECT needs a port")?;
        if body(headers)? != Body::Sized(0) {
            return Err("CONNECT must not have a body");
        }
        return Ok(Request::Connect { host, port });
    }
    let rest = strip_scheme(target)
        .ok_or("the target is not an http:// URL; use CONNECT for other schemes")?;
    let path_at = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority_text, path) = rest.split_at(path_at);
    let (host, port) = authority(authority_text)?;
    if path.bytes().any(|byte| byte <= b' ' || byte == b'#') {
        return Err("the target has characters that a URL must not have");
    }
    let body = body(headers)?;
    let head = new_head(method, path, authority_text, headers, &body);
    let port = port.unwrap_or(80);
    Ok(Request::Forward {
        host,
        port,
        head,
        body,
    })
}

/// The rewritten head, built from the parsed request.
fn new_head(
    method: &str,
    path: &str,
    authority: &str,
    headers: &[Header<'_>],
    body: &Body,
) -> Vec<u8> {
    let mut head = Vec::with_capacity(path.len() + 512);
    let slash = if path.starts_with('/') { "" } else { "/" };
    head.extend_from_slice(format!("{method} {slash}{path} HTTP/1.1\r\n").as_bytes());
    // The URL takes precedence over the Host header.
    head.extend_from_slice(format!("Host: {authority}\r\n").as_bytes());
    let named: Vec<String> = headers
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("connection"))
        .flat_map(|(_, value)| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    for (name, value) in headers {
        let lower = name.to_ascii_lowercase();
        let framing = lower == "content-length" || lower == "transfer-encoding";
        if !framing && !is_for_one_hop(&lower) && !named.contains(&lower) {
            head.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
    }
    match body {
        Body::Sized(0) if !has(headers, "content-length") => {}
        Body::Sized(length) => {
            head.extend_from_slice(format!("Content-Length: {length}\r\n").as_bytes());
        }
        Body::Chunked(_) => head.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
    }
    // One request on each connection: the next one could be for another host.
    head.extend_from_slice(b"Connection: close\r\n\r\n");
    head
}

fn strip_scheme(target: &str) -> Option<&str> {
    let (scheme, rest) = target.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case("http://").then_some(rest)
}

fn has(headers: &[Header<'_>], wanted: &str) -> bool {
    headers
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case(wanted))
}

fn is_for_one_hop(name: &str) -> bool {
    const HOP: [&str; 9] = [
        "host",
        "connection",
        "keep-alive",
        "proxy-connection",
        "proxy-authorization",
        "proxy-authenticate",
        "te",
        "trailer",
        "upgrade",
    ];
    HOP.contains(&name)
}

fn body(headers: &[Header<'_>]) -> Result<Body, Refused> {
    let values = |wanted: &str| -> Vec<&str> {
        headers
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case(wanted))
            .map(|(_, value)| *value)
            .collect()
    };
    let lengths = values("content-length");
    let codings = values("transfer-encoding");
    match (lengths.as_slice(), codings.as_slice()) {
        ([], []) => Ok(Body::Sized(0)),
        ([length], []) => {
            let digits = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
            match length.parse() {
                Ok(length) if digits => Ok(Body::Sized(length)),
                _ => Err("Content-Length is not a number"),
            }
        }
        ([], [coding]) if coding.eq_ignore_ascii_case("chunked") => {
            Ok(Body::Chunked(Chunks::default()))
        }
        ([], _) => Err("Transfer-Encoding is something other than chunked"),
        (_, []) => Err("Content-Length is given more than once"),
        _ => Err("Content-Length and Transfer-Encoding are both given"),
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|part| part == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forward(text: &str) -> (String, u16, String, Body) {
        match parse(text.as_bytes()) {
            Ok(Parsed::Complete(
                Request::Forward {
                    host,
                    port,
                    head,
                    body,
                },
                length,
            )) => {
                assert_eq!(length, text.find("\r\n\r\n").unwrap() + 4);
                (host, port, String::from_utf8(head).unwrap(), body)
            }
            other => panic!("{text:?} gave {other:?}"),
        }
    }

    #[test]
    fn a_request_is_rewritten_for_its_own_host() {
        let (host, port, head, body) = forward(
            "GET http://a.test:8080/x?y=1 HTTP/1.1\r\nHost: other.test\r\nProxy-Connection: keep-alive\r\n\
             Connection: keep-alive, X-Gone\r\nX-Gone: 1\r\nAccept: */*\r\n\r\n",
        );
        assert_eq!((host.as_str(), port), ("a.test", 8080));
        assert_eq!(
            head,
            "GET /x?y=1 HTTP/1.1\r\nHost: a.test:8080\r\nAccept: */*\r\nConnection: close\r\n\r\n"
        );
        assert_eq!(body, Body::Sized(0));
    }

    #[test]
    fn a_url_without_a_path_asks_for_the_root() {
        assert!(
            forward("GET http://a.test HTTP/1.1\r\n\r\n")
                .2
                .starts_with("GET / HTTP/1.1\r\n")
        );
        assert!(
            forward("GET HTTP://a.test?q HTTP/1.0\r\n\r\n")
                .2
                .starts_with("GET /?q HTTP/1.1\r\n")
        );
    }

    #[test]
    fn connect_names_a_host_and_a_port() {
        let head = "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n";
        let found = parse(format!("{head}rest").as_bytes());
        let request = Request::Connect {
            host: "a.test".into(),
            port: 443,
        };
        assert_eq!(found, Ok(Parsed::Complete(request, head.len())));
        let v6 = parse(b"CONNECT [::1]:80 HTTP/1.1\r\n\r\n");
        assert!(
            matches!(v6, Ok(Parsed::Complete(Request::Connect { host, .. }, _)) if host == "::1")
        );
    }

    #[test]
    fn an_incomplete_head_waits_for_more_bytes() {
        assert_eq!(
            parse(b"GET http://a.test/ HTTP/1.1\r\nA: b\r\n"),
            Ok(Parsed::More)
        );
        assert_eq!(parse(b""), Ok(Parsed::More));
        assert!(parse(&vec![b'a'; MAX_HEAD_BYTES + 1]).is_err());
    }

    #[test]
    fn ambiguous_requests_are_refused() {
        let heads = [
            "POST http://a.test/ HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked",
            "POST http://a.test/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2",
            "POST http://a.test/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1",
            "POST http://a.test/ HTTP/1.1\r\nContent-Length: 1, 1",
            "POST http://a.test/ HTTP/1.1\r\nContent-Length: +1",
            "POST http://a.test/ HTTP/1.1\r\nContent-Length: 0x1",
            "POST http://a.test/ HTTP/1.1\r\nContent-Length:",
            "POST http://a.test/ HTTP/1.1\r\nContent-Length: 99999999999999999999999",
            "POST http://a.test/ HTTP/1.1\r\nTransfer-Encoding: gzip, chunked",
            "POST http://a.test/ HTTP/1.1\r\nTransfer-Encoding: identity",
            "POST http://a.test/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
            "POST http://a.test/ HTTP/1.1\r\nTransfer-Encoding : chunked",
            "POST http://a.test/ HTTP/1.1\r\nA: b\r\n folded: c",
            "POST http://a.test/ HTTP/1.1\r\nA: b\nContent-Length: 1",
            "POST http://a.test/ HTTP/1.1\r\nA: b\rContent-Length: 1",
            "POST http://a.test/ HTTP/1.1\r\nA\0: b",
            "POST http://a.test/ HTTP/1.1\r\nno colon",
            "POST http://a.test/ HTTP/1.1\r\n: no name",
            "POST http://a.test/ HTTP/2.0",
            "POST  http://a.test/ HTTP/1.1",
            "POST http://a.test/ x HTTP/1.1",
            "POST /only-a-path HTTP/1.1\r\nHost: a.test",
            "POST https://a.test/ HTTP/1.1",
            "POST http://user@a.test/ HTTP/1.1",
            "POST http://a.test:0/ HTTP/1.1",
            "POST http://a.test:99999/ HTTP/1.1",
            "POST http://a.test:80:80/ HTTP/1.1",
            "POST http:///path HTTP/1.1",
            "POST http://a.test/a#b HTTP/1.1",
            "CONNECT a.test HTTP/1.1",
            "CONNECT a.test:22/x HTTP/1.1",
            "CONNECT a.test:443 HTTP/1.1\r\nContent-Length: 5",
            "CONNECT [::1 HTTP/1.1",
            "CONNECT [::1%lo]:80 HTTP/1.1",
        ];
        for head in heads {
            let text = format!("{head}\r\n\r\n");
            assert!(parse(text.as_bytes()).is_err(), "{head:?}");
        }
    }

    #[test]
    fn a_body_has_the_length_or_the_framing_that_its_head_says() {
        let (.., head, body) = forward("POST http://a.test/ HTTP/1.1\r\nContent-Length: 5\r\n\r\n");
        assert!(head.contains("\r\nContent-Length: 5\r\n"));
        assert_eq!(body, Body::Sized(5));
        let (.., head, body) =
            forward("POST http://a.test/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
        assert!(head.contains("\r\nTransfer-Encoding: chunked\r\n"));
        assert_eq!(body, Body::Chunked(Chunks::default()));
    }

    /// The mutations are deterministic. Whatever parses must be one request by our own reading.
    #[test]
    fn damaged_requests_neither_crash_the_parser_nor_change_their_meaning() {
        let mut state = 0x5eed_u64;
        let mut next = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as usize
        };
        let whole = b"POST http://a.test:81/p HTTP/1.1\r\nContent-Length: 3\r\nHost: a.test:81\r\nAccept: x\r\n\r\nabc";
        let (mut understood, mut refused) = (0, 0);
        for _ in 0..20_000 {
            let mut bytes = whole.to_vec();
            for _ in 0..next() % 4 {
                let at = next() % bytes.len();
                bytes[at] = b"\r\n :\0,;aCx1\xff"[next() % 12];
            }
            bytes.truncate(next() % (bytes.len() + 1));
            match parse(&bytes) {
                Ok(Parsed::Complete(Request::Forward { head, .. }, length)) => {
                    understood += 1;
                    assert!(length <= bytes.len());
                    let text = String::from_utf8(head).unwrap();
                    let heads = text.matches("\r\n\r\n").count();
                    assert_eq!((heads, text.ends_with("\r\n\r\n")), (1, true));
                }
                Ok(_) => {}
                Err(_) => refused += 1,
            }
        }
        assert!(understood > 100, "{understood} understood");
        assert!(refused > 100, "{refused} refused");
    }
}
