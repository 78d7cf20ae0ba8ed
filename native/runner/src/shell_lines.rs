//! The lines that make a shell run a command and report on it.
//!
//! User code runs in the shell itself, so it may have redefined anything. `\` keeps aliases away,
//! `builtin` (bash) or `command` (sh) functions. Every line of ours runs while stdout and stderr
//! are /dev/null, so that `set -x` and DEBUG traps show none of them.

use crate::shell_memory::ShellMemory;

/// Old versions of bash read so little at a time, and lose the rest of a longer packet.
const BASH_READ_BYTES: usize = 128;
/// busybox reads up to 1 KiB, dash 8 KiB.
const SH_READ_BYTES: usize = 512;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialect {
    /// The number is the descriptor at which bash keeps the socket.
    Bash {
        socket: u64,
    },
    Sh,
}

/// One command, as the shell needs to know it.
pub struct CommandLines<'a> {
    pub number: u32,
    /// The command's stdin, stdout and stderr.
    pub redirections: &'a str,
    pub text: &'a [u8],
    /// Where `sh` finds the text.
    pub file: &'a str,
    pub env: &'a [(String, String)],
    /// A variable that marks what the command starts, until the next one sets it.
    pub marker: Option<(&'a str, &'a str)>,
    pub cwd: Option<&'a str>,
    /// A file that gives `$?` its value.
    pub status_file: Option<&'a str>,
    /// Where the shell says on its way out in which directory it is, when the command may end it.
    pub farewell: Option<&'a str>,
    pub memory: &'a ShellMemory,
}

impl CommandLines<'_> {
    pub fn packets(&self, dialect: Dialect) -> Vec<Vec<u8>> {
        match dialect {
            Dialect::Bash { socket } => self.for_bash(socket),
            Dialect::Sh => self.for_sh(),
        }
    }

    /// What the shell sources. bash changes its descriptors in it, so that none are saved.
    pub fn file_content(&self, dialect: Dialect) -> Vec<u8> {
        match dialect {
            Dialect::Sh => self.text.to_vec(),
            Dialect::Bash { .. } => [self.prologue().as_bytes(), b"\n", self.text].concat(),
        }
    }

    /// bash keeps the socket where its children do not get it, and has no other descriptor of
    /// ours open. What restores its input must reach it with the command, because its stdin is
    /// the command's own by then.
    fn for_bash(&self, socket: u64) -> Vec<Vec<u8>> {
        let number = self.number;
        // `builtin` would keep the assignments from what the command runs.
        let source = match self.env.is_empty() {
            true => format!(" \\builtin . {}\n", self.file),
            false => format!(" {}\\. {}\n", assignments(self.env), self.file),
        };
        // The empty line brings the parser back to a beginning after a syntax error.
        let restore = format!(
            "\n {{ \\builtin printf '\\1 {number} %s %s' \"$?\" \"$-\" >&{socket};\\exec <&{socket};\
             \\builtin set +x; }} >/dev/null 2>&1\n"
        );
        let mut packets = Vec::new();
        if source.len() + restore.len() > BASH_READ_BYTES {
            // Only the end of the line need travel with what follows it.
            packets = chunks(&source.as_bytes()[..source.len() - 1], BASH_READ_BYTES);
            packets.push(format!("\n{restore}").into_bytes());
        } else {
            packets.push((source + &restore).into_bytes());
        }
        let traps = format!(
            " {{ \\builtin trap -p DEBUG ERR EXIT >&{socket};\\builtin trap - DEBUG; }} \
             >/dev/null 2>&1\n"
        );
        packets.extend(chunks(traps.as_bytes(), BASH_READ_BYTES));
        let report = format!(
            " \\exec >/dev/null 2>&1;{}\\builtin printf '\\2 {number} - -\\0%s\\0%s\\0' \
             \"${{PWD-}}\" \"${{OLDPWD-}}\" >&0\n",
            self.way_back("\\builtin")
        );
        packets.extend(chunks(report.as_bytes(), BASH_READ_BYTES));
        packets
    }

    fn prologue(&self) -> String {
        let mut text = String::new();
        if let Some((name, value)) = self.marker {
            text.push_str(&format!("\\builtin export {name}={value};"));
        }
        if let Some(cwd) = self.cwd {
            text.push_str(&format!("\\builtin cd -- {}&&", quoted(cwd)));
        }
        // An unset variable is the one error that ends a file, and nothing else.
        let redirections = self.redirections;
        text.push_str(&format!("\\exec {redirections}||${{SANDKASTEN_NO_PIPES?}}"));
        let mut hidden = String::new();
        if self.memory.xtrace {
            hidden.push_str("\\builtin set -x;");
        }
        if let Some(trap) = self.exit_trap() {
            hidden.push_str(&format!("\\builtin {trap};"));
        }
        if let Some(body) = &self.memory.debug_trap {
            hidden.push_str(&format!("\\builtin trap -- '{body}' DEBUG;"));
        }
        if let Some(file) = self.status_file {
            hidden.push_str(&format!("\\builtin . {file};"));
        }
        if !hidden.is_empty() {
            text.push_str(&format!(";{{ {hidden} }} >/dev/null 2>&1"));
        }
        text
    }

    /// Other shells save what they redirect at descriptors that no code can name.
    fn for_sh(&self) -> Vec<Vec<u8>> {
        let Self {
            number,
            file,
            redirections,
            ..
        } = self;
        let mut line = String::new();
        if let Some((name, value)) = self.marker {
            line.push_str(&format!("\\export {name}={value};"));
        }
        if let Some(trap) = self.exit_trap() {
            line.push_str(&format!("\\{trap};"));
        }
        if let Some(cwd) = self.cwd {
            line.push_str(&format!("\\command cd -- {}&&", quoted(cwd)));
        }
        let source = match self.env.is_empty() {
            true => format!("\\. {file} {redirections}"),
            false => format!("{}\\command . {file} {redirections}", assignments(self.env)),
        };
        match self.status_file {
            Some(status) => line.push_str(&format!("{{ \\. {status};{source};}}\n")),
            None => line.push_str(&format!("{source}\n")),
        }
        let before = format!(
            "\\unset -f command;\\trap >&0;{}\\command printf '\\2 {number} %s %s\\0%s\\0%s\\0' ",
            self.way_back("\\command")
        );
        let after = " \"$-\" \"${PWD-}\" \"${OLDPWD-}\" >&0";
        let report = format!("\\eval {}\"$?\"{}\n", quoted(&before), quoted(after));
        let mut packets = vec![b"\n".to_vec()];
        packets.extend(chunks(line.as_bytes(), SH_READ_BYTES));
        packets.extend(chunks(report.as_bytes(), SH_READ_BYTES));
        packets.push(SH_IDLE.as_bytes().to_vec());
        packets
    }

    /// A directory that was for one command only is left again.
    fn way_back(&self, prefix: &str) -> String {
        let memory = self.memory;
        match self.cwd {
            None => String::new(),
            Some(_) => format!(
                "{prefix} cd -- {}; OLDPWD={};",
                quoted(&memory.cwd),
                quoted(&memory.old_cwd)
            ),
        }
    }

    /// The EXIT trap that this command needs, when it is not the one that the shell has.
    fn exit_trap(&self) -> Option<String> {
        let own = self.memory.exit_trap.as_deref();
        match (self.farewell, own, self.memory.says_farewell) {
            (Some(pipe), own, _) => Some(format!(
                "trap -- '{}{}' EXIT",
                farewell_body(pipe),
                own.unwrap_or_default()
            )),
            (None, Some(own), true) => Some(format!("trap -- '{own}' EXIT")),
            (None, None, true) => Some("trap - EXIT".into()),
            (None, _, false) => None,
        }
    }
}

