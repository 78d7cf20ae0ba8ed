//! Makes shells other than bash (dash, busybox) run a command and report on it.
//!
//! These shells source a file with redirections, and code cannot name the descriptors that they
//! save for it. In the file, `eval` keeps the file's name out of error messages. Functions cannot
//! replace a special builtin there; `\` bypasses aliases and `command` bypasses other functions.

use crate::shells::lines::{
    ABORT_SIGNAL, CommandLines, STOP_SIGNAL, assignments, chunks, contains, push_quoted, quoted,
    refusal_of_directory,
};

/// busybox reads up to 1 KiB at a time, dash 8 KiB.
pub const READ_BYTES: usize = 512;
/// At its prompt, busybox takes the death of a child for the end of its input. So these shells idle
/// in this loop instead, until a packet arrives.
pub const IDLE: &str = "while ! \\command read -r _; do :; done\n";

impl CommandLines<'_> {
    pub fn sh_packets(&self) -> Vec<Vec<u8>> {
        let Self {
            file, redirections, ..
        } = self;
        let mut line = String::new();
        if self.memory.xtrace {
            line.push_str("\\set +x;");
        }
        // Otherwise the shell prints the `eval` of the file that it reads.
        if self.memory.verbose {
            line.push_str("\\set +v;");
        }
        for (name, value) in self.marker.iter().chain(&self.terminal_type) {
            line.push_str(&format!("\\export {name}={value};"));
        }
        line.push_str(&self.stop_traps("\\trap"));
        if let Some(body) = &self.memory.err_trap {
            line.push_str(&format!("\\trap -- '{body}' ERR;"));
        }
        let source = match self.env.is_empty() {
            true => format!("\\. {file} {redirections}"),
            false => format!(
                "{}\\command . {file} {redirections}",
                assignments(self.env.iter())
            ),
        };
        let run = match self.status_file {
            // The last argument becomes `$_`, which must not reveal our file to the code.
            Some(status) => format!("{{ \\. {status} '';{source};}}"),
            None => source,
        };
        line.push_str(&match self.cwd {
            None => run,
            // `cd` also fails in the right directory if `PWD` is readonly. `&&` prevents an exit by
            // `set -e`.
            Some(cwd) => format!(
                "if \\command cd -- {0}||\\command test . -ef {0};then {run};\
                 else \\eval {1} {redirections}&&:;fi",
                quoted(cwd),
                quoted(&refusal_of_directory(cwd))
            ),
        });
        line.push('\n');
        let mut packets = vec![b"\n".to_vec()];
        packets.extend(chunks(line.as_bytes(), READ_BYTES));
        packets.extend(self.report_lines());
        packets
    }

    pub fn sh_text(&self) -> Vec<u8> {
        let mut text = b"\\eval '".to_vec();
        if self.memory.verbose {
            text.extend_from_slice(b"\\set -v;");
        }
        if self.memory.xtrace {
            text.extend_from_slice(b"\\set -x;");
        }
        push_quoted(&mut text, self.text);
        if self.ends_err_trap() {
            push_quoted(&mut text, self.err_trap_end().as_bytes());
        }
        text.extend_from_slice(b"'\n");
        text
    }

    /// Whether an ERR trap may be set at the end of the command, and a line of ours can follow the
    /// text: an unterminated here-document would swallow that line.
    pub fn ends_err_trap(&self) -> bool {
        let may_have = self.memory.err_trap.is_some() || contains(self.text, b"ERR");
        may_have && !contains(self.text, b"<<")
    }

    /// Reports and removes an ERR trap, which busybox would run again for a failed `eval`. The line
    /// has no quotes, so it cannot close a quote that the command left open.
    fn err_trap_end(&self) -> String {
        format!(
            "\n\n\\eval \\\\trap\\>{}\\;\\\\trap - ERR 2\\>/dev/null\\;return $?",
            self.trap_list
        )
    }

    /// The report for a shell that idles again after an interrupt discarded its lines.
    pub fn sh_report(&self) -> Vec<Vec<u8>> {
        let mut packets = vec![b"\n".to_vec()];
        packets.extend(self.report_lines());
        packets
    }

    fn report_lines(&self) -> Vec<Vec<u8>> {
        let before = format!(
            "\\trap '' {STOP_SIGNAL} {ABORT_SIGNAL};\\unset -f command;\\trap >&0;{}\\command printf '\\2 {} %s %s\\0%s\\0%s\\0' ",
            self.way_back(),
            self.number
        );
        let after = " \"$-\" \"${PWD-}\" \"${OLDPWD-}\" >&0";
        let report = format!("\\eval {}\"$?\"{}\n", quoted(&before), quoted(after));
        let mut packets = chunks(report.as_bytes(), READ_BYTES);
        packets.push(IDLE.as_bytes().to_vec());
        packets
    }
}
