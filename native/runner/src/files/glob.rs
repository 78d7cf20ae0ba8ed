//! Patterns that exclude entries, as in a `.gitignore`, matched in time linear to the path.

use crate::protocol::failure::Failure;

const MAX_PATTERNS: usize = 100;
const MAX_PATTERN_BYTES: usize = 1024;

enum Token {
    Byte(u8),
    /// `?`
    One,
    /// `[a-z]`
    OneOf(Box<[bool; 256]>),
    /// `*`
    Run,
    /// `**` at the end
    Everything,
    /// `**/` at the beginning of a name
    Directories,
    /// In the middle of a directory's name that `Directories` skips.
    InDirectory,
}

struct Pattern {
    tokens: Vec<Token>,
    /// Matches against the whole path instead of a name at any depth.
    anchored: bool,
    directories_only: bool,
}

pub struct Excluded(Vec<Pattern>);

impl Excluded {
    pub fn parse(patterns: &[String]) -> Result<Excluded, Failure> {
        if patterns.len() > MAX_PATTERNS {
            let message = format!("more than {MAX_PATTERNS} patterns");
            return Err(Failure::invalid(message));
        }
        let parsed = patterns.iter().map(|pattern| Pattern::parse(pattern));
        Ok(Excluded(parsed.collect::<Result<_, _>>()?))
    }

    /// Whether a path relative to the root is excluded.
    pub fn contains(&self, path: &[u8], is_directory: bool) -> bool {
        let name = path.rsplit(|b| *b == b'/').next().unwrap_or(path);
        self.0.iter().any(|pattern| {
            (is_directory || !pattern.directories_only)
                && matches(&pattern.tokens, if pattern.anchored { path } else { name })
        })
    }
}

impl Pattern {
    fn parse(text: &str) -> Result<Pattern, Failure> {
        let refused = |why: &str| Failure::invalid(format!("the pattern {text:?} {why}"));
        if text.len() > MAX_PATTERN_BYTES {
            return Err(refused("is too long"));
        }
        if text.starts_with('!') {
            return Err(refused(
                "cannot take back another one; `!` is not supported",
            ));
        }
        let directories_only = text.ends_with('/');
        let body = text.trim_end_matches('/');
        let anchored = body.contains('/');
        let body = body.trim_start_matches('/');
        if body.is_empty() {
            return Err(refused("is empty"));
        }
        let tokens = tokens(body.as_bytes()).ok_or_else(|| refused("has an unfinished [ or \\"))?;
        Ok(Pattern {
            tokens,
            anchored,
            directories_only,
        })
    }
}

fn tokens(mut rest: &[u8]) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut at_name = true;
    while let Some((&first, after)) = rest.split_first() {
        if at_name && rest.starts_with(b"**/") {
            tokens.extend([Token::Directories, Token::InDirectory]);
            rest = &rest[3..];
            continue;
        }
        if at_name && rest == b"**" {
            tokens.push(Token::Everything);
            break;
        }
        at_name = first == b'/';
        rest = after;
        tokens.push(match first {
            b'*' => Token::Run,
            b'?' => Token::One,
            b'[' => {
                let (set, after) = class(after)?;
                rest = after;
                Token::OneOf(set)
            }
            b'\\' => {
                let (&escaped, after) = after.split_first()?;
                rest = after;
                Token::Byte(escaped)
            }
            byte => Token::Byte(byte),
        });
    }
    Some(tokens)
}

/// The content of brackets, negated by a leading `!` or `^`.
fn class(text: &[u8]) -> Option<(Box<[bool; 256]>, &[u8])> {
    let negated = matches!(text.first(), Some(b'!' | b'^'));
    let body = &text[usize::from(negated)..];
    // A closing bracket in first position is literal.
    let end = 1 + body.get(1..)?.iter().position(|b| *b == b']')?;
    let mut set = Box::new([negated; 256]);
    let mut at = 0;
    while at < end {
        let is_range = at + 2 < end && body[at + 1] == b'-';
        let last = if is_range { body[at + 2] } else { body[at] };
        for byte in body[at]..=last {
            set[usize::from(byte)] = !negated;
        }
        at += if is_range { 3 } else { 1 };
    }
    set[usize::from(b'/')] = false;
    Some((set, &body[end + 1..]))
}

