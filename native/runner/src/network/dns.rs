//! DNS messages: a parser that trusts nothing, and the few answers that a sandbox needs.

use std::net::Ipv4Addr;

const HEADER_BYTES: usize = 12;
const MAX_NAME_BYTES: usize = 255;
/// How long programs may cache an answer. Short, so that a new policy takes effect soon.
const TTL_SECONDS: u32 = 5;

const TYPE_A: u16 = 1;
const TYPE_ANY: u16 = 255;
const CLASS_IN: u16 = 1;

/// A question that can be answered.
#[derive(Debug, PartialEq, Eq)]
pub struct Query {
    /// Lower case, without the final dot; empty for the root.
    pub name: String,
    pub wants_v4: bool,
    /// Repeated in every answer: the header's id and flags, and the original question.
    id: [u8; 2],
    recursion_desired: bool,
    question: Vec<u8>,
}

/// Cannot be answered; holds the error response, if any.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal(pub Option<Vec<u8>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Address(Ipv4Addr),
    /// The name exists, but has no record of the requested type.
    NoRecord,
    NoSuchName,
    /// The client should ask again.
    Failure,
}

#[derive(Clone, Copy)]
enum Code {
    Success = 0,
    FormatError = 1,
    ServerFailure = 2,
    NameError = 3,
    NotImplemented = 4,
}

/// Parses one message. Only plain queries with one question are answered.
pub fn parse(message: &[u8]) -> Result<Query, Refusal> {
    let Some(header) = message.first_chunk::<HEADER_BYTES>() else {
        return Err(Refusal(None));
    };
    let id = [header[0], header[1]];
    // Two servers could send answers to answers back and forth forever.
    if header[2] & 0x80 != 0 {
        return Err(Refusal(None));
    }
    let recursion_desired = header[2] & 1 != 0;
    let refuse = |code: Code| Refusal(Some(answer_header(id, recursion_desired, code, 0, 0)));
    if (header[2] >> 3) & 0xf != 0 {
        return Err(refuse(Code::NotImplemented));
    }
    let questions = u16::from_be_bytes([header[4], header[5]]);
    if questions != 1 {
        return Err(refuse(Code::FormatError));
    }
    let (name, end) = read_name(message, HEADER_BYTES).ok_or(refuse(Code::FormatError))?;
    let Some([t0, t1, c0, c1]) = message.get(end..end + 4) else {
        return Err(refuse(Code::FormatError));
    };
    let kind = u16::from_be_bytes([*t0, *t1]);
    if u16::from_be_bytes([*c0, *c1]) != CLASS_IN {
        return Err(refuse(Code::NotImplemented));
    }
    Ok(Query {
        name,
        wants_v4: kind == TYPE_A || kind == TYPE_ANY,
        id,
        recursion_desired,
        question: message[HEADER_BYTES..end + 4].to_vec(),
    })
}

/// The name at an offset of a question, and where it ends. A question has no pointers, so the name
/// is read once and only forwards.
fn read_name(message: &[u8], start: usize) -> Option<(String, usize)> {
    let mut name = String::new();
    let mut at = start;
    loop {
        let length = *message.get(at)? as usize;
        at += 1;
        if length == 0 {
            return Some((name, at));
        }
        if length > 63 || at + length - start > MAX_NAME_BYTES {
            return None;
        }
        if !name.is_empty() {
            name.push('.');
        }
        for byte in message.get(at..at + length)? {
            // A dot within a label would split it in two, and one name could pass for another.
            match byte {
                b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => name.push(*byte as char),
                b'A'..=b'Z' => name.push(byte.to_ascii_lowercase() as char),
                _ => return None,
            }
        }
        at += length;
    }
}

impl Query {
    pub fn answer(&self, verdict: Verdict) -> Vec<u8> {
        let (code, answers) = match verdict {
            Verdict::Address(_) => (Code::Success, 1),
            Verdict::NoRecord => (Code::Success, 0),
            Verdict::NoSuchName => (Code::NameError, 0),
            Verdict::Failure => (Code::ServerFailure, 0),
        };
        let mut message = answer_header(self.id, self.recursion_desired, code, 1, answers);
        message.extend_from_slice(&self.question);
        if let Verdict::Address(address) = verdict {
            // A pointer to the name in the question.
            message.extend_from_slice(&[0xc0, HEADER_BYTES as u8]);
            message.extend_from_slice(&TYPE_A.to_be_bytes());
            message.extend_from_slice(&CLASS_IN.to_be_bytes());
            message.extend_from_slice(&TTL_SECONDS.to_be_bytes());
            message.extend_from_slice(&4u16.to_be_bytes());
            message.extend_from_slice(&address.octets());
        }
        message
    }
}

