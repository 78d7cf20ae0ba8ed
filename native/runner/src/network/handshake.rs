//! The bytes that a program sends to the proxy before its connection is open. The first byte
//! distinguishes HTTP from SOCKS 5.

use crate::network::http::{self, Request};
use crate::network::http_body::Body;
use crate::network::socks::{self, Reply};
use serde_json::{Value, json};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Via {
    Transparent,
    Connect,
    Http,
    Socks5,
}

/// A connection that a program requests.
#[derive(Debug)]
pub struct Wanted {
    pub host: String,
    pub port: u16,
    pub via: Via,
    /// Sent to the server first, followed by the body.
    pub forwarded: Option<(Vec<u8>, Body)>,
}

impl Wanted {
    /// The request to the gateway. The gateway decides whether the host is a name or an address.
    pub fn request(&self) -> Value {
        let via = match self.via {
            Via::Transparent => "transparent",
            Via::Connect => "connect",
            Via::Http => "http",
            Via::Socks5 => "socks5",
        };
        json!({ "op": "connect", "host": self.host, "port": self.port, "via": via })
    }

    /// The answer to the program when its connection is open.
    pub fn success(&self) -> Option<Vec<u8>> {
        match self.via {
            Via::Connect => Some(b"HTTP/1.1 200 Connection established\r\n\r\n".to_vec()),
            Via::Socks5 => Some(socks::answer(Reply::Success)),
            Via::Transparent | Via::Http => None,
        }
    }

    /// The answer to the program when its connection could not be opened.
    pub fn failure(&self, code: &str, message: &str) -> Option<Vec<u8>> {
        match self.via {
            Via::Transparent => None,
            Via::Connect | Via::Http => Some(match code {
                "denied" => http_error("403 Forbidden", message),
                "too_many" => http_error("503 Service Unavailable", message),
                "timeout" => http_error("504 Gateway Timeout", message),
                _ => http_error("502 Bad Gateway", message),
            }),
            Via::Socks5 => Some(socks::answer(match code {
                "denied" => Reply::NotAllowed,
                "refused" => Reply::Refused,
                "unresolved" | "unreachable" | "timeout" => Reply::HostUnreachable,
                _ => Reply::Failure,
            })),
        }
    }
}

fn http_error(status: &str, message: &str) -> Vec<u8> {
    let body = format!("{message}\n");
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

#[derive(Default)]
pub struct Handshake {
    bytes: Vec<u8>,
    /// The SOCKS 5 greeting is complete.
    greeted: bool,
}

#[derive(Default)]
pub struct Step {
    /// Bytes for the program.
    pub say: Vec<u8>,
    /// Nothing follows.
    pub refused: bool,
    /// The requested connection, and the bytes that the program sent after the request.
    pub wanted: Option<(Wanted, Vec<u8>)>,
}

impl Step {
    fn refusal(say: Vec<u8>) -> Step {
        Step {
            say,
            refused: true,
            wanted: None,
        }
    }
}

impl Handshake {
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub fn step(&mut self) -> Step {
        match self.bytes.first() {
            None => Step::default(),
            Some(&socks::VERSION) => self.socks_step(),
            Some(_) => self.http_step(),
        }
    }

    fn http_step(&mut self) -> Step {
        let (request, length) = match http::parse(&self.bytes) {
            Ok(http::Parsed::More) => return Step::default(),
            Ok(http::Parsed::Complete(request, length)) => (request, length),
            Err(reason) => {
                let message = format!("The proxy refuses this request: {reason}.");
                return Step::refusal(http_error("400 Bad Request", &message));
            }
        };
        let wanted = match request {
            Request::Connect { host, port } => Wanted {
                host,
                port,
                via: Via::Connect,
                forwarded: None,
            },
            Request::Forward {
                host,
                port,
                head,
                body,
            } => Wanted {
                host,
                port,
                via: Via::Http,
                forwarded: Some((head, body)),
            },
        };
        Step {
            wanted: Some((wanted, self.bytes.split_off(length))),
            ..Step::default()
        }
    }

    fn socks_step(&mut self) -> Step {
        let mut say = Vec::new();
        if !self.greeted {
            match socks::greeting(&self.bytes) {
                socks::Parsed::More => return Step::default(),
                socks::Parsed::Complete(false, _) => {
                    return Step::refusal(socks::NO_METHOD.to_vec());
                }
                socks::Parsed::Complete(true, length) => {
                    self.bytes.drain(..length);
                    self.greeted = true;
                    say.extend_from_slice(&socks::GREETING_ANSWER);
                }
            }
        }
        match socks::request(&self.bytes) {
            Ok(socks::Parsed::More) => Step {
                say,
                ..Step::default()
            },
            Ok(socks::Parsed::Complete((host, port), length)) => {
                let wanted = Wanted {
                    host,
                    port,
                    via: Via::Socks5,
                    forwarded: None,
                };
                Step {
                    say,
                    refused: false,
                    wanted: Some((wanted, self.bytes.split_off(length))),
                }
            }
            Err(reply) => {
                say.extend_from_slice(&socks::answer(reply));
                Step::refusal(say)
            }
        }
    }
}
