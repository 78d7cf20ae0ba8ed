//! A small mutational fuzzer of the frame decoder: from a seed it creates streams of valid and
//! damaged frames, splits them anywhere, and checks how the decoder handles them.

#[path = "fixtures.rs"]
mod fixtures;

use fixtures::{bytes, entries};
use runner::protocol::frame::{Decoder, FrameError, HEADER_BYTES, Kind, MAX_PAYLOAD, encode};
use serde_json::{Map, Value};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts allocations, to detect a buffer that grows without bound.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(held, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The largest payload, its copy in the frame, and the spare room of growing vectors.
const MAX_HELD: usize = 4 * MAX_PAYLOAD;
/// The amount that the runner reads at a time.
const MAX_PORTION: usize = 128 * 1024;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn chance(&mut self, one_in: u64) -> bool {
        self.next().is_multiple_of(one_in)
    }
}

pub struct Fuzzer {
    random: Random,
    valid: Vec<Vec<u8>>,
    invalid: Vec<Vec<u8>>,
    pub streams: u64,
    pub frames: u64,
    pub refusals: u64,
}

impl Fuzzer {
    pub fn new(seed: u64) -> Fuzzer {
        let frames = |section| entries(section).iter().map(|e| bytes(e, "hex")).collect();
        Fuzzer {
            random: Random(seed.max(1)),
            valid: frames("valid"),
            invalid: frames("invalid"),
            streams: 0,
            frames: 0,
            refusals: 0,
        }
    }

    /// Creates one stream and decodes it, whole and in pieces: both must give the same result.
    pub fn round(&mut self) {
        let stream = self.stream();
        let whole = self.decode(&stream, usize::MAX);
        let limit = [1, 7, 100, 4096, MAX_PORTION][self.random.below(5)];
        let before = HELD.load(Ordering::Relaxed);
        PEAK.store(before, Ordering::Relaxed);
        let pieces = self.decode(&stream, limit);
        let grown = PEAK.load(Ordering::Relaxed) - before;
        assert_eq!(whole, pieces, "cut into pieces of up to {limit} bytes");
        assert!(
            grown < MAX_HELD,
            "{grown} bytes were held while {} were decoded",
            stream.len()
        );
        self.streams += 1;
        self.frames += whole.0.len() as u64;
        self.refusals += u64::from(whole.1.is_some());
    }

    /// The result: kind, stream and length of each frame, and the reason for the end, if any.
    fn decode(
        &mut self,
        stream: &[u8],
        limit: usize,
    ) -> (Vec<(Kind, u32, usize)>, Option<FrameError>) {
        let mut decoder = Decoder::default();
        let mut found = Vec::new();
        let mut rest = stream;
        while !rest.is_empty() {
            let length = match limit {
                usize::MAX => rest.len(),
                limit => 1 + self.random.below(limit.min(rest.len())),
            };
            let (portion, after) = rest.split_at(length);
            rest = after;
            decoder.push(portion);
            loop {
                match decoder.take() {
                    Ok(Some(frame)) => {
                        assert!(frame.payload.len() <= MAX_PAYLOAD);
                        // Reading it as JSON must return a result, whatever it contains.
                        let _ = frame.json::<Map<String, Value>>();
                        if frame.kind == Kind::Credit {
                            frame.credit();
                        }
                        found.push((frame.kind, frame.stream, frame.payload.len()));
                    }
                    Ok(None) => break,
                    Err(error) => return (found, Some(error)),
                }
            }
        }
        (found, None)
    }

    fn stream(&mut self) -> Vec<u8> {
        let mut stream = Vec::new();
        for _ in 0..=self.random.below(8) {
            let mut frame = self.golden();
            if self.random.chance(50) {
                let length = self.random.below(MAX_PAYLOAD + 1);
                frame = encode(Kind::Data, self.random.next() as u32, &vec![7; length]);
            }
            if self.random.chance(8) {
                self.damage(&mut frame);
            }
            stream.extend_from_slice(&frame);
        }
        stream
    }

    fn golden(&mut self) -> Vec<u8> {
        let corpus = if self.random.chance(20) {
            &self.invalid
        } else {
            &self.valid
        };
        corpus[self.random.below(corpus.len())].clone()
    }

    fn damage(&mut self, frame: &mut Vec<u8>) {
        const SIZES: [u32; 8] = [0, 1, 16, 17, 1 << 20, (1 << 20) + 1, 1 << 31, u32::MAX];
        for _ in 0..=self.random.below(3) {
            let at = self.random.below(frame.len());
            match self.random.below(7) {
                0 if !frame.is_empty() => frame[at] ^= 1 << self.random.below(8),
                1 if !frame.is_empty() => frame[at] = self.random.next() as u8,
                2 => frame.truncate(at),
                3 => frame.insert(at, self.random.next() as u8),
                4 if frame.len() >= HEADER_BYTES => {
                    let size = SIZES[self.random.below(SIZES.len())];
                    frame[..4].copy_from_slice(&size.to_be_bytes());
                }
                5 if frame.len() >= HEADER_BYTES => frame[4] = self.random.below(13) as u8,
                _ => {
                    frame.truncate(at);
                    frame.extend_from_slice(&self.golden());
                }
            }
        }
    }
}
