//! Decodes and encodes the frames that both sides of the protocol must agree on.

#[path = "support/fixtures.rs"]
mod fixtures;

use fixtures::{bytes, entries};
use runner::protocol::frame::{
    Decoder, Frame, FrameError, Kind, encode, encode_credit, encode_json, encode_output,
};
use serde_json::{Map, Value};

/// The frames in these portions of bytes; JSON is read as a reader of the protocol would.
fn decode(portions: &[&[u8]]) -> Result<Vec<Frame>, FrameError> {
    let mut decoder = Decoder::default();
    let mut frames = Vec::new();
    for portion in portions {
        decoder.push(portion);
        while let Some(frame) = decoder.take()? {
            if is_json(frame.kind) {
                frame.json::<Map<String, Value>>()?;
            }
            frames.push(frame);
        }
    }
    Ok(frames)
}

fn is_json(kind: Kind) -> bool {
    use Kind::{Error, Event, Hello, Request, Response};
    matches!(kind, Hello | Request | Response | Error | Event)
}

/// Decodes the bytes at once, split in two at every position, and byte by byte.
fn decode_in_all_ways(bytes: &[u8]) -> impl Iterator<Item = Result<Vec<Frame>, FrameError>> {
    let singly = decode(&bytes.chunks(1).collect::<Vec<_>>());
    (0..=bytes.len())
        .map(|at| bytes.split_at(at))
        .map(|(head, tail)| decode(&[head, tail]))
        .chain(std::iter::once(singly))
}

fn check(expected: &Value, frame: &Frame) {
    let name = &expected["name"];
    assert_eq!(frame.kind as u8, expected["type"], "{name}");
    assert_eq!(frame.stream, expected["stream"], "{name}");
    if is_json(frame.kind) {
        let found: Map<String, Value> = frame.json().unwrap();
        assert_eq!(Value::Object(found), expected["json"], "{name}");
    } else {
        assert_eq!(frame.payload, bytes(expected, "payload_hex"), "{name}");
    }
    if frame.kind == Kind::Credit {
        assert_eq!(frame.credit(), expected["credit"], "{name}");
    }
}

#[test]
fn every_valid_frame_is_decoded_however_it_is_split() {
    for expected in entries("valid") {
        for frames in decode_in_all_ways(&bytes(&expected, "hex")) {
            let frames = frames.unwrap();
            assert_eq!(frames.len(), 1, "{}", expected["name"]);
            check(&expected, &frames[0]);
        }
    }
}

#[test]
fn frames_received_together_are_separated() {
    let expected = entries("valid");
    let all: Vec<u8> = expected.iter().flat_map(|e| bytes(e, "hex")).collect();
    let frames = decode(&[&all]).unwrap();
    assert_eq!(frames.len(), expected.len());
    for (expected, frame) in expected.iter().zip(&frames) {
        check(expected, frame);
    }
}

#[test]
fn every_valid_frame_is_encoded_as_the_other_side_encodes_it() {
    for expected in entries("valid") {
        let frame = decode(&[&bytes(&expected, "hex")]).unwrap().remove(0);
        let (kind, stream) = (frame.kind, frame.stream);
        let golden = bytes(&expected, "hex");
        let name = &expected["name"];
        assert_eq!(encode(kind, stream, &frame.payload), golden, "{name}");
        match kind {
            Kind::Credit => assert_eq!(encode_credit(stream, frame.credit()), golden, "{name}"),
            Kind::Output => {
                let output = &expected["output"];
                let number = |field: &str| output[field].as_u64().unwrap();
                let written = encode_output(
                    stream,
                    number("fd") as u8,
                    number("seq"),
                    number("offset"),
                    &bytes(output, "bytes_hex"),
                );
                assert_eq!(written, golden, "{name}");
            }
            kind if is_json(kind) => {
                // The order of fields may differ; their meaning may not.
                let written = encode_json(kind, stream, &expected["json"]);
                check(&expected, &decode(&[&written]).unwrap()[0]);
            }
            _ => {}
        }
    }
}

#[test]
fn every_invalid_frame_is_refused_however_it_is_split() {
    for invalid in entries("invalid") {
        for outcome in decode_in_all_ways(&bytes(&invalid, "hex")) {
            let reason = match outcome {
                Ok(_) => panic!("{} was accepted", invalid["name"]),
                Err(FrameError::UnknownKind(_)) => "unknown_type",
                Err(FrameError::TooLong(_)) => "payload_too_large",
                Err(FrameError::Json(_)) => "json_not_object",
                Err(FrameError::BadPayload(Kind::Output)) => "output_too_short",
                Err(FrameError::BadPayload(Kind::Credit)) => "credit_not_4_bytes",
                Err(FrameError::BadPayload(_)) => "not_empty",
            };
            assert_eq!(reason, invalid["reason"], "{}", invalid["name"]);
        }
    }
}
