//! The process of a shell that remembers: `cd`, variables, functions and jobs last from command to
//! command.
//!
//! It is interactive, so that an error or an interrupt brings it back to its prompt instead of
//! ending it. Lines reach it through a socket, on which it also reports.

use crate::execs::{Exec, Execs, Outcome, Serial, State};
use crate::processes::launch::{self, Launch};
use crate::processes::proc_tree::Origin;
use crate::processes::{Group, terminal};
use crate::protocol::failure::Failure;
use crate::server::context::Context;
use crate::server::poll::Poll;
use crate::server::token::Token;
use crate::shells::lines::{self, Dialect};
use crate::shells::reports::Current;
use crate::shells::socket::ShellSocket;
use crate::shells::{ShellId, Shells, bash};
use crate::sys;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

const SHELL_DIRECTORIES: [&str; 4] = ["/bin", "/usr/bin", "/usr/local/bin", "/busybox"];
/// Longer than any path.
const FAREWELL_BYTES: usize = 16 * 1024;
/// Profile files that take longer are skipped.
const START_TIME: Duration = Duration::from_secs(10);
/// bash keeps its terminal, or what it has for one, at the highest descriptor up to this.
const BASH_SOCKET: u64 = 255;

pub const REPAIR_FILE: &str = "repair";

pub struct ShellProgram {
    pub kind: &'static str,
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
    pub pid: i32,
    pub group: Group,
    pub socket: ShellSocket,
    pub dialect: Dialect,
    /// False while it reads its profile files.
    pub ready: bool,
    /// It was no use any more and has been killed.
    discarded: bool,
    started_at: Instant,
    /// Its entry in /proc as long as it has not become another program.
    command_line: Vec<u8>,
    /// Where it says on its way out in which directory it was.
    farewell: OwnedFd,
    farewell_name: String,
    pub farewell_path: String,
}

impl ShellProcess {
    /// True of a shell that can neither read a line nor report any more: all that was open of the
    /// socket has been closed, and it has not become another program.
    pub fn is_cut_off(&self) -> bool {
        let name = || std::fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        self.socket.closed && name().strip_suffix(b"\0") == Some(&self.command_line)
    }