fn answer_header(
    id: [u8; 2],
    recursion_desired: bool,
    code: Code,
    questions: u8,
    answers: u8,
) -> Vec<u8> {
    // An answer, with recursion available.
    let flags = [0x80 | u8::from(recursion_desired), 0x80 | code as u8];
    let mut header = Vec::with_capacity(HEADER_BYTES);
    header.extend_from_slice(&id);
    header.extend_from_slice(&flags);
    header.extend_from_slice(&[0, questions, 0, answers, 0, 0, 0, 0]);
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(name: &str, kind: u16) -> Vec<u8> {
        let mut message = vec![0xab, 0xcd, 0x01, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.').filter(|label| !label.is_empty()) {
            message.push(label.len() as u8);
            message.extend_from_slice(label.as_bytes());
        }
        message.push(0);
        message.extend_from_slice(&kind.to_be_bytes());
        message.extend_from_slice(&CLASS_IN.to_be_bytes());
        message
    }

    fn refusal_code(message: &[u8]) -> Option<u8> {
        parse(message).unwrap_err().0.map(|answer| answer[3] & 0xf)
    }

    #[test]
    fn a_query_is_read_whatever_the_case_of_its_letters() {
        let found = parse(&query("Api.Example.COM", TYPE_A)).unwrap();
        assert_eq!(found.name, "api.example.com");
        assert!(found.wants_v4);
        assert!(!parse(&query("a.b", 28)).unwrap().wants_v4);
    }

    #[test]
    fn an_answer_repeats_the_question_and_carries_the_address() {
        let asked = query("a.test", TYPE_A);
        let answer = parse(&asked)
            .unwrap()
            .answer(Verdict::Address(Ipv4Addr::new(198, 18, 0, 7)));
        assert_eq!(answer[..4], [0xab, 0xcd, 0x81, 0x80]);
        assert_eq!(answer[4..8], [0, 1, 0, 1]);
        assert_eq!(answer[12..asked.len()], asked[12..]);
        assert_eq!(answer[answer.len() - 4..], [198, 18, 0, 7]);
    }

    #[test]
    fn missing_names_are_distinguished_from_names_without_a_record() {
        let asked = parse(&query("a.test", 28)).unwrap();
        let code = |verdict| asked.answer(verdict)[3] & 0xf;
        assert_eq!(code(Verdict::NoSuchName), 3);
        assert_eq!(code(Verdict::NoRecord), 0);
        assert_eq!(code(Verdict::Failure), 2);
    }

    #[test]
    fn odd_or_too_many_labels_are_refused() {
        for label in [
            &b"a.b"[..],
            b"a b",
            b"a\0b",
            b"\xff",
            b"a/b",
            b"a*",
            &[b'a'; 64],
        ] {
            let mut message = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, label.len() as u8];
            message.extend_from_slice(label);
            message.extend_from_slice(&[0, 0, 1, 0, 1]);
            assert_eq!(refusal_code(&message), Some(1), "{label:?}");
        }
    }

    #[test]
    fn anything_but_a_plain_query_is_refused() {
        assert_eq!(parse(&[]), Err(Refusal(None)));
        assert_eq!(parse(&[0; 11]), Err(Refusal(None)));
        let mut message = query("a.test", TYPE_A);
        message[2] = 0x81;
        assert_eq!(parse(&message), Err(Refusal(None)), "an answer");
        message[2] = 0x29;
        assert_eq!(refusal_code(&message), Some(4), "another opcode");
        let mut message = query("a.test", TYPE_A);
        message[5] = 2;
        assert_eq!(refusal_code(&message), Some(1), "two questions");
        let mut message = query("a.test", TYPE_A);
        message[12] = 0xc0;
        assert_eq!(refusal_code(&message), Some(1), "a pointer");
        let long = ["a"; 130].join(".");
        assert_eq!(refusal_code(&query(&long, TYPE_A)), Some(1), "a long name");
    }

    /// Deterministic mutations: bytes flipped, cut and repeated.
    #[test]
    fn damaged_messages_never_crash_the_parser() {
        let mut state = 0x5eed_u64;
        let mut next = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as usize
        };
        let (mut understood, mut refused) = (0, 0);
        for _ in 0..20_000 {
            let mut message = query("some.name.example.com", (next() % 300) as u16);
            for _ in 0..next() % 4 {
                let at = next() % message.len();
                message[at] = next() as u8;
            }
            message.truncate(next() % (message.len() + 1));
            match parse(&message) {
                Ok(found) => {
                    understood += 1;
                    assert!(found.name.len() <= MAX_NAME_BYTES);
                    assert!(found.answer(Verdict::NoSuchName).len() <= 512);
                }
                Err(_) => refused += 1,
            }
        }
        assert!(understood > 100, "{understood} understood");
        assert!(refused > 100, "{refused} refused");
    }
}
