//! The lines that make a shell run a command and report on it.
//!
//! Our own lines run with stdout and stderr on /dev/null, so `set -x` and DEBUG traps do not print
//! them.

use crate::shells::bash;
use crate::shells::memory::ShellMemory;
use crate::shells::sh;
use crate::shells::traps::lists_traps;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialect {
    Bash {
        /// The descriptor on which bash keeps the socket.
        socket: u64,
        /// How many bytes bash reads at a time.
        reads: usize,
    },
    Sh,
}

/// The signal that makes a shell abandon its command; the shell traps it while the command runs.
/// The trap runs when the foreground program ends, before the next one starts. An interrupt only
/// stops the line if the program dies of it, and at any other moment it can kill busybox. If the
/// code has its own trap for INT, that trap runs instead and the command continues.
pub const STOP_SIGNAL: i32 = 61;
/// Like `STOP_SIGNAL`, but the shell first drops the code's own trap for INT.
pub const ABORT_SIGNAL: i32 = 62;

/// The parts of a command that its shell needs.
pub struct CommandLines<'a> {
    pub number: u32,
    /// The command's stdin, stdout and stderr.
    pub redirections: &'a str,
    pub text: &'a [u8],
    /// The path of the file with the command's script.
    pub file: &'a str,
    /// The path of the file that repairs a bash without its builtins.
    pub repair_file: &'a str,
    pub env: &'a [(String, String)],
    /// A variable that marks the processes that the command starts, until the next command changes
    /// it.
    pub marker: Option<(&'a str, &'a str)>,
    /// The variable with the terminal type, if the shell does not have it yet.
    pub terminal_type: Option<(&'a str, &'a str)>,
    pub cwd: Option<&'a str>,
    /// A file that sets `$?` to the status of the previous command.
    pub status_file: Option<&'a str>,
    /// Where a shell lists traps that exist at the end of the command but are removed before the
    /// report.
    pub trap_list: &'a str,
    pub memory: &'a ShellMemory,
}

impl CommandLines<'_> {
    /// The packets that make the shell run the command, and the content of the file that it then
    /// reads, if any.
    pub fn packets(&self, dialect: Dialect) -> (Vec<Vec<u8>>, Option<Vec<u8>>) {
        match dialect {
            Dialect::Bash { socket, reads } => self.bash_packets(socket, reads),
            Dialect::Sh => (self.sh_packets(), Some(self.sh_text())),
        }
    }

    /// The packets that make a shell report if the command's own lines failed to.
    pub fn closing(&self, dialect: Dialect) -> Vec<Vec<u8>> {
        match dialect {
            Dialect::Bash { socket, .. } => self.bash_closing(socket),
            Dialect::Sh => self.sh_report(),
        }
    }

    /// The traps that are set while the command runs; `trap` is the word that sets them.
    pub fn stop_traps(&self, trap: &str) -> String {
        const GIVE_UP: &str = "\\command kill -INT $$";
        let restored = self
            .memory
            .lost_trap()
            .map_or(String::new(), |body| format!("{trap} -- '{body}' INT;"));
        // The code may list only its own traps, so such a command is stopped by an interrupt
        // instead.
        match lists_traps(self.text) {
            true => format!("{restored}{trap} - {STOP_SIGNAL} {ABORT_SIGNAL};"),
            false => format!(
                "{restored}{trap} -- '\\command trap - INT;{GIVE_UP}' {ABORT_SIGNAL};\
                 {trap} -- '{GIVE_UP}' {STOP_SIGNAL};"
            ),
        }
    }
}

/// Makes a shell print that it cannot enter a directory, and fail.
pub fn refusal_of_directory(cwd: &str) -> String {
    format!(
        "\\command printf 'cd: %s: cannot be entered; the command did not run\\n' {} >&2;\\command false",
        quoted(cwd)
    )
}

/// The variables as assignments in front of a command.
pub fn assignments<'a>(env: impl Iterator<Item = &'a (String, String)>) -> String {
    env.map(|(name, value)| format!("{name}={} ", quoted(value)))
        .collect()
}

