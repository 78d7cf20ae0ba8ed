//! What the text of a command tells of the traps that it sets or lists.

use crate::shells::lines::contains;
use std::collections::BTreeSet;

/// Signals that bash has handlers for in any case. Most of them end it, unless code has a trap for them.
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

/// Whether the command has `trap` list what is trapped. Such a command runs without traps of ours.
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

/// The signals of bash for which the text seems to set a trap: it names them.
pub fn mentioned_traps(text: &[u8]) -> Vec<&'static str> {
    if !contains(text, b"trap") {
        return Vec::new();
    }
    let words = text.split(|byte| !byte.is_ascii_alphanumeric());
    // `SIGUSR1` is USR1.
    let names: BTreeSet<&[u8]> = words
        .map(|word| word.strip_prefix(b"SIG").unwrap_or(word))
        .collect();
    let of_bash = BASH_SIGNALS.iter().map(|(_, name)| *name);
    of_bash
        .filter(|name| names.contains(name.as_bytes()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{lists_traps, mentioned_traps};

    #[test]
    fn a_list_of_traps_is_told_from_a_trap() {
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
        for text in ["kill -USR1 1", "trap x USR10", "trap x AUSR1", "trap"] {
            assert!(mentioned_traps(text.as_bytes()).is_empty(), "{text}");
        }
    }
}