/// Says where the shell is when it ends. What follows it is the user's own trap.
pub fn farewell_body(pipe: &str) -> String {
    format!("command printf \"%s\\0\" \"${{PWD-}}\" >{pipe};")
}

/// busybox takes the death of a child for the end of its input when it idles at its prompt, so
/// shells other than bash idle here, until a packet wakes them.
const SH_IDLE: &str = "while ! \\command read -r _; do :; done\n";

/// The first lines: what belongs to all users, then word of the PATH that came of it.
pub fn system_profile(dialect: Dialect) -> Vec<Vec<u8>> {
    let text = match dialect {
        Dialect::Bash { socket } => format!(
            " \\exec 2>/dev/null;[ -r /etc/profile ]&&. /etc/profile </dev/null\n \
             \\builtin printf '\\4%s' \"$PATH\" >&{socket}\n"
        ),
        Dialect::Sh => "[ -r /etc/profile ]&&. /etc/profile </dev/null\n\
             \\command printf '\\4%s' \"$PATH\" >&0\n"
            .into(),
    };
    lines(&text, dialect)
}

/// Then what belongs to this user, with the PATH that the sandbox was given.
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
    let text = match dialect {
        Dialect::Bash { socket } => format!(
            " \\exec <&{socket} >/dev/null 2>&1\n PS1= PS2= PS4='+ ';\\unset HISTFILE TMOUT MAILCHECK\n \
             \\set +o history +H +x;\\builtin history -c;\\shopt -s execfail;HISTCONTROL=ignorespace\n \\builtin printf '\\5' >&{socket}\n"
        ),
        Dialect::Sh => format!(
            "PS1= PS2= PS4='+ ';\\unset HISTFILE TMOUT MAILCHECK\n\
             \\set +x;\\command printf '\\5' >&0\n{SH_IDLE}"
        ),
    };
    lines(&text, dialect)
}

/// Each line in packets of its own, because some shells forget what they had read after an error.
fn lines(text: &str, dialect: Dialect) -> Vec<Vec<u8>> {
    let size = match dialect {
        Dialect::Bash { .. } => BASH_READ_BYTES,
        Dialect::Sh => SH_READ_BYTES,
    };
    text.split_inclusive('\n')
        .flat_map(|line| chunks(line.as_bytes(), size))
        .collect()
}

fn chunks(bytes: &[u8], size: usize) -> Vec<Vec<u8>> {
    bytes.chunks(size).map(<[u8]>::to_vec).collect()
}

fn assignments(env: &[(String, String)]) -> String {
    env.iter()
        .map(|(name, value)| format!("{name}={} ", quoted(value)))
        .collect()
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
            file: "/run/sandkasten/cmd",
            env: &[],
            marker: Some(("MARKER", "exec")),
            cwd: Some("/it's"),
            status_file: None,
            farewell: None,
            memory,
        }
    }

    #[test]
    fn quotes_survive_quoting() {
        assert_eq!(quoted("a'b"), r"'a'\''b'");
    }

    #[test]
    fn no_packet_is_longer_than_what_a_shell_reads_at_once() {
        let memory = ShellMemory::new("/workspace");
        for length in 0..300 {
            let text = vec![b'\''; length];
            let bash = command(&memory, &text).packets(Dialect::Bash { socket: 255 });
            assert!(bash.iter().all(|packet| packet.len() <= BASH_READ_BYTES));
            let sh = command(&memory, &text).packets(Dialect::Sh);
            assert!(sh.iter().all(|packet| packet.len() <= SH_READ_BYTES));
        }
    }
}
