//! Makes bash run a command and report on it.
//!
//! A line assigns a script to `PROMPT_COMMAND`, which bash evaluates before its next prompt. A
//! short script is on the line itself; for a long one, the line makes bash read it from a file. A
//! script evaluated there prints no job numbers and no `exit`, unlike at the prompt. Unlike in a
//! sourced file, `BASH_SOURCE` and error messages name no file, and bash 5.2 survives an unfinished
//! `$(`. The script passes the command to `eval` and ends with the report.
//!
//! User code may have redefined anything. `\` bypasses aliases and `command` bypasses functions.
//! The report first makes sure that `command` works, using only what a function cannot replace.

use crate::shells::lines::{
    ABORT_SIGNAL, CommandLines, STOP_SIGNAL, assignments, chunks, contains, escaped, hides_escape,
    path_word, push_quoted, quoted, refusal_of_directory,
};
use crate::shells::memory::SHIELD;
use crate::shells::traps::{lists_traps, mentioned_traps};
use std::collections::BTreeSet;

/// Versions before 5.1 read at most this much at a time and lose the rest of a longer packet.
pub const READ_BYTES: usize = 128;
/// Later versions read this much at a time.
pub const LONG_READ_BYTES: usize = 1024;
/// Builtins that our lines use and a command may have disabled.
const NEEDED: &str = "cd enable eval exec mapfile printf read set trap unset";

/// Traps that bash always reports.
const REPORTED_TRAPS: [&str; 6] = ["DEBUG", "ERR", "INT", "USR1", "USR2", "ALRM"];
/// bash sets these itself and ignores their values in its environment.
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
/// Its value is not checked: with telemetry, every command sets it, and running a command in the
/// wrong trace is better than not running it.
const TRACE_VARIABLE: &str = "TRACEPARENT";
/// Words that may enable tracing or set a DEBUG trap, or that make the test of `command` print an
/// error.
const SHOWING_WORDS: [&[u8]; 6] = [b"set", b"trap", b"source", b". ", b"eval", b"enable"];

/// The script that bash evaluates in POSIX mode when `command` does not work.
pub fn repair_text() -> String {
    format!(
        "\\unset -f unset enable command;\\enable command {NEEDED};\
         case $POSIXLY_CORRECT in +)\\unset POSIXLY_CORRECT;;esac"
    )
}

/// The last lines of the startup. The report has a second byte if bash reads `LONG_READ_BYTES` at a
/// time.
pub fn ready(socket: u64) -> [Vec<u8>; 2] {
    let line = format!(" \\builtin printf '\\5%s' >&{socket}");
    let line = format!("{line:<width$}+", width = LONG_READ_BYTES - 1);
    [line.into_bytes(), b"\n".to_vec()]
}

