//! The process of a shell, in which `cd`, variables, functions and jobs persist between commands.
//!
//! The shell is interactive, so an error or an interrupt returns it to its prompt instead of ending
//! it. It reads its lines from a socket, and reports on the same socket.

use crate::execs::Execs;
use crate::processes::launch::{self, Launch};
use crate::processes::proc_tree::{self, Origin};
use crate::processes::{Group, SharedDirectory, terminal};
use crate::protocol::failure::Failure;
use crate::server::context::Context;
use crate::server::poll::Poll;
use crate::server::token::Token;
use crate::shells::lines::{self, Dialect};
use crate::shells::socket::ShellSocket;
use crate::shells::{ShellId, Shells, bash};
use crate::sys;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const SHELL_DIRECTORIES: [&str; 4] = ["/bin", "/usr/bin", "/usr/local/bin", "/busybox"];
/// Profile files that run longer are skipped.
const START_TIME: Duration = Duration::from_secs(10);
/// bash moves its terminal, or what it takes for one, to the highest free descriptor up to this.
const BASH_SOCKET: u64 = 255;

pub struct ShellProgram {
    pub(super) kind: &'static str,
    path: String,
}

pub fn find_program() -> Option<ShellProgram> {
    ["bash", "sh"].into_iter().find_map(|kind| {
        SHELL_DIRECTORIES
            .iter()
            .map(|dir| format!("{dir}/{kind}"))
            .find(|path| Path::new(path).exists())
            .map(|path| ShellProgram { kind, path })
    })
}

pub struct ShellProcess {
    pub(super) pid: i32,
    pub(super) group: Group,
    pub(super) socket: ShellSocket,
    pub(super) dialect: Dialect,
    /// False while the shell reads its profile files.
    pub(super) ready: bool,
    /// The process was unusable and has been killed.
    pub(super) discarded: bool,
    started_at: Instant,
    /// Its command line in /proc, which changes if it replaces itself by another program.
    command_line: Vec<u8>,
    /// Keeps the process's directory after its end. None if there were too many threads.
    pub(super) directory: Option<SharedDirectory>,
}

impl ShellProcess {
    /// False if the shell has replaced itself by another program.
    pub fn is_shell(&self) -> bool {
        let name = std::fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        name.strip_suffix(b"\0") == Some(&self.command_line)
    }

    /// True if the shell can neither read lines nor report, because it has closed all copies of its
    /// socket.
    pub fn is_cut_off(&self) -> bool {
        self.socket.closed && self.is_shell()
    }

    /// True if the shell is deadlocked: busybox interrupted inside a lock of the C library waits
    /// for that lock.
    pub fn is_stuck(&self, uid: u32, gid: u32) -> bool {
        self.is_shell() && proc_tree::waits_for_lock(self.pid, uid, gid)
    }

    /// True if the shell has read all its lines and waits for more; false also where the kernel
    /// does not provide this.
    pub fn waits_for_lines(&self) -> bool {
        self.socket.is_drained() && proc_tree::is_asleep(self.pid)
    }

    pub fn starts_too_long(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.started_at) > START_TIME
    }

    /// Kills the process and sends it no more lines until it is reaped.
    pub fn discard(&mut self) {
        self.ready = false;
        self.discarded = true;
        let _ = sys::kill(self.pid, libc::SIGKILL);
    }

    /// Makes epoll report when the shell sends a packet or accepts more lines.
    pub fn watch(&mut self, id: ShellId, poll: &Poll) {
        if self.socket.closed {
            // epoll would report it as ready forever.
            poll.remove(self.socket.fd());
        } else if let Some(interest) = self.socket.changed_interest() {
            let _ = poll.modify(self.socket.fd(), interest, Token::Report(id));
        }
    }
}

impl Shells {
    pub(super) fn start(&mut self, id: ShellId, cx: &Context) -> Result<(), Failure> {
        let program = self.program.as_ref();
        let Some((kind, path)) = program.map(|program| (program.kind, program.path.clone())) else {
            return Err(Failure::new(
                "no_shell",
                "the image has no shell; run programs by their arguments instead",
            ));
        };
        self.try_start(id, kind, &path, cx)
            .map_err(|error| Failure::io("start the shell", &path, &error))
    }