    pub fn starts_too_long(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.started_at) > START_TIME
    }

    /// It takes nothing more while its end is on its way.
    pub fn discard(&mut self) {
        self.ready = false;
        self.discarded = true;
        let _ = sys::kill(self.pid, libc::SIGKILL);
    }

    /// Has epoll report when the shell says something, and when it takes more.
    pub fn watch(&mut self, id: ShellId, poll: &Poll) {
        if self.socket.closed {
            // It would be reported as ready for ever.
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
        self.run_dir.remove(&[REPAIR_FILE]);
        (self.run_dir).put(REPAIR_FILE, bash::repair_text().as_bytes())?;
        let (mut socket, theirs) = ShellSocket::pair()?;
        let null = sys::open(c"/dev/null", libc::O_RDWR, 0)?;
        // bash takes its stderr for its terminal and keeps it, where children do not get it.
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
        let launched = launch::launch(&Launch {
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
        // A shell that cannot start is noticed by its end, like any other that ends.
        let farewell_name = format!("exit-{}", sys::random_hex()?);
        let farewell = self.run_dir.lasting_output_pipe(&farewell_name)?;
        cx.poll.add(socket.fd(), libc::EPOLLIN, Token::Report(id))?;
        socket.send(match shell.skip_profiles {
            true => lines::ready(dialect),
            false => lines::system_profile(dialect),
        });
        shell.memory = shell.memory.of_new_shell();
        shell.memory.take_directory(&cwd, "");
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
            farewell,
            farewell_path: self.run_dir.path(&farewell_name).display().to_string(),
            farewell_name,
        });
        Ok(())
    }

    /// Takes one step further in a shell's start; a shell that is ready takes commands.
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
                process.ready = true;
                self.run_next(id, execs, cx);
            }
            _ => {}
        }
    }

    /// Begins the next command that waits, unless one runs.
    pub(super) fn run_next(&mut self, id: ShellId, execs: &mut Execs, cx: &mut Context) {
        while let Some(shell) = self.by_id.get_mut(&id)
            && shell.current.is_none()
        {
            let Some(serial) = shell.queue.front().copied() else {
                return self.drop_if_closed(id);
            };
            let waits = |exec: &Exec| exec.state() == State::Queued;
            if !execs.get(serial).is_some_and(waits) {
                shell.queue.pop_front();
                continue;
            }
            let result = match &shell.process {
                None => self.start(id, cx),
                Some(process) if !process.ready => return,
                Some(_) => {
                    shell.queue.pop_front();
                    self.run(id, serial, execs, cx)
                }
            };
            if let Err(failure) = result {
                if let Some(shell) = self.by_id.get_mut(&id) {
                    shell.queue.retain(|waiting| *waiting != serial);
                }
                execs.refuse(serial, &failure, cx);
            }
        }
    }

    /// What a command leaves running gets the group for itself; the shell goes on in a new one.
    /// So whatever shares a group with the shell belongs to the present command.
    pub(super) fn separate_jobs(&mut self, id: ShellId, serial: Serial, execs: &Execs) {
        let Some(process) = self.by_id.get(&id).and_then(|shell| shell.process.as_ref()) else {
            return;
        };
        let origin = Origin {
            in_shell: true,
            ..Origin::of_group(process.pid)
        };
        if process.group == Group::Processes {
            self.kill_survivors(serial, execs);
        } else if !self.tracker.members(process.group, &origin).is_empty() {
            self.move_to_new_group(id);
            self.kill_survivors(serial, execs);
        }
    }

    pub fn move_to_new_group(&mut self, id: ShellId) {
        let Some(process) = (self.by_id.get_mut(&id)).and_then(|shell| shell.process.as_mut())
        else {
            return;
        };
        let next = self.tracker.begin();
        if next != Group::Processes && self.tracker.move_into(next, process.pid) {
            let old = std::mem::replace(&mut process.group, next);
            self.tracker.end(old);
        }
    }

    /// A command that was made to end leaves nothing running.
    fn kill_survivors(&self, serial: Serial, execs: &Execs) {
        if execs.get(serial).is_some_and(|e| e.stop().is_ending()) {
            execs.kill_members(serial, &self.pids());
        }
    }

    /// The process has ended: by `exit`, `exec`, a signal.
    pub fn process_ended(
        &mut self,
        id: ShellId,
        exit_code: i32,
        signal: Option<i32>,
        execs: &mut Execs,
        cx: &mut Context,
    ) {
        // Its last report may still be in the socket.
        self.take_reports(id, execs, cx);
        let Some(shell) = self.by_id.get_mut(&id) else {
            return;
        };
        let current = shell.current.take();
        let Some(process) = shell.process.take() else {
            return;
        };
        cx.poll.remove(process.socket.fd());
        self.take_farewell(id, &process);
        self.kill_with_process(&process, current.as_ref(), execs);
        self.tracker.end(process.group);
        match current {
            None if !process.ready && !process.discarded => {
                self.start_failed(id, exit_code, execs, cx);
            }
            None => self.note_replaced(id),
            Some(current) => {
                self.note_replaced(id);
                let ended = (exit_code, signal);
                self.end_or_retry(id, &current, ended, execs, cx);
            }
        }
        self.run_next(id, execs, cx);
    }

    fn note_replaced(&mut self, id: ShellId) {
        if let Some(shell) = self.by_id.get_mut(&id) {
            shell.replaced = true;
        }
    }

    /// What becomes of the command that a shell was at when it ended.
    fn end_or_retry(
        &mut self,
        id: ShellId,
        current: &Current,
        (exit_code, signal): (i32, Option<i32>),
        execs: &mut Execs,
        cx: &mut Context,
    ) {
        let serial = current.serial;
        if !execs.get(serial).is_none_or(|exec| exec.has_begun()) {
            // The shell never took the command, so it can safely be given to the next one.
            self.unstart(current, execs, cx);
            if let Some(shell) = self.by_id.get_mut(&id) {
                shell.queue.push_front(serial);
            }
            return;
        }
        if let Some(exec) = execs.get_mut(serial) {
            exec.note_restart();
        }
        let outcome = Outcome {
            exit_code: current.status.unwrap_or(exit_code),
            signal: signal.filter(|_| current.status.is_none()),
            cwd: None,
        };
        self.end(id, current, outcome, execs, cx);
        self.kill_survivors(serial, execs);
    }

    /// A shell that ends before it is ready is tried once more without profile files.
    fn start_failed(&mut self, id: ShellId, exit_code: i32, execs: &mut Execs, cx: &mut Context) {
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
        // If there is a next command, it finds the profiles mended, or reports the problem again.
        shell.skip_profiles = false;
        shell.profile_problem = None;
        let failure = Failure::new("no_shell", "the shell ends as soon as it starts");
        for serial in std::mem::take(&mut shell.queue) {
            execs.refuse(serial, &failure, cx);
        }
    }

    /// Gives up on a shell whose profile files take too long.
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

    /// A command that was being ended may have gone on in the group that the shell was moved to.
    fn kill_with_process(&self, process: &ShellProcess, current: Option<&Current>, execs: &Execs) {
        let ended = current
            .and_then(|current| execs.get(current.serial))
            .is_some_and(|exec| exec.stop().is_ending());
        if ended && process.group != Group::Processes {
            let origin = Origin::of_group(process.pid);
            self.tracker.kill(process.group, &origin);
        }
    }

    /// Where the shell was when it ended, if it had time to say so.
    fn take_farewell(&mut self, id: ShellId, process: &ShellProcess) {
        let mut text = [0u8; FAREWELL_BYTES];
        let n = sys::read(process.farewell.as_raw_fd(), &mut text).unwrap_or(0);
        self.run_dir.remove(&[&process.farewell_name]);
        if let (Some(end), Some(shell)) = (
            text[..n].iter().position(|b| *b == 0),
            self.by_id.get_mut(&id),
        ) {
            let cwd = String::from_utf8_lossy(&text[..end]);
            shell.memory.take_directory(&cwd, "");
        }
    }
}

/// The sandbox's own PATH, and after it what the system's profile adds.
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
    fn the_sandboxs_own_path_comes_first_and_nothing_twice() {
        assert_eq!(
            merged_path("/opt/x:/bin", "/usr/bin:/bin"),
            "/opt/x:/bin:/usr/bin"
        );
        assert_eq!(merged_path("", "/usr/bin"), "/usr/bin");
    }
}