pub fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|part| part == word)
}

/// The first startup lines: read the system-wide profile, then report the resulting PATH.
pub fn system_profile(dialect: Dialect) -> Vec<Vec<u8>> {
    let text = match dialect {
        Dialect::Bash { socket, .. } => format!(
            " \\exec 2>/dev/null;[ -r /etc/profile ]&&. /etc/profile </dev/null\n \
             \\builtin printf '\\4%s' \"$PATH\" >&{socket}\n"
        ),
        Dialect::Sh => "[ -r /etc/profile ]&&. /etc/profile </dev/null\n\
             \\command printf '\\4%s' \"$PATH\" >&0\n"
            .into(),
    };
    lines(&text, dialect)
}

/// Then read the user's profile, with the PATH of the sandbox.
pub fn user_profile(dialect: Dialect, path: &str) -> Vec<Vec<u8>> {
    let path = format!("PATH={};export PATH\n", quoted(path));
    let profile = match dialect {
        Dialect::Bash { .. } => {
            " if [ -r ~/.bash_profile ];then . ~/.bash_profile </dev/null;\
             elif [ -r ~/.bash_login ];then . ~/.bash_login </dev/null;\
             elif [ -r ~/.profile ];then . ~/.profile </dev/null;fi\n"
        }
        Dialect::Sh => "[ -r ~/.profile ]&&. ~/.profile </dev/null\n",
    };
    lines(&format!(" {path}{profile}"), dialect)
}

/// Finally, set up the state that commands expect, and report that the shell is ready.
pub fn ready(dialect: Dialect) -> Vec<Vec<u8>> {
    match dialect {
        Dialect::Bash { socket, .. } => {
            let text = format!(
                " \\exec <&{socket} >/dev/null 2>&1\n PS1= PS2= PS4='+ ';\\unset HISTFILE TMOUT MAILCHECK\n \
                 \\set +o history +H +x;\\builtin history -c;\\shopt -s execfail;HISTCONTROL=ignorespace\n"
            );
            let mut packets = lines(&text, dialect);
            packets.extend(bash::ready(socket));
            packets
        }
        Dialect::Sh => {
            let text = format!(
                "PS1= PS2= PS4='+ ';\\unset HISTFILE TMOUT MAILCHECK\n\
                 \\set +x;\\command printf '\\5' >&0\n{}",
                sh::IDLE
            );
            lines(&text, dialect)
        }
    }
}

/// Puts each line into separate packets, because some shells discard the rest of their input buffer
/// after an error.
fn lines(text: &str, dialect: Dialect) -> Vec<Vec<u8>> {
    let size = match dialect {
        Dialect::Bash { .. } => bash::READ_BYTES,
        Dialect::Sh => sh::READ_BYTES,
    };
    text.split_inclusive('\n')
        .flat_map(|line| chunks(line.as_bytes(), size))
        .collect()
}

pub fn chunks(bytes: &[u8], size: usize) -> Vec<Vec<u8>> {
    bytes.chunks(size).map(<[u8]>::to_vec).collect()
}

/// Escapes bytes for a `$'…'` string on a single line.
pub fn escaped(bytes: &[u8]) -> Vec<u8> {
    let mut to = Vec::with_capacity(bytes.len() * 5 / 4);
    for byte in bytes {
        match byte {
            b'\n' => to.extend_from_slice(b"\\n"),
            b'\'' | b'\\' => to.extend_from_slice(&[b'\\', *byte]),
            byte => to.push(*byte),
        }
    }
    to
}

/// Whether an escape may be lost: in Big5, GBK and Shift JIS, `\` can be the second byte of a character.
pub fn hides_escape(escaped: &[u8]) -> bool {
    (escaped.windows(2)).any(|pair| !pair[0].is_ascii() && pair[1] == b'\\')
}

/// Appends bytes for a `'…'` string. NUL is dropped, as shells do when they read a script.
pub fn push_quoted(to: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        match byte {
            0 => {}
            b'\'' => to.extend_from_slice(b"'\\''"),
            byte => to.push(*byte),
        }
    }
}

