//! The state of a shell that the runner keeps between commands, from the shell's reports.

use std::path::{Path, PathBuf};

/// The placeholder trap of a signal until the command sets its own.
pub const SHIELD: &str = ": until the command sets its own";

pub struct ShellMemory {
    pub cwd: PathBuf,
    pub old_cwd: PathBuf,
    /// `$?` for the next command.
    pub status: i32,
    pub xtrace: bool,
    pub verbose: bool,
    /// The shell exports what our lines set (`set -a`) or expands `!` in them; true until the flags
    /// are known.
    pub alters_lines: bool,
    errexit: bool,
    /// Bodies of the user's traps, quoted as inside single quotes.
    pub debug_trap: Option<String>,
    pub err_trap: Option<String>,
    /// The trapped signals, each with the body of its trap.
    trapped: Vec<(String, String)>,
    /// The trap for INT that the shell dropped when a command was aborted. The next command
    /// restores it.
    lost_trap: Option<String>,
    /// The shell started without TERM and has not had a terminal so far.
    pub lacks_terminal_type: bool,
}

impl ShellMemory {
    pub fn new(cwd: impl Into<PathBuf>) -> ShellMemory {
        ShellMemory {
            cwd: cwd.into(),
            old_cwd: PathBuf::new(),
            status: 0,
            xtrace: false,
            verbose: false,
            alters_lines: true,
            errexit: false,
            debug_trap: None,
            err_trap: None,
            trapped: Vec::new(),
            lost_trap: None,
            lacks_terminal_type: false,
        }
    }

    /// The part that carries over to a new shell process.
    pub fn of_new_shell(&self) -> ShellMemory {
        ShellMemory::new(self.cwd.clone())
    }

    pub fn take_flags(&mut self, flags: &str) {
        self.xtrace = flags.contains('x');
        self.verbose = flags.contains('v');
        self.alters_lines = flags.contains(['a', 'H']);
        self.errexit = flags.contains('e');
    }

    pub fn take_directory(&mut self, cwd: PathBuf, old_cwd: PathBuf) {
        if is_directory_name(&cwd) {
            self.cwd = cwd;
        }
        if old_cwd.as_os_str().is_empty() || is_directory_name(&old_cwd) {
            self.old_cwd = old_cwd;
        }
    }

    /// The directory as text, for display; its name may not be UTF-8.
    pub fn shown_cwd(&self) -> String {
        self.cwd.to_string_lossy().into_owned()
    }

    /// Stores the traps that the shell reported. An `aborted` command made the shell drop its trap
    /// for INT.
    pub fn take_reported_traps(&mut self, text: &str, aborted: bool) {
        let before = self.trap_of("INT").or(self.lost_trap());
        let before = before.map(String::from);
        self.take_traps(text);
        self.lost_trap = before.filter(|_| aborted && !self.knows("INT"));
    }

    pub fn lost_trap(&self) -> Option<&str> {
        self.lost_trap.as_deref()
    }

    /// Parses the output of `trap`: lines of `trap -- 'body' NAME`, whose bodies may span lines.
    fn take_traps(&mut self, text: &str) {
        self.debug_trap = None;
        self.err_trap = None;
        self.trapped.clear();
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
                // bash writes `SIGUSR1`.
                name => {
                    let name = name.strip_prefix("SIG").unwrap_or(name);
                    if name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                        self.trapped.push((name.into(), body.into()));
                    }
                }
            }
        }
    }

    /// Whether code had a trap for a signal at the last report. An ignored signal has an empty
    /// body.
    pub fn traps(&self, name: &str) -> bool {
        (self.trap_of(name)).is_some_and(|body| !body.is_empty() && body != SHIELD)
    }

    fn trap_of(&self, name: &str) -> Option<&str> {
        let trap = self.trapped.iter().find(|(trapped, _)| trapped == name);
        trap.map(|(_, body)| body.as_str())
    }

    /// The signals that are trapped or ignored.
    pub fn known(&self) -> impl Iterator<Item = &str> {
        self.trapped.iter().map(|(name, _)| name.as_str())
    }

    pub fn knows(&self, name: &str) -> bool {
        self.known().any(|known| known == name)
    }

    /// The signals whose placeholder trap the last command did not replace.
    pub fn shielded(&self) -> impl Iterator<Item = &str> {
        let is_shielded = |(_, body): &&(String, String)| body == SHIELD;
        self.trapped
            .iter()
            .filter(is_shielded)
            .map(|(name, _)| name.as_str())
    }

    /// `$?` of the last command, unless restoring it would count as a failure.
    pub fn status_to_restore(&self) -> Option<i32> {
        (self.status != 0 && !self.errexit && self.err_trap.is_none()).then_some(self.status)
    }
}

fn is_directory_name(name: &Path) -> bool {
    name.is_absolute() && name.as_os_str().len() <= libc::PATH_MAX as usize
}

/// Splits the text at the quote that closes a body, in which `'\''` stands for a quote.
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
    fn traps_with_quotes_and_newlines_are_parsed() {
        let mut memory = ShellMemory::new("/");
        let text = "trap -- 'echo '\\''a\nb'\\''' ERR\ntrap -- 'dbg' DEBUG\n\
                    trap -- 'x' SIGUSR1\ntrap -- '' USR2\n";
        memory.take_traps(text);
        assert_eq!(memory.err_trap.as_deref(), Some("echo '\\''a\nb'\\''"));
        assert_eq!(memory.debug_trap.as_deref(), Some("dbg"));
        assert!(memory.traps("USR1") && !memory.traps("USR2"));
        assert!(memory.knows("USR2") && !memory.knows("ALRM"));
        memory.take_reported_traps("", false);
        assert!(memory.err_trap.is_none() && memory.debug_trap.is_none());
    }

    #[test]
    fn a_dropped_int_trap_is_remembered_until_a_command_reports() {
        let mut memory = ShellMemory::new("/");
        memory.take_reported_traps("trap -- 'x' SIGINT\n", false);
        for _ in 0..2 {
            memory.take_reported_traps("", true);
            assert_eq!(memory.lost_trap(), Some("x"));
        }
        memory.take_reported_traps("", false);
        assert_eq!(memory.lost_trap(), None);
        memory.take_reported_traps("", true);
        assert_eq!(memory.lost_trap(), None);
    }

    #[test]
    fn a_status_is_not_restored_if_that_would_count_as_a_failure() {
        let mut memory = ShellMemory::new("/");
        memory.status = 3;
        assert_eq!(memory.status_to_restore(), Some(3));
        memory.take_flags("ehimBs");
        assert_eq!(memory.status_to_restore(), None);
    }
}