/// Follows all positions in the pattern at once, so that no pattern takes exponential time.
fn matches(tokens: &[Token], text: &[u8]) -> bool {
    let mut places = vec![false; tokens.len() + 1];
    let mut next = places.clone();
    places[0] = true;
    skip_what_may_be_empty(tokens, &mut places);
    for &byte in text {
        next.fill(false);
        for (at, token) in tokens.iter().enumerate().filter(|(at, _)| places[*at]) {
            match token {
                Token::Byte(wanted) => next[at + 1] |= *wanted == byte,
                Token::One => next[at + 1] |= byte != b'/',
                Token::OneOf(set) => next[at + 1] |= set[usize::from(byte)],
                Token::Run => next[at] |= byte != b'/',
                Token::Everything => next[at] = true,
                Token::Directories => next[at + 1] |= byte != b'/',
                Token::InDirectory if byte == b'/' => next[at - 1] = true,
                Token::InDirectory => next[at] = true,
            }
        }
        skip_what_may_be_empty(tokens, &mut next);
        std::mem::swap(&mut places, &mut next);
    }
    places[tokens.len()]
}

fn skip_what_may_be_empty(tokens: &[Token], places: &mut [bool]) {
    for (at, token) in tokens.iter().enumerate() {
        match token {
            _ if !places[at] => {}
            Token::Run | Token::Everything => places[at + 1] = true,
            Token::Directories => places[at + 2] = true,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn excludes(pattern: &str, path: &str, is_directory: bool) -> bool {
        Excluded::parse(&[pattern.into()])
            .unwrap()
            .contains(path.as_bytes(), is_directory)
    }

    #[test]
    fn patterns_match_as_in_a_gitignore() {
        for (pattern, path) in [
            ("node_modules", "a/b/node_modules"),
            ("*.log", "deep/er/x.log"),
            ("/build", "build"),
            ("a/*/c", "a/b/c"),
            ("a/**/c", "a/c"),
            ("a/**/c", "a/b/b/c"),
            ("**/cache", "cache"),
            ("**/cache", "x/y/cache"),
            ("logs/**", "logs/a/b"),
            ("*.py[co]", "x.pyc"),
            ("[!a-c]x", "dx"),
            ("[]]x", "]x"),
            ("?", "a"),
            ("a\\*b", "a*b"),
            ("x*y*z", "xaybz"),
        ] {
            assert!(excludes(pattern, path, false), "{pattern} {path}");
        }
        for (pattern, path) in [
            ("node_modules", "node_modules2"),
            ("/build", "a/build"),
            ("a/*/c", "a/b/b/c"),
            ("a/*", "a/b/c"),
            ("logs/**", "logs"),
            ("*.py[co]", "x.py"),
            ("[!a-c]x", "bx"),
            ("**/cache", "x/mycache"),
            ("a\\*b", "axb"),
            ("?", "ab"),
        ] {
            assert!(!excludes(pattern, path, false), "{pattern} {path}");
        }
        assert!(excludes("target/", "target", true));
        assert!(!excludes("target/", "target", false));
    }

    #[test]
    fn invalid_patterns_are_refused() {
        for refused in ["", "/", "!a", "[a", "a\\", &"a".repeat(1025)] {
            assert!(Excluded::parse(&[refused.into()]).is_err(), "{refused}");
        }
        assert!(Excluded::parse(&vec!["a".into(); 101]).is_err());
    }

    #[test]
    fn no_pattern_takes_exponential_time() {
        let time = |stars: usize| {
            let pattern = format!("{}b", "*a".repeat(stars));
            let path = "a".repeat(4000);
            let begun = Instant::now();
            assert!(!excludes(&pattern, &path, false));
            begun.elapsed()
        };
        // A pattern 16 times as long may take 16 times as long, but not exponentially longer.
        assert!(time(400) < time(25).max(std::time::Duration::from_millis(1)) * 200);
    }
}
