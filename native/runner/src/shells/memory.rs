//! What the runner remembers of a shell between commands, from what the shell reports.

use crate::shells::lines::contains;

/// `exit` and its like end the shell, and only then it matters where it was.
const ENDING_WORDS: [&[u8]; 3] = [b"exit", b"exec", b"set -"];

pub struct ShellMemory {
    pub cwd: String,
    pub old_cwd: String,
    /// `$?` for the next command.
    pub status: i32,
    pub xtrace: bool,
    pub verbose: bool,
    /// What a line sets is exported, or a `!` in it replaced; or both are not known yet.
    pub alters_lines: bool,
    errexit: bool,
    /// Bodies of the user's traps, as they stand between single quotes.
    pub debug_trap: Option<String>,
    pub exit_trap: Option<String>,
    pub err_trap: Option<String>,
    /// The signals that have a trap.
    trapped: Vec<String>,
    /// The EXIT trap is the user's with our farewell before it.
    pub says_farewell: bool,
    /// The shell started without TERM, and has had no terminal so far.
    pub lacks_terminal_type: bool,
}

impl ShellMemory {
    pub fn new(cwd: &str) -> ShellMemory {
        ShellMemory {
            cwd: cwd.into(),
            old_cwd: String::new(),
            status: 0,
            xtrace: false,
            verbose: false,
            alters_lines: true,
            errexit: false,
            debug_trap: None,
            exit_trap: None,
            err_trap: None,
            trapped: Vec::new(),
            says_farewell: false,
            lacks_terminal_type: false,
        }
    }

    /// What is left of it when a new shell takes over.
    pub fn of_new_shell(&self) -> ShellMemory {
        ShellMemory::new(&self.cwd)
    }

    pub fn take_flags(&mut self, flags: &str) {
        self.xtrace = flags.contains('x');
        self.verbose = flags.contains('v');
        self.alters_lines = flags.contains(['a', 'H']);
        self.errexit = flags.contains('e');
    }

    pub fn take_directory(&mut self, cwd: &str, old_cwd: &str) {
        if is_directory_name(cwd) {
            self.cwd = cwd.into();
        }
        if old_cwd.is_empty() || is_directory_name(old_cwd) {
            self.old_cwd = old_cwd.into();
        }
    }

    /// What `trap` printed: lines of `trap -- 'body' NAME`, whose bodies may have many lines.
    pub fn take_traps(&mut self, text: &str, farewell: &str) {
        self.debug_trap = None;
        self.exit_trap = None;
        self.err_trap = None;
        self.trapped.clear();
        self.says_farewell = false;
        let mut rest = text;
        while let Some(start) = rest.find("trap -- '") {
            rest = &rest[start + "trap -- '".len()..];
            let Some((body, after)) = until_closing_quote(rest) else {
                return;
            };
            rest = after;
            let name = after.split_whitespace().next().unwrap_or_default();
            match name {
                "DEBUG" => self.debug_trap = Some(body.into()),
                "ERR" => self.err_trap = Some(body.into()),
                "EXIT" => {
                    let own = body.strip_prefix(farewell);
                    self.says_farewell = own.is_some();
                    self.exit_trap = Some(own.unwrap_or(body))
                        .filter(|own| !own.is_empty())
                        .map(String::from);
                }
                // bash writes `SIGUSR1`. What is ignored has no body.
                name if !body.is_empty() => {
                    let name = name.strip_prefix("SIG").unwrap_or(name);
                    self.trapped.push(name.into());
                }
                _ => {}
            }
        }
    }

    /// Whether code has a trap for a signal, as of the last report.
    pub fn traps(&self, name: &str) -> bool {
        self.trapped.iter().any(|trapped| trapped == name)
    }

    /// Whether the command may end the shell, so that it should say where it was.
    pub fn may_end_by(&self, text: &[u8]) -> bool {
        self.errexit || ENDING_WORDS.iter().any(|word| contains(text, word))
    }

    /// `$?` of the last command, unless giving it to the next one would count as a failure.
    pub fn status_to_restore(&self) -> Option<i32> {
        (self.status != 0 && !self.errexit && self.err_trap.is_none()).then_some(self.status)
    }
}

fn is_directory_name(name: &str) -> bool {
    name.starts_with('/') && name.len() <= libc::PATH_MAX as usize
}

/// Splits after a body in single quotes, in which `'\''` stands for a quote.
fn until_closing_quote(text: &str) -> Option<(&str, &str)> {
    let mut from = 0;
    loop {
        let quote = from + text[from..].find('\'')?;
        if !text[quote..].starts_with("'\\''") {
            return Some((&text[..quote], &text[quote + 1..]));
        }
        from = quote + "'\\''".len();
    }
}

#[cfg(test)]
mod tests {
    use super::ShellMemory;

    #[test]
    fn traps_are_understood_with_quotes_and_lines_in_them() {
        let mut memory = ShellMemory::new("/");
        let text = "trap -- 'say bye;echo '\\''a\nb'\\''' EXIT\ntrap -- 'dbg' DEBUG\n\
                    trap -- 'x' SIGUSR1\ntrap -- '' USR2\n";
        memory.take_traps(text, "say bye;");
        assert_eq!(memory.exit_trap.as_deref(), Some("echo '\\''a\nb'\\''"));
        assert!(memory.says_farewell);
        assert_eq!(memory.debug_trap.as_deref(), Some("dbg"));
        assert!(memory.traps("USR1") && !memory.traps("USR2"));
        memory.take_traps("", "say bye;");
        assert!(memory.exit_trap.is_none() && memory.debug_trap.is_none());
    }

    #[test]
    fn a_status_is_not_restored_where_that_would_be_a_failure() {
        let mut memory = ShellMemory::new("/");
        memory.status = 3;
        assert_eq!(memory.status_to_restore(), Some(3));
        memory.take_flags("ehimBs");
        assert_eq!(memory.status_to_restore(), None);
    }
}