impl CommandLines<'_> {
    /// Makes bash read the script and run it. Stdin becomes the command's own, so bash must already
    /// have the lines that restore its input after an abandoned command.
    pub fn bash_packets(&self, socket: u64, reads: usize) -> (Vec<Vec<u8>>, Option<Vec<u8>>) {
        let number = self.number;
        // With a line of ours before the command, numbering starts at 0, so the command begins at
        // 1.
        let line = if self.before_text().is_empty() { 1 } else { 0 };
        let (command, report) = (self.bash_command(), self.report(socket));
        // Has no effect after a complete report.
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
        // A subshell may consume packets. bash must then not run a part of the command: without the
        // first packet it has none of the command, and without a later one the quote is never
        // closed.
        let is_short = short.len() <= reads && !self.memory.alters_lines && !hides_escape(&short);
        let (mut packets, file) = if is_short {
            short.extend(escaped(report.as_bytes()));
            // bash only keeps a new line number that is set in a redirection. This one closes a
            // descriptor that is not open.
            short.extend_from_slice(format!("'; }} 99<&\"${{PPID:LINENO={line}:0}}-\"").as_bytes());
            (chunks(&short, reads), None)
        } else {
            // `read` takes a system call for each byte; before 4.4, `mapfile` has no `-d`.
            let read = format!(
                " {{ \\command mapfile -td '' PROMPT_COMMAND||\\command read -rd '' PROMPT_COMMAND; }} \
                 <{}\"$(((LINENO={line})*0))\"",
                self.file.trim_end_matches('0')
            );
            // The newline and comment absorb what `read` trims at the end; NUL is where it stops.
            let text = [&command, report.as_bytes(), b"\n#\0"].concat();
            (chunks(read.as_bytes(), READ_BYTES), Some(text))
        };
        // bash must have read all of it when the command begins, so it shares a packet with the end
        // of the previous line.
        match packets.last_mut() {
            Some(last) if last.len() + restore.len() <= reads => last.extend(restore.into_bytes()),
            _ => packets.push(restore.into_bytes()),
        }
        // While this is unread, the command is still running.
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
        // The traps come first: once the command's pipes are open, the traps are set.
        // An unset variable is the only error that ends just the script.
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
        // The last argument becomes `$_`, which must not reveal our file to the code.
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

    /// Shields bash from a signal that arrives just before the command sets its trap, which would
    /// end bash. Shields that the previous command did not replace are removed.
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

    /// Reports the traps, and disables whatever would expose our own lines: tracing, a DEBUG trap,
    /// and an ERR trap, which would run again for a failed `eval`.
    fn untrace(&self) -> String {
        let mut reported: BTreeSet<&str> = REPORTED_TRAPS.into_iter().collect();
        reported.extend(mentioned_traps(self.text));
        reported.extend(self.memory.known());
        let reported: Vec<&str> = reported.into_iter().collect();
        let reported = reported.join(" ");
        format!("\\command trap -p {reported};\\command trap - DEBUG ERR;\\command set +x;")
    }

    /// Fails with a message unless bash is in the command's directory and every variable has its
    /// requested value. Without this check, bash would run the command with the old value of a
    /// readonly variable.
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

    /// A line before the command: settings that must not apply to the `eval`.
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

    /// Functions cannot replace assignments, expansions and reserved words, nor special builtins in
    /// POSIX mode. So the report uses nothing else until `command` is known to work.
    fn report(&self, socket: u64) -> String {
        let number = self.number;
        let works = "\\command printf -v PROMPT_COMMAND \"$PROMPT_COMMAND +\"";
        // Every byte here costs time in every command, so the rarely needed repair is in a file.
        let repair = format!(
            "POSIXLY_CORRECT=${{POSIXLY_CORRECT-+}};\\eval \"$(<{0})\"||\\. {0}",
            self.repair_file
        );
        let capture = "PROMPT_COMMAND=\"#$? $-\"";
        let check = format!(
            "{works};case $PROMPT_COMMAND in *+);;*){repair};;esac;{}",
            self.disarm()
        );
        // A shell that can no longer report exits with the command's status.
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

    /// Whether our own commands are invisible: tracing is off, there is no DEBUG trap, and the
    /// command is unlikely to have enabled either. Hiding our commands costs time.
    fn is_plain(&self) -> bool {
        let memory = self.memory;
        !memory.xtrace
            && memory.debug_trap.is_none()
            && !SHOWING_WORDS.iter().any(|word| contains(self.text, word))
    }

    /// The report on a command that was abandoned.
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

    /// From here on, the stop signals are ignored, because the command has ended. Also enables the
    /// builtins that the report needs.
    fn disarm(&self) -> String {
        let enable = match contains(self.text, b"enable") {
            true => format!("\\command enable command {NEEDED};"),
            false => String::new(),
        };
        format!("\\command trap '' {STOP_SIGNAL} {ABORT_SIGNAL};{enable}")
    }

    /// Leaves a directory that was requested for this command only. A deleted directory or a
    /// readonly variable must not prevent the report.
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
