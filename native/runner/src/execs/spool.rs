//! Output of a command that no reader has acknowledged yet.

use std::collections::VecDeque;

/// A running command waits when this much output is unacknowledged.
pub const CAPACITY: u64 = 1 << 20;
/// How much output is kept after the command's end.
pub const TAIL_CAPACITY: u64 = 256 * 1024;
/// The largest piece that is sent in one frame.
pub const PIECE: usize = 128 * 1024;

pub struct Chunk {
    pub(super) seq: u64,
    pub(super) descriptor: u8,
    pub(super) offset: u64,
    pub(super) data: Vec<u8>,
    /// A chunk that a reader has seen keeps its extent, so its sequence number stays valid.
    sealed: bool,
}

impl Chunk {
    pub fn end(&self) -> u64 {
        self.offset + self.data.len() as u64
    }
}

#[derive(Default)]
pub struct Spool {
    chunks: VecDeque<Chunk>,
    /// Bytes kept.
    kept: u64,
    /// Bytes ever appended.
    end: u64,
    next_seq: u64,
    /// Where the command's own output ended, once it has.
    done_at: Option<u64>,
    pub(super) dropped: u64,
    pub(super) stdout_bytes: u64,
    pub(super) stderr_bytes: u64,
}

impl Spool {
    pub fn append(&mut self, descriptor: u8, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        let length = data.len() as u64;
        if descriptor == 1 {
            self.stdout_bytes += length;
        } else {
            self.stderr_bytes += length;
        }
        match self.chunks.back_mut() {
            Some(last)
                if last.descriptor == descriptor
                    && !last.sealed
                    && last.data.len() + data.len() <= PIECE =>
            {
                last.data.extend_from_slice(data);
            }
            _ => {
                self.chunks.push_back(Chunk {
                    seq: self.next_seq,
                    descriptor,
                    offset: self.end,
                    data: data.to_vec(),
                    sealed: false,
                });
                self.next_seq += 1;
            }
        }
        self.end += length;
        self.kept += length;
        self.trim_tail();
    }

    /// From now on, output only comes from background processes.
    pub fn mark_done(&mut self) {
        self.done_at = Some(self.end);
        if let Some(last) = self.chunks.back_mut() {
            last.sealed = true;
        }
    }

    fn trim_tail(&mut self) {
        let Some(done_at) = self.done_at else { return };
        let first_tail = self.chunks.partition_point(|c| c.offset < done_at);
        let mut tail: u64 = self
            .chunks
            .range(first_tail..)
            .map(|c| c.data.len() as u64)
            .sum();
        while tail > TAIL_CAPACITY && self.chunks.len() > first_tail + 1 {
            if let Some(dropped) = self.chunks.remove(first_tail) {
                let length = dropped.data.len() as u64;
                tail -= length;
                self.kept -= length;
                self.dropped += length;
            }
        }
    }

    /// True while a running command has to wait for its reader.
    pub fn full(&self) -> bool {
        self.done_at.is_none() && self.kept >= CAPACITY
    }

    pub fn end(&self) -> u64 {
        self.end
    }

    pub fn kept(&self) -> u64 {
        self.kept
    }

    pub fn done_at(&self) -> Option<u64> {
        self.done_at
    }

    /// The chunk that holds the byte at `offset`, or else the first one after it.
    pub fn at(&mut self, offset: u64) -> Option<&Chunk> {
        let index = self.chunks.partition_point(|c| c.end() <= offset);
        let chunk = self.chunks.get_mut(index)?;
        chunk.sealed = true;
        Some(chunk)
    }

    /// Drops output that every reader has acknowledged.
    pub fn discard_to(&mut self, offset: u64) {
        while let Some(first) = self.chunks.front() {
            if first.end() > offset {
                break;
            }
            self.kept -= first.data.len() as u64;
            self.chunks.pop_front();
        }
        if self.chunks.is_empty() {
            self.chunks.shrink_to(8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unseen_writes_of_one_stream_grow_one_chunk() {
        let mut spool = Spool::default();
        spool.append(1, b"ab");
        spool.append(1, b"cd");
        spool.append(2, b"e");
        let first = spool.at(0).unwrap();
        assert_eq!((first.seq, first.data.as_slice()), (0, &b"abcd"[..]));
        let second = spool.at(4).unwrap();
        assert_eq!((second.seq, second.descriptor, second.offset), (1, 2, 4));
    }

    #[test]
    fn a_chunk_that_was_read_does_not_grow() {
        let mut spool = Spool::default();
        spool.append(1, b"ab");
        assert_eq!(spool.at(0).unwrap().data, b"ab");
        spool.append(1, b"cd");
        assert_eq!(spool.at(2).unwrap().seq, 1);
    }

    #[test]
    fn only_acknowledged_output_is_dropped() {
        let mut spool = Spool::default();
        spool.append(1, b"abcd");
        spool.at(0);
        spool.append(1, b"ef");
        spool.discard_to(3);
        assert_eq!(spool.at(0).unwrap().offset, 0);
        spool.discard_to(4);
        assert_eq!(spool.at(0).unwrap().offset, 4);
        assert_eq!(spool.kept(), 2);
    }

    #[test]
    fn a_full_spool_frees_up_by_acknowledgement() {
        let mut spool = Spool::default();
        let piece = vec![7u8; PIECE];
        while !spool.full() {
            spool.append(1, &piece);
        }
        assert_eq!(spool.kept(), CAPACITY);
        spool.discard_to(PIECE as u64);
        assert!(!spool.full());
    }

    #[test]
    fn output_after_the_end_never_displaces_the_commands_own() {
        let mut spool = Spool::default();
        spool.append(1, b"own");
        spool.mark_done();
        for _ in 0..10 {
            spool.append(1, &vec![1u8; PIECE]);
        }
        assert_eq!(spool.at(0).unwrap().data, b"own");
        assert!(spool.kept() <= TAIL_CAPACITY + 3);
        assert_eq!(spool.dropped + spool.kept(), spool.end());
        assert!(!spool.full());
    }
}
