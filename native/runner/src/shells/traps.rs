//! Finds the traps that a command sets, removes or lists, judged by its text.

use crate::shells::lines::contains;
use std::collections::BTreeSet;

/// Signals that bash always has handlers for. Most of them end bash unless code traps them.
pub const BASH_SIGNALS: [(i32, &str); 15] = [
    (libc::SIGUSR1, "USR1"),
    (libc::SIGUSR2, "USR2"),
    (libc::SIGALRM, "ALRM"),
    (libc::SIGILL, "ILL"),
    (libc::SIGTRAP, "TRAP"),
    (libc::SIGABRT, "ABRT"),
    (libc::SIGBUS, "BUS"),
    (libc::SIGFPE, "FPE"),
    (libc::SIGSEGV, "SEGV"),
    (libc::SIGPIPE, "PIPE"),
    (libc::SIGXCPU, "XCPU"),
    (libc::SIGXFSZ, "XFSZ"),
    (libc::SIGVTALRM, "VTALRM"),
    (libc::SIGWINCH, "WINCH"),
    (libc::SIGSYS, "SYS"),
];

/// Whether the command lists traps. Such a command runs without our own traps.
pub fn lists_traps(text: &[u8]) -> bool {
    const LISTING: [&[u8]; 14] = [
        b"-p", b"-P", b"1>", b"2>", b"\n", b";", b"|", b"&", b")", b">", b"<", b"}", b"`", b"#",
    ];
    let is_of_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-./$".contains(byte);
    (0..text.len()).any(|at| {
        let Some(rest) = text[at..].strip_prefix(b"trap") else {
            return false;
        };
        let blanks = rest.iter().take_while(|byte| b" \t".contains(byte));
        let next = &rest[blanks.count()..];
        let lists = next.is_empty()
            || rest.starts_with(b"\"")
            || rest.starts_with(b"'")
            || LISTING.iter().any(|word| next.starts_with(word));
        lists && !text[..at].last().is_some_and(is_of_word)
    })
}

/// The traps that a text seems to set and remove. `SIGUSR1` is stored as USR1.
#[derive(Default)]
struct TrapWords<'a> {
    set: BTreeSet<&'a [u8]>,
    removed: BTreeSet<&'a [u8]>,
}

impl TrapWords<'_> {
    fn new(text: &[u8]) -> TrapWords<'_> {
        let mut words = TrapWords::default();
        if !contains(text, b"trap") {
            return words;
        }
        for command in text.split(|byte| b"\n;&|(){}`".contains(byte)) {
            let names = command.split(|byte| !byte.is_ascii_alphanumeric());
            let names = names.map(|name| name.strip_prefix(b"SIG").unwrap_or(name));
            match removes_traps(command) {
                true => words.removed.extend(names),
                false => words.set.extend(names),
            }
        }
        words
    }
}

/// Whether a simple command is `trap - NAME…`, possibly after a word such as `then`.
fn removes_traps(command: &[u8]) -> bool {
    let mut words = command
        .split(|byte| b" \t".contains(byte))
        .filter(|word| !word.is_empty() && *word != b"--");
    let is_trap = |word: &[u8]| word.strip_prefix(b"\\").unwrap_or(word) == b"trap";
    words.any(is_trap) && words.next() == Some(b"-")
}

/// The `BASH_SIGNALS` for which the text seems to set a trap, because it names them.
pub fn mentioned_traps(text: &[u8]) -> Vec<&'static str> {
    let words = TrapWords::new(text);
    let of_bash = BASH_SIGNALS.iter().map(|(_, name)| *name);
    of_bash
        .filter(|name| words.set.contains(name.as_bytes()))
        .collect()
}

/// Whether the text seems to set a trap for this signal.
pub fn sets_trap(text: &[u8], name: &str) -> bool {
    TrapWords::new(text).set.contains(name.as_bytes())
}

/// Whether the text seems to remove the trap for this signal.
pub fn removes_trap(text: &[u8], name: &str) -> bool {
    TrapWords::new(text).removed.contains(name.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::{lists_traps, mentioned_traps, removes_trap, sets_trap};

    #[test]
    fn listing_traps_is_distinguished_from_setting_one() {
        for text in [
            "trap",
            "trap;",
            "trap\nls",
            " trap | cat",
            "$(trap)",
            "x; trap -p INT",
            "trap >f",
            "`trap`",
            "eval 'trap'",
            "trap 2>&1",
            "\\trap -p",
        ] {
            assert!(lists_traps(text.as_bytes()), "{text}");
        }
        for text in [
            "trap - INT",
            "trap 'x' INT",
            "trap -l",
            "./trap",
            "traps",
            "echo my-trap",
            "",
        ] {
            assert!(!lists_traps(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn a_trap_is_mentioned_by_the_name_of_its_signal() {
        for text in ["trap x USR1", "trap x INT SIGUSR1;", "trap 'x' USR1 INT"] {
            assert_eq!(mentioned_traps(text.as_bytes()), ["USR1"], "{text}");
        }
        assert!(sets_trap(b"trap x HUP", "HUP"));
        for text in ["kill -USR1 1", "trap x USR10", "trap x AUSR1", "trap"] {
            assert!(mentioned_traps(text.as_bytes()).is_empty(), "{text}");
        }
    }

    #[test]
    fn removing_a_trap_does_not_count_as_setting_it() {
        for text in [
            "trap - USR1",
            "ls; trap -- - INT SIGUSR1; x",
            "if a\nthen \\trap - USR1\nfi",
            "{ trap - USR1; }",
        ] {
            assert!(removes_trap(text.as_bytes(), "USR1"), "{text}");
            assert!(mentioned_traps(text.as_bytes()).is_empty(), "{text}");
        }
        let text = b"trap x USR1; wait; trap - USR1";
        assert!(removes_trap(text, "USR1") && sets_trap(text, "USR1"));
        assert!(!removes_trap(b"trap x USR1; kill - USR1", "USR1"));
    }
}
