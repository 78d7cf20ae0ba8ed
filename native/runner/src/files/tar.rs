//! The tar format: headers as POSIX and GNU write them.

pub const BLOCK: usize = 512;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    File,
    HardLink,
    Symlink,
    Directory,
    Other(u8),
    /// Extended attributes for the next entry.
    Pax,
    PaxGlobal,
    /// GNU's long name or long link for the next entry.
    LongName,
    LongLink,
}

#[derive(Debug)]
pub struct Header {
    pub path: Vec<u8>,
    pub link: Vec<u8>,
    pub kind: Kind,
    pub mode: u32,
    pub size: u64,
    pub mtime: i64,
}

impl Header {
    /// `None` for the block of zeros that ends an archive.
    pub fn parse(block: &[u8; BLOCK]) -> Result<Option<Header>, &'static str> {
        if block.iter().all(|b| *b == 0) {
            return Ok(None);
        }
        let sum: u64 = block
            .iter()
            .enumerate()
            .map(|(i, b)| u64::from(if (148..156).contains(&i) { b' ' } else { *b }))
            .sum();
        if number(&block[148..156])? != sum {
            return Err("bad checksum");
        }
        let mut path = text(&block[..100]);
        if &block[257..262] == b"ustar" && block[262] == 0 {
            let prefix = text(&block[345..500]);
            if !prefix.is_empty() {
                path = [prefix, path].join(&b'/');
            }
        }
        Ok(Some(Header {
            path,
            link: text(&block[157..257]),
            kind: match block[156] {
                b'0' | 0 | b'7' => Kind::File,
                b'1' => Kind::HardLink,
                b'2' => Kind::Symlink,
                b'5' => Kind::Directory,
                b'x' => Kind::Pax,
                b'g' => Kind::PaxGlobal,
                b'L' => Kind::LongName,
                b'K' => Kind::LongLink,
                other => Kind::Other(other),
            },
            mode: number(&block[100..108])? as u32,
            size: number(&block[124..136])?,
            mtime: number(&block[136..148])? as i64,
        }))
    }

    /// The blocks of an entry's header, preceded by an extended header if the plain one lacks room.
    pub fn encode(&self) -> Vec<u8> {
        let mut records = Vec::new();
        if self.path.len() > 100 || !self.path.is_ascii() {
            record(&mut records, "path", &self.path);
        }
        if self.link.len() > 100 || !self.link.is_ascii() {
            record(&mut records, "linkpath", &self.link);
        }
        if self.size >= 1 << 33 {
            record(&mut records, "size", self.size.to_string().as_bytes());
        }
        let mut blocks = Vec::new();
        if !records.is_empty() {
            let size = records.len() as u64;
            blocks.extend_from_slice(&plain(b"@pax", b"", b'x', 0o644, size, 0));
            blocks.extend_from_slice(&records);
            blocks.resize(blocks.len().next_multiple_of(BLOCK), 0);
        }
        let flag = match self.kind {
            Kind::File => b'0',
            Kind::HardLink => b'1',
            Kind::Symlink => b'2',
            Kind::Directory => b'5',
            Kind::Other(flag) => flag,
            Kind::Pax => b'x',
            Kind::PaxGlobal => b'g',
            Kind::LongName => b'L',
            Kind::LongLink => b'K',
        };
        blocks.extend_from_slice(&plain(
            &self.path, &self.link, flag, self.mode, self.size, self.mtime,
        ));
        blocks
    }
}

fn plain(path: &[u8], link: &[u8], flag: u8, mode: u32, size: u64, mtime: i64) -> [u8; BLOCK] {
    let mut block = [0u8; BLOCK];
    let put = |block: &mut [u8; BLOCK], at: usize, bytes: &[u8]| {
        block[at..at + bytes.len()].copy_from_slice(bytes);
    };
    put(&mut block, 0, &path[..path.len().min(100)]);
    put(&mut block, 100, format!("{:07o}", mode & 0o7777).as_bytes());
    put(&mut block, 108, b"0000000");
    put(&mut block, 116, b"0000000");
    let size = size.min((1 << 33) - 1);
    put(&mut block, 124, format!("{size:011o}").as_bytes());
    let mtime = mtime.clamp(0, (1 << 33) - 1);
    put(&mut block, 136, format!("{mtime:011o}").as_bytes());
    block[156] = flag;
    put(&mut block, 157, &link[..link.len().min(100)]);
    put(&mut block, 257, b"ustar\x0000");
    put(&mut block, 148, b"        ");
    let sum: u32 = block.iter().map(|b| u32::from(*b)).sum();
    put(&mut block, 148, format!("{sum:06o}\0 ").as_bytes());
    block
}

