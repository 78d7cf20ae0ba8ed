//! The shell that remembers: `cd`, variables, functions and jobs last from command to command.
//!
//! It is interactive, so that an error or an interrupt brings it back to its prompt instead of
//! ending it. Lines reach it through a socket, on which it also reports.

use crate::error::Failure;
use crate::exec::{Serial, State};
use crate::frame::Kind;
use crate::proc_tree::{self, Origin};
use crate::process::{self, Launch};
use crate::server::Server;
use crate::shell_bash;
use crate::shell_lines::{self, Dialect};
use crate::shell_memory::ShellMemory;
use crate::shell_socket::ShellSocket;
use crate::shell_terminal::ShellTerminal;
use crate::sys;
use crate::token::Token;
use crate::tracker::Group;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

const SHELL_DIRECTORIES: [&str; 4] = ["/bin", "/usr/bin", "/usr/local/bin", "/busybox"];
/// Longer than any path.
const FAREWELL_BYTES: usize = 16 * 1024;
/// Profile files that take longer are left out.
pub const START_TIME: Duration = Duration::from_secs(10);
/// bash keeps its terminal, or what it has for one, at the highest descriptor up to this.
const BASH_SOCKET: u64 = 255;

pub const REPAIR_FILE: &str = "repair";

pub struct Shell {
    pub pid: i32,
    pub socket: ShellSocket,
    pub dialect: Dialect,
    /// False while it reads its profile files.
    pub ready: bool,
    /// It was no use any more and has been killed.
    pub discarded: bool,
    pub started_at: Instant,
    /// What /proc calls it as long as it is the shell.
    command_line: Vec<u8>,
    /// Where it says on its way out in which directory it was.
    farewell: OwnedFd,
    farewell_name: String,
    pub farewell_path: String,
    pub group: Group,
}

/// The command that the shell is at.
pub struct Current {
    pub serial: Serial,
    /// In the names of the command's pipes. Nobody can list the directory that they are in, so
    /// that earlier commands' jobs neither find nor flood them (threat: forged results).
    pub tag: String,
    /// What the shell has told of its status, ahead of the rest.
    pub status: Option<i32>,
    /// What has come of the present report.
    pub report: Vec<u8>,
    pub traps: String,
    /// Has the shell report when the command's own lines failed to.
    pub closing: Vec<Vec<u8>>,
    /// When it was last looked, the shell waited for more lines and had not reported.
    pub found_silent: bool,
}

impl Shell {
    /// True of a shell that can neither read a line nor report any more: all that was open of the
    /// socket has been closed, and it has not become another program.
    pub fn is_cut_off(&self) -> bool {
        let name = || std::fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        self.socket.closed && name().strip_suffix(b"\0") == Some(&self.command_line)
    }

    /// True of a shell that has read all its lines; false also where the kernel cannot tell.
    pub fn waits_for_lines(&self) -> bool {
        self.socket.is_drained() && proc_tree::is_asleep(self.pid)
    }
}

/// Which shell; numbers are never used twice.
pub type ShellId = u32;

/// A shell by its name, through all the processes that run it one after the other.
pub struct ShellState {
    pub name: String,
    pub shell: Option<Shell>,
    pub queue: VecDeque<Serial>,
    pub current: Option<Current>,
    pub memory: ShellMemory,
    pub terminal: Option<ShellTerminal>,
    /// The shell that the next command finds is not the one that the last left.
    pub replaced: bool,
    /// What went wrong with the profile files, for the next command to tell; they are left out.
    pub profile_problem: Option<String>,
    pub skip_profiles: bool,
    /// It takes no more commands and goes when its last one has ended.
    pub closing: bool,
}

impl ShellState {
    pub fn new(name: &str, cwd: &str) -> ShellState {
        ShellState {
            name: name.into(),
            shell: None,
            queue: VecDeque::new(),
            current: None,
            memory: ShellMemory::new(cwd),
            terminal: None,
            replaced: false,
            profile_problem: None,
            skip_profiles: false,
            closing: false,
        }
    }

