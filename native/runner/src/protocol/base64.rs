//! Base64 for JSON: the standard alphabet, with padding.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let word = group
            .iter()
            .chain([0, 0].iter())
            .take(3)
            .fold(0u32, |word, byte| word << 8 | u32::from(*byte));
        for position in 0..4 {
            if position <= group.len() {
                let index = word >> (18 - 6 * position) & 63;
                text.push(char::from(ALPHABET[index as usize]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

/// `None` when the text is not base64.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=').as_bytes();
    if !text.len().is_multiple_of(4) || text.len() - digits.len() > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    for group in digits.chunks(4) {
        if group.len() == 1 {
            return None;
        }
        let mut word = 0u32;
        for position in 0..4 {
            let value = match group.get(position) {
                Some(digit) => ALPHABET.iter().position(|a| a == digit)? as u32,
                None => 0,
            };
            word = word << 6 | value;
        }
        bytes.extend_from_slice(&word.to_be_bytes()[1..group.len()]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};

    #[test]
    fn every_length_survives() {
        let bytes: Vec<u8> = (0..=255).collect();
        for length in 0..=256 {
            assert_eq!(decode(&encode(&bytes[..length])).unwrap(), &bytes[..length]);
        }
        assert_eq!(encode(b"foob"), "Zm9vYg==");
    }

    #[test]
    fn invalid_base64_is_refused() {
        for text in ["a", "ab", "abc", "ab!=", "a===", "====", "Zm9v\n"] {
            assert_eq!(decode(text), None, "{text:?}");
        }
    }
}
