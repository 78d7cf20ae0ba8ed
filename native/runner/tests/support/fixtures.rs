//! The file of frames used to test both sides of the protocol.

use serde_json::Value;

/// The entries under `valid` or `invalid`.
pub fn entries(section: &str) -> Vec<Value> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../packages/protocol/fixtures/frames.json"
    );
    let text = std::fs::read(path).expect("the fixtures are part of the project");
    let fixtures: Value = serde_json::from_slice(&text).expect("the fixtures are JSON");
    let found = fixtures[section].as_array().cloned().unwrap_or_default();
    assert!(found.len() > 10, "{path} has too few {section} frames");
    found
}

/// The bytes that a field of an entry holds in hexadecimal digits.
pub fn bytes(entry: &Value, field: &str) -> Vec<u8> {
    let digits = entry[field].as_str().expect("a field of hex digits");
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hex digits"))
        .collect()
}
