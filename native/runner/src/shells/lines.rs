//! The lines that make a shell run a command and report on it.
//!
//! Every line of ours runs while stdout and stderr are /dev/null, so that `set -x` and DEBUG traps
//! show none of them.

use crate::shells::bash;
use crate::shells::memory::ShellMemory;
use crate::shells::sh;
use crate::shells::traps::lists_traps;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialect {
    Bash {
        /// The descriptor at which bash keeps the socket.
        socket: u64,
        /// How much it reads at once.
        reads: usize,
    },
    Sh,
}

/// While a command runs, its shell traps this signal and gives up the command for it. The trap waits
/// for the program in the foreground and comes before the next one, which an interrupt does not unless
/// the program dies of it. And an interrupt at any other moment can be the end of busybox. The code's
/// own trap for INT runs instead, if it has one, and the command goes on.
pub const STOP_SIGNAL: i32 = 61;
/// The same, but the shell drops the code's trap for INT before.
pub const ABORT_SIGNAL: i32 = 62;

/// One command, as the shell needs to know it.
pub struct CommandLines<'a> {
    pub number: u32,
    /// The command's stdin, stdout and stderr.
    pub redirections: &'a str,
    pub text: &'a [u8],
    /// Where the shell finds the file.
    pub file: &'a str,
    /// Where bash finds what mends it.
    pub repair_file: &'a str,
    pub env: &'a [(String, String)],
    /// A variable that marks what the command starts, until the next one sets it.
    pub marker: Option<(&'a str, &'a str)>,
    /// The variable that names the terminal's type, for a shell that does not have it yet.
    pub terminal_type: Option<(&'a str, &'a str)>,
    pub cwd: Option<&'a str>,
    /// A file that gives `$?` its value.
    pub status_file: Option<&'a str>,
    /// Where a shell lists the traps that it has when the command ends, and not any more when it reports.
    pub trap_list: &'a str,
    pub memory: &'a ShellMemory,
}

impl CommandLines<'_> {
    /// What has the shell run the command, and the content of the file that it then reads, if any.
    pub fn packets(&self, dialect: Dialect) -> (Vec<Vec<u8>>, Option<Vec<u8>>) {
        match dialect {
            Dialect::Bash { socket, reads } => self.bash_packets(socket, reads),
            Dialect::Sh => (self.sh_packets(), Some(self.sh_text())),
        }
    }

    /// Has a shell report when the command's own lines failed to.
    pub fn closing(&self, dialect: Dialect) -> Vec<Vec<u8>> {
        match dialect {
            Dialect::Bash { socket, .. } => self.bash_closing(socket),
            Dialect::Sh => self.sh_report(),
        }
    }

    /// The traps for the time of the command; `trap` is the word that sets them.
    pub fn stop_traps(&self, trap: &str) -> String {
        const GIVE_UP: &str = "\\command kill -INT $$";
        let restored = self
            .memory
            .lost_trap()
            .map_or(String::new(), |body| format!("{trap} -- '{body}' INT;"));
        // A list shows only the code's own traps. Then an interrupt has to do.
        match lists_traps(self.text) {
            true => format!("{restored}{trap} - {STOP_SIGNAL} {ABORT_SIGNAL};"),
            false => format!(
                "{restored}{trap} -- '{GIVE_UP}' {STOP_SIGNAL};\
                 {trap} -- '\\command trap - INT;{GIVE_UP}' {ABORT_SIGNAL};"
            ),
        }
    }
}

/// Has a shell say that it cannot enter a directory, and fail.
pub fn refusal_of_directory(cwd: &str) -> String {
    format!(
        "\\command printf 'cd: %s: cannot be entered; the command did not run\\n' {} >&2;\\command false",
        quoted(cwd)
    )
}

/// Each variable as a shell takes it before a command.
pub fn assignments<'a>(env: impl Iterator<Item = &'a (String, String)>) -> String {
    env.map(|(name, value)| format!("{name}={} ", quoted(value)))
        .collect()
}

pub fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|part| part == word)
}

/// The first lines: the profile of all users, then a report of the resulting PATH.
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

/// Then the profile of this user, with the PATH that the sandbox was given.
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

/// Last, what commands must find, and word that the shell is ready.
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

/// Each line in separate packets, because some shells drop what they have read after an error.
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

/// For between `$'` and `'`, and on one line.
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

/// For between two single quotes. NUL is dropped, as a shell does that reads a text.
pub fn push_quoted(to: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        match byte {
            0 => {}
            b'\'' => to.extend_from_slice(b"'\\''"),
            byte => to.push(*byte),
        }
    }
}

/// A path as a word. In bash's lines, bytes that are not UTF-8 could be half a character of another encoding.
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
    fn bash_gets_a_short_command_on_its_line_and_a_long_one_in_a_file() {
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
    fn all_of_a_command_on_its_line_is_in_the_first_packet() {
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
    fn no_packet_is_longer_than_what_a_shell_reads_at_once() {
        let memory = memory_with("hiBs");
        for length in 0..300 {
            // A command that may trace gets lines of another kind.
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
