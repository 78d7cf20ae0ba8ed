//! Frames of the wire protocol: their encoding, and a decoder that trusts nothing.

use serde::de::DeserializeOwned;
use std::fmt;

pub const PROTOCOL: u32 = 1;
pub const MAX_PAYLOAD: usize = 1 << 20;
pub const HEADER_BYTES: usize = 9;
pub const OUTPUT_HEAD_BYTES: usize = 17;
/// Bytes that each direction of a stream may carry before the first CREDIT.
pub const INITIAL_CREDIT: u64 = 256 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    Hello = 1,
    Request = 2,
    Response = 3,
    Error = 4,
    Event = 5,
    Data = 6,
    Output = 7,
    End = 8,
    Credit = 9,
    Cancel = 10,
}

impl Kind {
    pub fn from_byte(byte: u8) -> Option<Kind> {
        use Kind::*;
        [
            Hello, Request, Response, Error, Event, Data, Output, End, Credit, Cancel,
        ]
        .into_iter()
        .find(|kind| *kind as u8 == byte)
    }
}

#[derive(Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: Kind,
    pub stream: u32,
    pub payload: Vec<u8>,
}

/// A frame whose payload is still in the receive buffer.
#[derive(Clone, Copy, Debug)]
pub struct ReceivedFrame<'a> {
    pub kind: Kind,
    pub stream: u32,
    pub payload: &'a [u8],
}

impl ReceivedFrame<'_> {
    pub fn to_frame(self) -> Frame {
        Frame {
            kind: self.kind,
            stream: self.stream,
            payload: self.payload.to_vec(),
        }
    }
}

impl Frame {
    /// The payload as JSON; anything but an object of the expected shape is refused.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, FrameError> {
        // A struct would also deserialise from an array, which the protocol does not allow.
        if self.payload.iter().find(|b| !b.is_ascii_whitespace()) != Some(&b'{') {
            return Err(FrameError::Json("not an object".into()));
        }
        serde_json::from_slice(&self.payload).map_err(|e| FrameError::Json(e.to_string()))
    }

    pub fn credit(&self) -> u32 {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&self.payload);
        u32::from_be_bytes(bytes)
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum FrameError {
    UnknownKind(u8),
    TooLong(u32),
    BadPayload(Kind),
    Json(String),
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::UnknownKind(k) => write!(f, "unknown frame type {k}"),
            FrameError::TooLong(n) => write!(f, "payload of {n} bytes is over the limit"),
            FrameError::BadPayload(k) => write!(f, "malformed payload in a {k:?} frame"),
            FrameError::Json(e) => write!(f, "bad JSON: {e}"),
        }
    }
}

/// Accepts bytes in portions of any size and returns complete frames.
#[derive(Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// The bytes between the two have been received but not returned yet.
    read: usize,
    filled: usize,
}

impl Decoder {
    /// Space to receive at least this many bytes; call `filled` with the number received.
    pub fn space(&mut self, bytes: usize) -> &mut [u8] {
        if self.read > 0 {
            self.buffer.copy_within(self.read..self.filled, 0);
            self.filled -= self.read;
            self.read = 0;
        }
        if self.buffer.len() < self.filled + bytes {
            self.buffer.resize(self.filled + bytes, 0);
        }
        &mut self.buffer[self.filled..]
    }

    pub fn filled(&mut self, bytes: usize) {
        self.filled += bytes;
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.space(bytes.len())[..bytes.len()].copy_from_slice(bytes);
        self.filled(bytes.len());
    }

    /// Releases memory that an idle connection does not need.
    pub fn release(&mut self) {
        if self.read == self.filled {
            *self = Decoder::default();
        }
    }

    pub fn take(&mut self) -> Result<Option<Frame>, FrameError> {
        Ok(self.take_received()?.map(ReceivedFrame::to_frame))
    }

    /// Like `take`, without a copy of the payload.
    pub fn take_received(&mut self) -> Result<Option<ReceivedFrame<'_>>, FrameError> {
        let rest = &self.buffer[self.read..self.filled];
        if rest.len() < HEADER_BYTES {
            return Ok(None);
        }
        let length = u32::from_be_bytes([rest[0], rest[1], rest[2], rest[3]]);
        let kind = Kind::from_byte(rest[4]).ok_or(FrameError::UnknownKind(rest[4]))?;
        let stream = u32::from_be_bytes([rest[5], rest[6], rest[7], rest[8]]);
        // The length is checked before any byte of the payload is awaited, so a hostile header
        // cannot make the buffer grow.
        if length as usize > MAX_PAYLOAD {
            return Err(FrameError::TooLong(length));
        }
        let length = length as usize;
        let sound = match kind {
            Kind::Output => length >= OUTPUT_HEAD_BYTES,
            Kind::Credit => length == 4,
            Kind::End | Kind::Cancel => length == 0,
            _ => true,
        };
        if !sound {
            return Err(FrameError::BadPayload(kind));
        }
        if rest.len() < HEADER_BYTES + length {
            return Ok(None);
        }
        let start = self.read + HEADER_BYTES;
        self.read = start + length;
        Ok(Some(ReceivedFrame {
            kind,
            stream,
            payload: &self.buffer[start..self.read],
        }))
    }
}

fn header(kind: Kind, stream: u32, length: usize) -> Vec<u8> {
    debug_assert!(length <= MAX_PAYLOAD);
    let mut frame = Vec::with_capacity(HEADER_BYTES + length);
    frame.extend_from_slice(&(length as u32).to_be_bytes());
    frame.push(kind as u8);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame
}

pub fn encode(kind: Kind, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = header(kind, stream, payload.len());
    frame.extend_from_slice(payload);
    frame
}

pub fn encode_json(kind: Kind, stream: u32, value: &impl serde::Serialize) -> Vec<u8> {
    // The values are our own plain structs; serializing them cannot fail.
    let payload = serde_json::to_vec(value).unwrap_or_else(|_| b"{}".to_vec());
    if payload.len() > MAX_PAYLOAD {
        let refusal = br#"{"code":"too_large","message":"the answer does not fit into a frame"}"#;
        return encode(Kind::Error, stream, refusal);
    }
    encode(kind, stream, &payload)
}

pub fn encode_credit(stream: u32, bytes: u32) -> Vec<u8> {
    encode(Kind::Credit, stream, &bytes.to_be_bytes())
}

pub fn encode_output(stream: u32, descriptor: u8, seq: u64, offset: u64, data: &[u8]) -> Vec<u8> {
    let mut frame = header(Kind::Output, stream, OUTPUT_HEAD_BYTES + data.len());
    frame.push(descriptor);
    frame.extend_from_slice(&seq.to_be_bytes());
    frame.extend_from_slice(&offset.to_be_bytes());
    frame.extend_from_slice(data);
    frame
}