    pub fn pid(&self) -> Option<i32> {
        self.shell.as_ref().map(|shell| shell.pid)
    }

    pub fn group(&self) -> Option<Group> {
        self.shell.as_ref().map(|shell| shell.group)
    }
}

pub fn find_shell() -> Option<(&'static str, String)> {
    ["bash", "sh"].into_iter().find_map(|kind| {
        SHELL_DIRECTORIES
            .iter()
            .map(|dir| format!("{dir}/{kind}"))
            .find(|path| Path::new(path).exists())
            .map(|path| (kind, path))
    })
}

impl Server {
    pub fn start_shell(&mut self, id: ShellId) -> Result<(), Failure> {
        let Some((kind, path)) = self.shells.program.clone() else {
            return Err(Failure::new(
                "no_shell",
                "the image has no shell; run programs by their arguments instead",
            ));
        };
        self.try_start_shell(id, kind, &path)
            .map_err(|error| Failure::io("start the shell", &path, &error))
    }

    fn try_start_shell(&mut self, id: ShellId, kind: &str, path: &str) -> io::Result<()> {
        self.check_room()?;
        let dialect = match kind {
            "bash" => Dialect::Bash {
                socket: self.options.open_files.rlim_cur.min(BASH_SOCKET + 1) - 1,
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
        (self.run_dir).put(REPAIR_FILE, shell_bash::repair_text().as_bytes())?;
        let (mut socket, theirs) = ShellSocket::pair()?;
        let null = sys::open(c"/dev/null", libc::O_RDWR, 0)?;
        // bash takes its stderr for its terminal and keeps it, where children do not get it.
        let stderr = match dialect {
            Dialect::Bash { .. } => theirs.as_raw_fd(),
            Dialect::Sh => null.as_raw_fd(),
        };
        let group = self.tracker.begin();
        let entrance = self.tracker.entrance(group)?;
        // The last directory may be gone or closed; the root always is there.
        let last = self.shells.get(id).map(|state| state.memory.cwd.clone());
        let cwd = last
            .filter(|cwd| self.can_enter(cwd).is_ok())
            .unwrap_or_else(|| "/".into());
        let launched = process::launch(&Launch {
            argv: &argv,
            env: &self.options.env,
            cwd: &cwd,
            uid: self.options.uid,
            gid: self.options.gid,
            stdio: [theirs.as_raw_fd(), null.as_raw_fd(), stderr],
            open_files: self.options.open_files,
            oom_score: &self.options.oom_score,
            privileged: self.options.allow_user,
            terminal: false,
            entrance: entrance.as_ref().map(AsRawFd::as_raw_fd),
        })?;
        // A shell that cannot start is noticed by its end, like any other that ends.
        let farewell_name = format!("exit-{}", sys::random_hex()?);
        let farewell = self.run_dir.lasting_output_pipe(&farewell_name)?;
        self.epoll
            .add(socket.fd(), libc::EPOLLIN, Token::Report(id).pack())?;
        let skip_profiles = (self.shells.get(id)).is_some_and(|state| state.skip_profiles);
        socket.send(match skip_profiles {
            true => shell_lines::ready(dialect),
            false => shell_lines::system_profile(dialect),
        });
        let shell = Shell {
            pid: launched.pid,
            socket,
            dialect,
            ready: false,
            discarded: false,
            started_at: self.now(),
            command_line: argv.join("\0").into_bytes(),
            farewell,
            farewell_path: self.run_dir.path(&farewell_name).display().to_string(),
            farewell_name,
            group,
        };
        if let Some(state) = self.shells.get_mut(id) {
            state.memory = state.memory.of_new_shell();
            state.memory.take_directory(&cwd, "");
            state.shell = Some(shell);
        }
        Ok(())
    }

    /// Takes one step further in a shell's start; a shell that is ready takes commands.
    pub fn advance_start(&mut self, id: ShellId, message: &[u8]) {
        let own = (self.options.env.iter())
            .find(|(name, _)| name == "PATH")
            .map(|(_, path)| path.clone())
            .unwrap_or_default();
        let Some(shell) = self
            .shells
            .get_mut(id)
            .and_then(|state| state.shell.as_mut())
        else {
            return;
        };
        match message.first() {
            Some(4) => {
                let path = merged_path(&own, &String::from_utf8_lossy(&message[1..]));
                let mut packets = shell_lines::user_profile(shell.dialect, &path);
                packets.extend(shell_lines::ready(shell.dialect));
                shell.socket.send(packets);
            }
            Some(5) => {
                shell.ready = true;
                self.run_next_in_shell(id);
            }
            _ => {}
        }
    }

    /// Whether code may make this its directory.
    pub fn can_enter(&self, directory: &str) -> io::Result<()> {
        // Looking up a name in it takes the right to enter it.
        sys::as_fs_user(self.options.uid, self.options.gid, || {
            let path = sys::c_string(format!("{directory}/."))?;
            sys::open(&path, libc::O_PATH | libc::O_DIRECTORY, 0).map(drop)
        })
    }

    pub fn run_next_in_shell(&mut self, id: ShellId) {
        while let Some(state) = self.shells.get_mut(id)
            && state.current.is_none()
        {
            let Some(serial) = state.queue.front().copied() else {
                return self.drop_closing_shell(id);
            };
            let execs = &self.execs;
            let waits = |serial| execs.get(serial).is_some_and(|e| e.state == State::Queued);
            if !waits(serial) {
                state.queue.pop_front();
                continue;
            }
            let result = match &state.shell {
                None => self.start_shell(id),
                Some(shell) if !shell.ready => return,
                Some(_) => {
                    state.queue.pop_front();
                    self.run_in_shell(id, serial)
                }
            };
            if let Err(failure) = result {
                if let Some(state) = self.shells.get_mut(id) {
                    state.queue.retain(|waiting| *waiting != serial);
                }
                self.refuse(serial, &failure);
            }
        }
    }

    /// What a command leaves running gets the group for itself; the shell goes on in a new one.
    /// So whatever shares a group with the shell belongs to the present command.
    pub fn separate_jobs(&mut self, id: ShellId, serial: Serial) {
        let Some(shell) = self.shells.get(id).and_then(|state| state.shell.as_ref()) else {
            return;
        };
        let origin = Origin {
            in_shell: true,
            ..Origin::of_group(shell.pid)
        };
        let group = shell.group;
        if group == Group::Processes {
            self.kill_survivors(serial);
            return;
        }
        if !self.tracker.members(group, &origin).is_empty() {
            self.move_shell(id);
            self.kill_survivors(serial);
        }
    }

    /// Puts the shell into a group of its own.
    pub fn move_shell(&mut self, id: ShellId) {
        let Some(shell) = (self.shells.get_mut(id)).and_then(|state| state.shell.as_mut()) else {
            return;
        };
        let next = self.tracker.begin();
        if next != Group::Processes && self.tracker.move_into(next, shell.pid) {
            let old = std::mem::replace(&mut shell.group, next);
            self.tracker.end(old);
        }
    }

    /// A command that was made to end leaves nothing running.
    fn kill_survivors(&mut self, serial: Serial) {
        let Some(exec) = self.execs.get(serial) else {
            return;
        };
        if exec.ending.is_none() {
            return;
        }
        if let (Some(group), Some(origin)) = (exec.group, self.origin(serial)) {
            self.tracker.kill(group, &origin);
        }
    }

    /// The shell itself has ended: by `exit`, `exec`, a signal.
    pub fn shell_ended(&mut self, id: ShellId, exit_code: i32, signal: Option<i32>) {
        // Its last word may still be in the socket.
        self.take_reports(id);
        let Some(state) = self.shells.get_mut(id) else {
            return;
        };
        let current = state.current.take();
        let Some(shell) = state.shell.take() else {
            return;
        };
        self.epoll.remove(shell.socket.fd());
        self.take_farewell(id, &shell);
        self.kill_with_shell(&shell, current.as_ref());
        self.tracker.end(shell.group);
        let Some(current) = current else {
            if !shell.ready && !shell.discarded {
                self.start_failed(id, exit_code);
            } else if let Some(state) = self.shells.get_mut(id) {
                state.replaced = true;
            }
            return self.run_next_in_shell(id);
        };
        if let Some(state) = self.shells.get_mut(id) {
            state.replaced = true;
        }
        let serial = current.serial;
        if self.has_begun(&current) {
            if let Some(exec) = self.execs.get_mut(serial) {
                exec.shell_restarted = true;
            }
            let (exit_code, signal) = match current.status {
                Some(status) => (status, None),
                None => (exit_code, signal),
            };
            self.end_in_shell(id, &current, exit_code, signal);
            self.kill_survivors(serial);
        } else {
            // The shell never took the command, so it can safely be given to the next one.
            self.unstart(&current);
            if let Some(state) = self.shells.get_mut(id) {
                state.queue.push_front(serial);
            }
        }
        self.run_next_in_shell(id);
    }

    /// A shell that ends before it is ready is tried once more without profile files.
    fn start_failed(&mut self, id: ShellId, exit_code: i32) {
        let Some(state) = self.shells.get_mut(id) else {
            return;
        };
        if !state.skip_profiles {
            state.skip_profiles = true;
            state.profile_problem.get_or_insert_with(|| {
                format!("a profile file ended the shell with exit code {exit_code}")
            });
            return;
        }
        // Should there be a next command, it finds the profiles mended, or tells again.
        state.skip_profiles = false;
        state.profile_problem = None;
        let failure = Failure::new("no_shell", "the shell ends as soon as it starts");
        for serial in std::mem::take(&mut state.queue) {
            self.refuse(serial, &failure);
        }
    }

    /// Gives up on a shell whose profile files take too long.
    pub fn give_up_start(&mut self, id: ShellId) {
        let Some(state) = self.shells.get_mut(id) else {
            return;
        };
        let seconds = START_TIME.as_secs();
        state.profile_problem = Some(format!("the profile files took more than {seconds} s"));
        if let Some(shell) = &state.shell {
            let origin = Origin::of_group(shell.pid);
            let _ = sys::kill(shell.pid, libc::SIGKILL);
            if shell.group != Group::Processes {
                self.tracker.kill(shell.group, &origin);
            }
        }
    }

    /// A command that was being ended may have gone on in the group that the shell was moved to.
    fn kill_with_shell(&self, shell: &Shell, current: Option<&Current>) {
        let ended = current
            .and_then(|current| self.execs.get(current.serial))
            .is_some_and(|exec| exec.ending.is_some());
        if ended && shell.group != Group::Processes {
            let origin = Origin::of_group(shell.pid);
            self.tracker.kill(shell.group, &origin);
        }
    }

    /// Where the shell was when it ended, if it had time to say so.
    fn take_farewell(&mut self, id: ShellId, shell: &Shell) {
        let mut text = [0u8; FAREWELL_BYTES];
        let n = sys::read(shell.farewell.as_raw_fd(), &mut text).unwrap_or(0);
        self.run_dir.remove(&[&shell.farewell_name]);
        if let (Some(end), Some(state)) = (
            text[..n].iter().position(|b| *b == 0),
            self.shells.get_mut(id),
        ) {
            let cwd = String::from_utf8_lossy(&text[..end]);
            state.memory.take_directory(&cwd, "");
        }
    }

    /// A command that could not even begin leaves no trace.
    fn refuse(&mut self, serial: Serial, failure: &Failure) {
        if let Some(exec) = self.execs.remove(serial) {
            for reader in exec.readers {
                self.answer(reader.address, Kind::Error, failure);
            }
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