/// A path as a shell word. Bytes that are not UTF-8 are written in octal: in bash's lines they
/// could be part of a character in another encoding.
pub fn path_word(path: &Path) -> String {
    let octal = |byte: &u8| format!("\\{byte:03o}");
    match path.to_str() {
        Some(path) => quoted(path),
        None => {
            let bytes: String = path.as_os_str().as_bytes().iter().map(octal).collect();
            format!("\"$(\\command printf '{bytes}')\"")
        }
    }
}

pub fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command<'a>(memory: &'a ShellMemory, text: &'a [u8]) -> CommandLines<'a> {
        CommandLines {
            number: u32::MAX,
            redirections: "</dev/null >/run/sandkasten/out 2>&1",
            text,
            file: "/run/sandkasten/cmd-0",
            repair_file: "/run/sandkasten/repair",
            env: &[],
            marker: Some(("MARKER", "exec")),
            terminal_type: Some(("TERM", "xterm")),
            cwd: Some("/it's"),
            status_file: None,
            trap_list: "/run/sandkasten/traps",
            memory,
        }
    }

    fn memory_with(flags: &str) -> ShellMemory {
        let mut memory = ShellMemory::new("/workspace");
        memory.take_flags(flags);
        memory
    }

    #[test]
    fn quotes_survive_quoting() {
        assert_eq!(quoted("a'b"), r"'a'\''b'");
    }

    #[test]
    fn bash_gets_short_commands_inline_and_long_ones_in_a_file() {
        let memory = memory_with("hiBs");
        let is_in_file = |text: &[u8], reads| {
            let dialect = Dialect::Bash { socket: 255, reads };
            command(&memory, text).packets(dialect).1.is_some()
        };
        assert!(!is_in_file(b"cat <<E\nit's\nE", bash::LONG_READ_BYTES));
        assert!(is_in_file(&[b'x'; 2000], bash::LONG_READ_BYTES));
        assert!(is_in_file(b"true", bash::READ_BYTES));
        assert!(!is_in_file(
            "echo \"é\"; echo".as_bytes(),
            bash::LONG_READ_BYTES
        ));
        for text in ["echo 'é'", "echo é\necho", "echo é\\n;", "echo é"] {
            assert!(is_in_file(text.as_bytes(), bash::LONG_READ_BYTES), "{text}");
        }
        for flags in ["ahiBs", "hiBHs"] {
            let memory = memory_with(flags);
            let reads = bash::LONG_READ_BYTES;
            let dialect = Dialect::Bash { socket: 255, reads };
            assert!(command(&memory, b"true").packets(dialect).1.is_some());
        }
    }

    #[test]
    fn a_short_command_fits_completely_in_the_first_packet() {
        let memory = memory_with("hiBs");
        for length in 0..1000 {
            let text = [&vec![b'x'; length], b"END".as_slice()].concat();
            let reads = bash::LONG_READ_BYTES;
            let dialect = Dialect::Bash { socket: 255, reads };
            if let (packets, None) = command(&memory, &text).packets(dialect) {
                assert!(contains(&packets[0], b"END"), "{length}");
            }
        }
    }

    #[test]
    fn no_packet_exceeds_one_read_of_a_shell() {
        let memory = memory_with("hiBs");
        for length in 0..300 {
            // A command that may enable tracing is sent in a different form.
            let text = [b"set".as_slice(), &vec![b'\''; length]].concat();
            let text = &text[(length % 2) * 3..];
            for reads in [bash::READ_BYTES, bash::LONG_READ_BYTES] {
                let dialect = Dialect::Bash { socket: 255, reads };
                let (bash, _) = command(&memory, text).packets(dialect);
                assert!(bash.iter().all(|packet| packet.len() <= reads));
            }
            let (sh, _) = command(&memory, text).packets(Dialect::Sh);
            assert!(sh.iter().all(|packet| packet.len() <= sh::READ_BYTES));
        }
    }
}
