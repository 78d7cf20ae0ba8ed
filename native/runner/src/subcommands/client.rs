//! `runner --client '<json>'`: one request as a line of JSON, one answer as a line of JSON.

use crate::protocol::base64;
use crate::protocol::frame::{self, Decoder, Frame, Kind};
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Output beyond this is cut off and marked as truncated.
const OUTPUT_LIMIT: usize = 1 << 20;
const STREAM: u32 = 1;

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Line {
    Exec {
        id: String,
        cmd: String,
        #[serde(default)]
        timeout_ms: u64,
    },
    Write {
        id: String,
        path: String,
        content_base64: String,
    },
    Read {
        id: String,
        path: String,
        max_bytes: Option<u64>,
    },
}

/// Returns the answer as JSON; failures are answers too.
pub fn run(socket: &Path, line: &str) -> Value {
    let id = serde_json::from_str::<Value>(line)
        .ok()
        .and_then(|value| value.get("id")?.as_str().map(String::from))
        .unwrap_or_default();
    let failed = |message: String| json!({ "id": id, "type": "error", "message": message, "error": message });
    let request: Line = match serde_json::from_str(line) {
        Ok(request) => request,
        Err(error) => return failed(format!("bad request: {error}")),
    };
    answer(socket, request).unwrap_or_else(|error| failed(error.to_string()))
}

fn answer(socket: &Path, request: Line) -> io::Result<Value> {
    let mut peer = Peer::connect(socket)?;
    match request {
        Line::Exec {
            id,
            cmd,
            timeout_ms,
        } => {
            let unique = crate::sys::random_hex()?;
            peer.request(
                &json!({
                    "op": "exec", "exec_id": unique, "mode": "shell", "merge": true,
                    "cmd_bytes": cmd.len(), "timeout_ms": timeout_ms,
                }),
                Some(cmd.as_bytes()),
            )?;
            let (end, output, truncated) = peer.finish(OUTPUT_LIMIT)?;
            if end["end_reason"] == "timeout" || end["end_reason"] == "idle_timeout" {
                return Err(io::Error::other("timeout exceeded"));
            }
            Ok(json!({
                "id": id, "type": "exec",
                "exit_code": end["exit_code"], "cwd": end["cwd"],
                "output": String::from_utf8_lossy(&output), "truncated": truncated,
                "duration_ms": end["duration_ms"],
            }))
        }
        Line::Write {
            id,
            path,
            content_base64,
        } => {
            let content = base64::decode(&content_base64)
                .ok_or_else(|| io::Error::other("content_base64 is not base64"))?;
            peer.request(&json!({ "op": "write", "path": path }), Some(&content))?;
            peer.finish(0)?;
            Ok(json!({ "id": id, "type": "write", "ok": true }))
        }
        Line::Read {
            id,
            path,
            max_bytes,
        } => {
            let limit = max_bytes.unwrap_or(OUTPUT_LIMIT as u64);
            // One byte more shows whether the file is longer.
            let length = limit.saturating_add(1);
            peer.request(
                &json!({ "op": "read", "path": path, "length": length }),
                None,
            )?;
            let (_, content, truncated) = peer.finish(limit as usize)?;
            Ok(json!({
                "id": id, "type": "read",
                "content_base64": base64::encode(&content), "truncated": truncated,
            }))
        }
    }
}

/// A blocking conversation about one request.
struct Peer {
    socket: UnixStream,
    decoder: Decoder,
    credit: u64,
}

impl Peer {
    fn connect(socket: &Path) -> io::Result<Peer> {
        let mut socket = UnixStream::connect(socket)?;
        let hello = json!({ "protocol": frame::PROTOCOL });
        socket.write_all(&frame::encode_json(Kind::Hello, 0, &hello))?;
        Ok(Peer {
            socket,
            decoder: Decoder::default(),
            credit: frame::INITIAL_CREDIT,
        })
    }

    fn request(&mut self, request: &Value, body: Option<&[u8]>) -> io::Result<()> {
        self.socket
            .write_all(&frame::encode_json(Kind::Request, STREAM, request))?;
        let Some(mut body) = body else { return Ok(()) };
        while !body.is_empty() {
            while self.credit == 0 {
                let frame = self.next()?;
                match frame.kind {
                    Kind::Credit => self.credit += u64::from(frame.credit()),
                    Kind::Error => return Err(failure(&frame)),
                    _ => {}
                }
            }
            let n = body.len().min(self.credit as usize).min(64 * 1024);
            self.socket
                .write_all(&frame::encode(Kind::Data, STREAM, &body[..n]))?;
            self.credit -= n as u64;
            body = &body[n..];
        }
        self.socket
            .write_all(&frame::encode(Kind::End, STREAM, &[]))
    }

    /// Returns the answer, the first `limit` bytes of output before it, and whether there was more.
    fn finish(&mut self, limit: usize) -> io::Result<(Value, Vec<u8>, bool)> {
        let mut kept = Vec::new();
        let mut truncated = false;
        loop {
            let frame = self.next()?;
            let data = match frame.kind {
                Kind::Output => &frame.payload[frame::OUTPUT_HEAD_BYTES..],
                Kind::Data => &frame.payload[..],
                Kind::Response => {
                    let answer = frame.json().map_err(|e| io::Error::other(e.to_string()))?;
                    return Ok((answer, kept, truncated));
                }
                Kind::Error => return Err(failure(&frame)),
                _ => continue,
            };
            let room = limit - kept.len();
            truncated |= data.len() > room;
            kept.extend_from_slice(&data[..data.len().min(room)]);
            self.socket
                .write_all(&frame::encode_credit(STREAM, data.len() as u32))?;
        }
    }

    fn next(&mut self) -> io::Result<Frame> {
        let mut buffer = vec![0u8; 64 * 1024];
        loop {
            match self.decoder.take() {
                Ok(Some(frame)) => return Ok(frame),
                Ok(None) => {}
                Err(violation) => return Err(io::Error::other(violation.to_string())),
            }
            let n = self.socket.read(&mut buffer)?;
            if n == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
            }
            self.decoder.push(&buffer[..n]);
        }
    }
}

fn failure(frame: &Frame) -> io::Error {
    let message = frame
        .json::<Value>()
        .ok()
        .and_then(|value| value["message"].as_str().map(String::from));
    io::Error::other(message.unwrap_or_else(|| "the runner refused".into()))
}