/// `LENGTH key=value\n`, where the length counts itself.
fn record(records: &mut Vec<u8>, key: &str, value: &[u8]) {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    records.extend_from_slice(format!("{length} {key}=").as_bytes());
    records.extend_from_slice(value);
    records.push(b'\n');
}

/// Key and value of an extended header.
pub type Record = (Vec<u8>, Vec<u8>);

/// The pairs of an extended header.
pub fn pax_records(mut data: &[u8]) -> Result<Vec<Record>, &'static str> {
    let mut pairs = Vec::new();
    while !data.is_empty() && data[0] != 0 {
        let space = data.iter().position(|b| *b == b' ').ok_or("bad pax")?;
        let length: usize = std::str::from_utf8(&data[..space])
            .ok()
            .and_then(|text| text.parse().ok())
            .ok_or("bad pax")?;
        if length <= space + 1 || length > data.len() {
            return Err("bad pax");
        }
        let body = &data[space + 1..length - 1];
        let equals = body.iter().position(|b| *b == b'=').ok_or("bad pax")?;
        pairs.push((body[..equals].to_vec(), body[equals + 1..].to_vec()));
        data = &data[length..];
    }
    Ok(pairs)
}

fn text(field: &[u8]) -> Vec<u8> {
    let end = field.iter().position(|b| *b == 0).unwrap_or(field.len());
    field[..end].to_vec()
}

/// Octal, or GNU's binary form for numbers too large for octal.
fn number(field: &[u8]) -> Result<u64, &'static str> {
    if field[0] & 0x80 != 0 {
        return field[1..].iter().try_fold(0u64, |value, byte| {
            value
                .checked_mul(256)
                .map(|value| value | u64::from(*byte))
                .ok_or("number out of range")
        });
    }
    let digits: Vec<u8> = field
        .iter()
        .copied()
        .skip_while(|b| *b == b' ')
        .take_while(|b| *b != 0 && *b != b' ')
        .collect();
    digits.iter().try_fold(0u64, |value, digit| match digit {
        b'0'..=b'7' => value
            .checked_mul(8)
            .map(|value| value | u64::from(digit - b'0'))
            .ok_or("number out of range"),
        _ => Err("bad number"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(path: &[u8], size: u64) -> Header {
        Header {
            path: path.to_vec(),
            link: Vec::new(),
            kind: Kind::File,
            mode: 0o640,
            size,
            mtime: 1_700_000_000,
        }
    }

    fn block(bytes: &[u8]) -> [u8; BLOCK] {
        bytes.try_into().unwrap()
    }

    #[test]
    fn a_plain_header_survives() {
        let parsed = Header::parse(&block(&header(b"a/b", 77).encode()))
            .unwrap()
            .unwrap();
        assert_eq!(parsed.path, b"a/b");
        assert_eq!((parsed.mode, parsed.size), (0o640, 77));
        assert_eq!(parsed.kind, Kind::File);
    }

    #[test]
    fn fields_too_large_for_a_plain_header_use_an_extended_one() {
        let long = vec![b'x'; 3000];
        let encoded = header(&long, 1 << 40).encode();
        let first = Header::parse(&block(&encoded[..BLOCK])).unwrap().unwrap();
        assert_eq!(first.kind, Kind::Pax);
        let records = pax_records(&encoded[BLOCK..BLOCK + first.size as usize]).unwrap();
        assert_eq!(records[0], (b"path".to_vec(), long));
        assert_eq!(records[1].1, (1u64 << 40).to_string().into_bytes());
    }

    #[test]
    fn damage_is_noticed() {
        let mut damaged = block(&header(b"a", 1).encode());
        damaged[0] ^= 1;
        assert!(Header::parse(&damaged).is_err());
        assert!(Header::parse(&[0; BLOCK]).unwrap().is_none());
        assert!(pax_records(b"99 a=b\n").is_err());
        assert!(pax_records(b"x a=b\n").is_err());
    }
}
