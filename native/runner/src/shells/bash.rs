//! How bash runs a command and reports on it.
//!
//! A line gives `PROMPT_COMMAND` a text, which bash runs before its next prompt: the line itself has the
//! text when it is short, and otherwise has bash read it from a file. There,
//! unlike at the prompt, it prints no job numbers and no `exit`, and unlike in a file that it
//! sources, neither `BASH_SOURCE` nor errors name a file, and 5.2 stays sound after an unfinished
//! `$(`. The text hands the command to `eval` and ends with the report.
//!
//! User code may have redefined anything. `\` keeps aliases away and `command` functions; the
//! report first sees to it that `command` does its work, with nothing but what no function can
//! replace.

use crate::shells::lines::{
    ABORT_SIGNAL, CommandLines, STOP_SIGNAL, assignments, chunks, contains, escaped, hides_escape,
    path_word, push_quoted, quoted, refusal_of_directory,
};
use crate::shells::memory::SHIELD;
use crate::shells::traps::{lists_traps, mentioned_traps};
use std::collections::BTreeSet;

/// Versions before 5.1 read no more at a time, and lose the rest of a longer packet.
pub const READ_BYTES: usize = 128;
/// What the others read.
pub const LONG_READ_BYTES: usize = 1024;
/// What a command may have disabled.
const NEEDED: &str = "cd enable eval exec mapfile printf read set trap unset";

/// Of which traps bash always tells.
const TOLD_TRAPS: [&str; 6] = ["DEBUG", "ERR", "INT", "USR1", "USR2", "ALRM"];
/// bash sets these itself, and ignores them in its environment.
const OWN_VARIABLES: [&str; 8] = [
    "BASHOPTS",
    "BASH_VERSINFO",
    "EUID",
    "FUNCNAME",
    "GROUPS",
    "PPID",
    "SHELLOPTS",
    "UID",
];
/// Not checked: a command should rather run in another trace than not at all, and with telemetry on
/// every command has it.
const TRACE_VARIABLE: &str = "TRACEPARENT";
/// What may lead to a trace or a DEBUG trap, or has the test of `command` fail aloud.
const SHOWING_WORDS: [&[u8]; 6] = [b"set", b"trap", b"source", b". ", b"eval", b"enable"];

/// What bash evaluates in POSIX mode when `command` does not do its work.
pub fn repair_text() -> String {
    format!(
        "\\unset -f unset enable command;\\enable command {NEEDED};\
         case $POSIXLY_CORRECT in +)\\unset POSIXLY_CORRECT;;esac"
    )
}

/// The last lines of its start. The report has a second byte when bash has read all of it.
pub fn ready(socket: u64) -> [Vec<u8>; 2] {
    let line = format!(" \\builtin printf '\\5%s' >&{socket}");
    let line = format!("{line:<width$}+", width = LONG_READ_BYTES - 1);
    [line.into_bytes(), b"\n".to_vec()]
}