    fn try_start(&mut self, id: ShellId, kind: &str, path: &str, cx: &Context) -> io::Result<()> {
        let sandbox = &self.sandbox;
        let Some(shell) = self.by_id.get_mut(&id) else {
            return Ok(());
        };
        sandbox.limits.check_room()?;
        let dialect = match kind {
            "bash" => Dialect::Bash {
                socket: sandbox.open_files.rlim_cur.min(BASH_SOCKET + 1) - 1,
                reads: bash::READ_BYTES,
            },
            _ => Dialect::Sh,
        };
        let options: &[&str] = match dialect {
            Dialect::Bash { .. } => &["--noprofile", "--norc", "--noediting", "-i"],
            Dialect::Sh => &["-i"],
        };
        let argv: Vec<String> = std::iter::once(&path)
            .chain(options)
            .map(|argument| argument.to_string())
            .collect();
        if self.run_dir.restore()? {
            self.spare_pipes = None;
        }
        let (mut socket, theirs) = ShellSocket::pair()?;
        let null = sys::open(c"/dev/null", libc::O_RDWR, 0)?;
        // bash treats its stderr as its terminal and keeps it where children do not inherit it.
        let stderr = match dialect {
            Dialect::Bash { .. } => theirs.as_raw_fd(),
            Dialect::Sh => null.as_raw_fd(),
        };
        let group = self.tracker.begin();
        let entrance = self.tracker.entrance(group)?;
        // The last directory may be gone or closed; the root is always there.
        let cwd = match sandbox.can_enter(&shell.memory.cwd) {
            Ok(()) => shell.memory.cwd.clone(),
            Err(_) => "/".into(),
        };
        let (launched, directory) = launch::launch_sharing_directory(&Launch {
            sandbox,
            argv: &argv,
            env: &sandbox.env,
            cwd: &cwd,
            uid: sandbox.uid,
            gid: sandbox.gid,
            stdio: [theirs.as_raw_fd(), null.as_raw_fd(), stderr],
            terminal: false,
            entrance: entrance.as_ref().map(AsRawFd::as_raw_fd),
        })?;
        // A shell that cannot start is handled like any other shell that ends.
        cx.poll.add(socket.fd(), libc::EPOLLIN, Token::Report(id))?;
        socket.send(match shell.skip_profiles {
            true => lines::ready(dialect),
            false => lines::system_profile(dialect),
        });
        shell.memory = shell.memory.of_new_shell();
        shell.memory.take_directory(cwd, PathBuf::new());
        let has_type = |(name, _): &(String, String)| name == terminal::TYPE.0;
        shell.memory.lacks_terminal_type = !sandbox.env.iter().any(has_type);
        shell.process = Some(ShellProcess {
            pid: launched.pid,
            group,
            socket,
            dialect,
            ready: false,
            discarded: false,
            started_at: cx.clock.now(),
            command_line: argv.join("\0").into_bytes(),
            directory,
        });
        Ok(())
    }

    /// Advances a shell's startup by one step. A ready shell runs commands.
    pub(super) fn advance_start(
        &mut self,
        id: ShellId,
        message: &[u8],
        execs: &mut Execs,
        cx: &mut Context,
    ) {
        let Some(process) = self
            .by_id
            .get_mut(&id)
            .and_then(|shell| shell.process.as_mut())
        else {
            return;
        };
        match message.first() {
            Some(4) => {
                let env = &self.sandbox.env;
                let own = env.iter().find(|(name, _)| name == "PATH");
                let own = own.map_or("", |(_, path)| path.as_str());
                let path = merged_path(own, &String::from_utf8_lossy(&message[1..]));
                let mut packets = lines::user_profile(process.dialect, &path);
                packets.extend(lines::ready(process.dialect));
                process.socket.send(packets);
            }
            Some(5) => {
                if let (Dialect::Bash { reads, .. }, 2) = (&mut process.dialect, message.len()) {
                    *reads = bash::LONG_READ_BYTES;
                }
                process.ready = true;
                self.run_next(id, execs, cx);
            }
            _ => {}
        }
    }

    /// Handles a shell that ended before it was ready: it is started once more, without profile
    /// files.
    pub(super) fn start_failed(
        &mut self,
        id: ShellId,
        exit_code: i32,
        execs: &mut Execs,
        cx: &mut Context,
    ) {
        let Some(shell) = self.by_id.get_mut(&id) else {
            return;
        };
        if !shell.skip_profiles {
            shell.skip_profiles = true;
            shell.profile_problem.get_or_insert_with(|| {
                format!("a profile file ended the shell with exit code {exit_code}")
            });
            return;
        }
        // The next command reads the profiles again, and reports the problem if it persists.
        shell.skip_profiles = false;
        shell.profile_problem = None;
        let failure = Failure::new("no_shell", "the shell exits as soon as it starts");
        for serial in std::mem::take(&mut shell.queue) {
            execs.refuse(serial, &failure, cx);
        }
    }

    /// Kills a shell whose profile files take too long.
    pub(super) fn give_up_start(&mut self, id: ShellId) {
        let Some(shell) = self.by_id.get_mut(&id) else {
            return;
        };
        let seconds = START_TIME.as_secs();
        shell.profile_problem = Some(format!("the profile files took more than {seconds} s"));
        if let Some(process) = &shell.process {
            let origin = Origin::of_group(process.pid);
            let _ = sys::kill(process.pid, libc::SIGKILL);
            if process.group != Group::Processes {
                self.tracker.kill(process.group, &origin);
            }
        }
    }
}

/// The sandbox's own PATH, followed by what the system profile adds.
fn merged_path(own: &str, profile: &str) -> String {
    let mut parts: Vec<&str> = own.split(':').filter(|part| !part.is_empty()).collect();
    for part in profile.split(':') {
        if !part.is_empty() && !parts.contains(&part) {
            parts.push(part);
        }
    }
    parts.join(":")
}

#[cfg(test)]
mod tests {
    use super::merged_path;

    #[test]
    fn the_sandbox_path_comes_first_without_duplicates() {
        assert_eq!(
            merged_path("/opt/x:/bin", "/usr/bin:/bin"),
            "/opt/x:/bin:/usr/bin"
        );
        assert_eq!(merged_path("", "/usr/bin"), "/usr/bin");
    }
}
