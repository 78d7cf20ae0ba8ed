//! Finds the end of a request's body.

use crate::network::http::Refused;

/// How much of the body is still expected.
#[derive(Debug, PartialEq, Eq)]
pub enum Body {
    Sized(u64),
    Chunked(Chunks),
}

impl Body {
    #[cfg(test)]
    fn is_over(&self) -> bool {
        match self {
            Body::Sized(left) => *left == 0,
            Body::Chunked(chunks) => chunks.state == ChunkState::Over,
        }
    }

    /// How many of these bytes belong to the body.
    pub fn take(&mut self, bytes: &[u8]) -> Result<usize, Refused> {
        match self {
            Body::Sized(left) => {
                let taken = bytes
                    .len()
                    .min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= taken as u64;
                Ok(taken)
            }
            Body::Chunked(chunks) => chunks.take(bytes),
        }
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Chunks {
    state: ChunkState,
    /// Remaining bytes of the current line or chunk.
    left: u64,
    digits: u8,
}

#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
enum ChunkState {
    #[default]
    Size,
    /// After the size, before its line feed.
    SizeEnd,
    Data,
    DataCr,
    DataLf,
    /// At the start of a trailer line; only the empty one is accepted.
    TrailerCr,
    TrailerLf,
    Over,
}

impl Chunks {
    /// Chunk extensions and trailers are refused: their only practical use is to confuse readers.
    fn take(&mut self, bytes: &[u8]) -> Result<usize, Refused> {
        use ChunkState::*;
        let mut at = 0;
        while at < bytes.len() && self.state != Over {
            let byte = bytes[at];
            match self.state {
                Size => match (byte as char).to_digit(16) {
                    Some(digit) if self.digits < 15 => {
                        self.left = self.left << 4 | u64::from(digit);
                        self.digits += 1;
                    }
                    Some(_) => return Err("a chunk is too long"),
                    None if byte == b'\r' && self.digits > 0 => self.state = SizeEnd,
                    None => return Err("the size of a chunk is malformed"),
                },
                SizeEnd if byte == b'\n' => {
                    self.digits = 0;
                    self.state = if self.left == 0 { TrailerCr } else { Data };
                }
                Data => {
                    let rest = bytes.len() - at;
                    let taken = rest.min(usize::try_from(self.left).unwrap_or(usize::MAX));
                    self.left -= taken as u64;
                    at += taken;
                    if self.left == 0 {
                        self.state = DataCr;
                    }
                    continue;
                }
                DataCr if byte == b'\r' => self.state = DataLf,
                DataLf if byte == b'\n' => self.state = Size,
                TrailerCr if byte == b'\r' => self.state = TrailerLf,
                TrailerLf if byte == b'\n' => self.state = Over,
                _ => return Err("the framing of a chunk is malformed"),
            }
            at += 1;
        }
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_ends_where_its_framing_says() {
        let mut sized = Body::Sized(5);
        assert_eq!(sized.take(b"abc"), Ok(3));
        assert_eq!(sized.take(b"deGET /"), Ok(2));
        assert!(sized.is_over());
        let bytes = b"3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\nGET /hidden";
        for step in 1..bytes.len() {
            let mut chunked = Body::Chunked(Chunks::default());
            let taken: usize = bytes
                .chunks(step)
                .map(|part| chunked.take(part).unwrap())
                .sum();
            assert_eq!(
                taken,
                bytes.len() - b"GET /hidden".len(),
                "in steps of {step}"
            );
            assert!(chunked.is_over());
        }
    }

    #[test]
    fn chunks_with_odd_framing_are_refused() {
        for bytes in [
            &b"3;x=y\r\nabc"[..],
            b"3\nabc",
            b" 3\r\nabc",
            b"\r\n",
            b"-1\r\n",
            b"ffffffffffffffffff\r\n",
            b"3\r\nabcd\r\n",
            b"0\r\nTrailer: x\r\n\r\n",
        ] {
            let mut body = Body::Chunked(Chunks::default());
            assert!(body.take(bytes).is_err(), "{bytes:?}");
        }
    }
}