impl CommandLines<'_> {
    /// Has bash take the text and run it. What restores bash's input when the command is given up
    /// must reach it beforehand, because its stdin is the command's own by then.
    pub fn bash_packets(&self, socket: u64, reads: usize) -> (Vec<Vec<u8>>, Option<Vec<u8>>) {
        let number = self.number;
        // The line before the command counts as none.
        let line = if self.before_text().is_empty() { 1 } else { 0 };
        let (command, report) = (self.bash_command(), self.report(socket));
        // Does nothing when the report was made.
        let give_up = format!(
            "\\command printf '\\1 {number} %s' \"$?\" >&{socket};\\command exec <&{socket}"
        );
        let made = "case ${#PROMPT_COMMAND} in 2);;*)";
        let null = ">/dev/null 2>&1";
        let restore = match self.is_plain() {
            true => format!("\n {made}{{ {give_up}; }} {null};;esac\n"),
            false => format!("\n {{ {made}{give_up};;esac; }} {null}\n"),
        };
        let mut short = [b" { PROMPT_COMMAND=$'", escaped(&command).as_slice()].concat();
        // A subshell may take packets away. Then bash must not run a part of the command: without the
        // first packet there is none of it, and without another one the quote has no end.
        let is_short = short.len() <= reads && !self.memory.alters_lines && !hides_escape(&short);
        let (mut packets, file) = if is_short {
            short.extend(escaped(report.as_bytes()));
            // Redirections are where bash keeps a new line number. This one closes what is not open.
            short.extend_from_slice(format!("'; }} 99<&\"${{PPID:LINENO={line}:0}}-\"").as_bytes());
            (chunks(&short, reads), None)
        } else {
            // `read` takes a system call for each byte; before 4.4, `mapfile` has no `-d`.
            let read = format!(
                " {{ \\command mapfile -td '' PROMPT_COMMAND||\\command read -rd '' PROMPT_COMMAND; }} \
                 <{}\"$(((LINENO={line})*0))\"",
                self.file.trim_end_matches('0')
            );
            // What `read` may cut off the end, and where it stops.
            let text = [&command, report.as_bytes(), b"\n#\0"].concat();
            (chunks(read.as_bytes(), READ_BYTES), Some(text))
        };
        // bash must have all of it when the command begins, so it is in one packet with the end of the
        // line before.
        match packets.last_mut() {
            Some(last) if last.len() + restore.len() <= reads => last.extend(restore.into_bytes()),
            _ => packets.push(restore.into_bytes()),
        }
        // As long as this is unread, the command runs.
        packets.push(b"\n".to_vec());
        (packets, file)
    }

    /// The text up to the end of the command; the report follows.
    fn bash_command(&self) -> Vec<u8> {
        let mut text = String::from("PROMPT_COMMAND=;");
        for (name, value) in self.marker.iter().chain(&self.terminal_type) {
            text.push_str(&format!("\\command export {name}={value};"));
        }
        if let Some(cwd) = self.cwd {
            text.push_str(&format!("\\command cd -- {}||\\command true;", quoted(cwd)));
        }
        // The traps come first, so that a command whose pipes are open has them.
        // An unset variable is the one error that ends a text, and nothing else.
        let redirections = self.redirections;
        text.push_str(&format!(
            "{}{}\\command exec {redirections}||${{SANDKASTEN_NO_PIPES?}};",
            self.stop_traps("\\command trap"),
            self.shield()
        ));
        let before = self.before_text();
        let env = assignments(self.settable());
        let check = self.check();
        if let Some(check) = &check {
            text.push_str(&format!("{env}\\command eval {check}&&{{ "));
        }
        // The last argument becomes `$_`, where the code must not find our file.
        if let (Some(file), true) = (self.status_file, before.is_empty()) {
            text.push_str(&format!("\\command . {file} '';"));
        }
        text.push_str(&env);
        let mut bytes = [text.as_bytes(), b"\\command eval '"].concat();
        push_quoted(&mut bytes, before.as_bytes());
        push_quoted(&mut bytes, self.text);
        bytes.extend_from_slice(if check.is_some() { b"';};" } else { b"';" });
        bytes
    }

    /// A command that is about to trap a signal can get it a moment too early, and bash would end. What
    /// the command leaves of that is removed before the next one.
    fn shield(&self) -> String {
        let mut named = mentioned_traps(self.text);
        if lists_traps(self.text) {
            named.clear();
        }
        let left = self.memory.shielded();
        let mut text = String::new();
        for name in left.filter(|name| !named.contains(name)) {
            text.push_str(&format!("\\command trap - {name};"));
        }
        for name in named.iter().filter(|name| !self.memory.knows(name)) {
            text.push_str(&format!("\\command trap '{SHIELD}' {name};"));
        }
        text
    }

    /// Tells of traps, and ends what would show our own lines: a trace, a DEBUG trap, and an ERR trap,
    /// which would run for a failed `eval` again.
    fn untrace(&self) -> String {
        let mut told: BTreeSet<&str> = TOLD_TRAPS.into_iter().collect();
        told.extend(mentioned_traps(self.text));
        told.extend(self.memory.known());
        let told: Vec<&str> = told.into_iter().collect();
        let told = told.join(" ");
        format!("\\command trap -p {told};\\command trap - DEBUG ERR;\\command set +x;")
    }

    /// Fails, and says why, unless bash is in the command's directory and every variable has the value that
    /// the command is to find. bash runs a command with the old value of a variable that is readonly.
    fn check(&self) -> Option<String> {
        let directory = self.cwd.map(|cwd| {
            let refusal = refusal_of_directory(cwd);
            format!("{{ [[ . -ef {} ]]||{{ {refusal}; }}; }}", quoted(cwd))
        });
        let variables = self.settable().filter(|(name, _)| name != TRACE_VARIABLE);
        let checks: Vec<String> = (directory.into_iter())
            .chain(variables.map(|(name, value)| {
                format!(
                    "{{ [[ ${{{name}-}} == {} ]]||{{ \\command printf \
                     \"sandkasten: {name} cannot be set in this shell; the command did not run\\n\" >&2;\
                     \\command false; }}; }}",
                    quoted(value)
                )
            }))
            .collect();
        (!checks.is_empty()).then(|| quoted(&checks.join("&&")))
    }

    fn settable(&self) -> impl Iterator<Item = &(String, String)> {
        (self.env.iter()).filter(|(name, _)| !OWN_VARIABLES.contains(&name.as_str()))
    }

    /// A line before the command's own: what must not see the `eval`.
    fn before_text(&self) -> String {
        let mut hidden = String::new();
        if self.memory.xtrace {
            hidden.push_str("\\command set -x;");
        }
        if let Some(body) = &self.memory.debug_trap {
            hidden.push_str(&format!("\\command trap -- '{body}' DEBUG;"));
        }
        if let Some(body) = &self.memory.err_trap {
            hidden.push_str(&format!("\\command trap -- '{body}' ERR;"));
        }
        if hidden.is_empty() {
            return hidden;
        }
        if let Some(file) = self.status_file {
            hidden.push_str(&format!("\\command . {file} '';"));
        }
        format!("{{ {hidden} }} >/dev/null 2>&1\n")
    }

    /// Only assignments, expansions and reserved words are safe from functions, and in POSIX mode
    /// the special builtins.
    fn report(&self, socket: u64) -> String {
        let number = self.number;
        let works = "\\command printf -v PROMPT_COMMAND \"$PROMPT_COMMAND +\"";
        // Every byte here costs time with every command, so that what is hardly ever needed is not.
        let repair = format!(
            "POSIXLY_CORRECT=${{POSIXLY_CORRECT-+}};\\eval \"$(<{0})\"||\\. {0}",
            self.repair_file
        );
        let capture = "PROMPT_COMMAND=\"#$? $-\"";
        let check = format!(
            "{works};case $PROMPT_COMMAND in *+);;*){repair};;esac;{}",
            self.disarm()
        );
        // A shell that can say nothing more ends with the command's status.
        let restore = format!(
            "\\command exec <&{socket} >/dev/null 2>&1||\\command exit ${{PROMPT_COMMAND//[!0-9]}}"
        );
        let tell = format!(
            "{}\\command printf '\\2 {number} %s\\0%s\\0%s\\0' \
             \"$PROMPT_COMMAND\" \"${{PWD-}}\" \"${{OLDPWD-}}\"",
            self.way_back()
        );
        let untrace = self.untrace();
        let report = match self.is_plain() {
            true => format!("{capture};{check}{restore};{{ {untrace}{tell}; }} >&0"),
            false => format!(
                "{{ {capture};{{ {check}{untrace} }} >&{socket}; }} >/dev/null 2>&1;{restore};{tell} >&0"
            ),
        };
        format!("{report};\\command unset PROMPT_COMMAND;PROMPT_COMMAND='#+'")
    }

    /// Whether nothing shows our own commands: no trace, no DEBUG trap, and hardly a chance that
    /// the command has set one. Hiding them costs time.
    fn is_plain(&self) -> bool {
        let memory = self.memory;
        !memory.xtrace
            && memory.debug_trap.is_none()
            && !SHOWING_WORDS.iter().any(|word| contains(self.text, word))
    }

    /// The report on a command that was given up half-way.
    pub fn bash_closing(&self, socket: u64) -> Vec<Vec<u8>> {
        let number = self.number;
        let lines = [
            format!(
                " {{ \\command printf '\\1 {number} - %s' \"$-\";{}{} }} >&{socket} 2>/dev/null\n",
                self.disarm(),
                self.untrace()
            ),
            format!(
                " \\command exec >/dev/null 2>&1;{}\\command unset PROMPT_COMMAND\n",
                self.way_back()
            ),
            format!(
                " \\command printf '\\2 {number} - -\\0%s\\0%s\\0' \
                 \"${{PWD-}}\" \"${{OLDPWD-}}\" >&{socket}\n"
            ),
        ];
        (lines.iter())
            .flat_map(|line| chunks(line.as_bytes(), READ_BYTES))
            .collect()
    }

    /// From here on, the stop signals come too late; and what is needed is enabled.
    fn disarm(&self) -> String {
        let enable = match contains(self.text, b"enable") {
            true => format!("\\command enable command {NEEDED};"),
            false => String::new(),
        };
        format!("\\command trap '' {STOP_SIGNAL} {ABORT_SIGNAL};{enable}")
    }

    /// A directory that was for one command only is left again. One that is gone, or a variable
    /// that cannot be changed, must not keep the report back.
    pub(super) fn way_back(&self) -> String {
        let memory = self.memory;
        match self.cwd {
            None => String::new(),
            Some(_) => format!(
                "\\command cd -- {}||\\command true;\\command eval {}||\\command true;",
                path_word(&memory.cwd),
                quoted(&format!("OLDPWD={}", path_word(&memory.old_cwd)))
            ),
        }
    }
}
