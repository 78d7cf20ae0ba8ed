//! The shell that remembers: `cd`, variables, functions and jobs last from command to command.
//!
//! It is interactive, so that an error or an interrupt brings it back to its prompt instead of
//! ending it, but it has no terminal. Each command is a file that it sources with stdout and
//! stderr on pipes of that command's own; a second line makes it report status and directory on
//! a pipe that carries nothing else. The two lines are packets: a shell that throws away the
//! rest of its input after an error throws away nothing of the second.

use crate::error::Failure;
use crate::exec::{Serial, State};
use crate::frame::Kind;
use crate::proc_tree::Origin;
use crate::process::{self, Launch};
use crate::server::{Options, Server};
use crate::sys;
use crate::tracker::Group;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

const SHELL_DIRECTORIES: [&str; 4] = ["/bin", "/usr/bin", "/usr/local/bin", "/busybox"];
/// After so many shells that ended before they took a command, it is given up.
const MAX_FAILURES: u32 = 3;
/// Longer than any path.
const FAREWELL_BYTES: usize = 16 * 1024;

pub struct Shell {
    pub pid: i32,
    /// Where commands are fed in.
    input: OwnedFd,
    /// So many bytes were fed in for the present command.
    fed: usize,
    /// Ends the wait of a shell that must not idle at its prompt.
    pub wake: Option<OwnedFd>,
    /// Where it says on its way out in which directory it was.
    farewell: OwnedFd,
    farewell_name: String,
    pub group: Group,
}

/// The command that the shell is at.
pub struct Current {
    pub serial: Serial,
    /// In the names of the command's pipes. Nobody can list the directory that they are in, so
    /// that earlier commands' jobs neither find nor flood them (threat 40).
    pub tag: String,
    /// Where the shell tells how the command ended.
    pub report: OwnedFd,
    /// What has come of the present record.
    pub record: Vec<u8>,
}

impl Shell {
    /// Feeds in lines, each as one packet, and wakes the shell for them. A shell that died a
    /// moment ago takes no more; its death is about to be noticed and finds nothing begun.
    pub fn feed(&mut self, lines: &[&str]) {
        self.fed = lines
            .iter()
            .filter(|line| !line.is_empty())
            .map(|line| sys::write(self.input.as_raw_fd(), line.as_bytes()).unwrap_or(0))
            .sum();
        if let Some(wake) = &self.wake {
            let _ = sys::write(wake.as_raw_fd(), b"\n");
        }
    }
}

pub struct ShellState {
    pub shell: Option<Shell>,
    program: Option<(&'static str, String)>,
    queue: VecDeque<Serial>,
    pub current: Option<Current>,
    pub cwd: String,
    /// The shell that the next command finds is not the one that the last left.
    pub replaced: bool,
    /// So many shells in a row have ended before they took a command.
    pub failures: u32,
}

impl ShellState {
    pub fn new(options: &Options) -> ShellState {
        ShellState {
            shell: None,
            program: find_shell(),
            queue: VecDeque::new(),
            current: None,
            cwd: options.workdir.clone(),
            replaced: false,
            failures: 0,
        }
    }

    pub fn kind(&self) -> &'static str {
        self.program.as_ref().map_or("none", |(kind, _)| *kind)
    }

    pub fn enqueue(&mut self, serial: Serial) {
        self.queue.push_back(serial);
    }

    pub fn pid(&self) -> Option<i32> {
        self.shell.as_ref().map(|shell| shell.pid)
    }

    pub fn group(&self) -> Option<Group> {
        self.shell.as_ref().map(|shell| shell.group)
    }
}

fn find_shell() -> Option<(&'static str, String)> {
    ["bash", "sh"].into_iter().find_map(|kind| {
        SHELL_DIRECTORIES
            .iter()
            .map(|dir| format!("{dir}/{kind}"))
            .find(|path| Path::new(path).exists())
            .map(|path| (kind, path))
    })
}

impl Server {
    /// Starts the shell ahead of its first command, which then need not wait for it.
    pub fn prestart_shell(&mut self) {
        if self.shell.program.is_some()
            && self.shell.shell.is_none()
            && let Err(failure) = self.start_shell()
        {
            sys::log(&format!("shell: {}", failure.message));
        }
    }

    pub fn start_shell(&mut self) -> Result<(), Failure> {
        let Some((kind, path)) = self.shell.program.clone() else {
            return Err(Failure::new(
                "no_shell",
                "the image has no shell; run programs by their arguments instead",
            ));
        };
        let failed = |error: io::Error| Failure::io("start the shell", &path, &error);
        let options: &[&str] = match kind {
            "bash" => &["--noediting", "--login", "-i"],
            _ => &["-l", "-i"],
        };
        let argv: Vec<String> = std::iter::once(path.as_str())
            .chain(options.iter().copied())
            .map(String::from)
            .collect();
        // gVisor has no packets; only shells that forget their input after an error need them.
        let (input_read, input) = sys::pipe(libc::O_DIRECT)
            .or_else(|_| sys::pipe(0))
            .map_err(failed)?;
        sys::set_nonblocking(input.as_raw_fd()).map_err(failed)?;
        let null = sys::open(c"/dev/null", libc::O_RDWR, 0).map_err(failed)?;
        let group = self.tracker.begin();
        let entrance = self.tracker.entrance(group);
        // The last directory may be gone or closed; the root always is there.
        let cwd = match self.can_enter(&self.shell.cwd) {
            true => self.shell.cwd.clone(),
            false => "/".into(),
        };
        let launched = process::launch(&Launch {
            argv: &argv,
            env: &self.options.env,
            cwd: &cwd,
            uid: self.options.uid,
            gid: self.options.gid,
            stdio: [input_read.as_raw_fd(), null.as_raw_fd(), null.as_raw_fd()],
            open_files: self.options.open_files,
            privileged: self.options.allow_user,
            terminal: false,
            entrance: entrance.as_ref().map(AsRawFd::as_raw_fd),
        })
        .map_err(failed)?;
        // A shell that cannot start is noticed by its end, like any other that ends.
        let farewell_name = format!("exit-{}", sys::random_hex().map_err(failed)?);
        let farewell = self
            .run_dir
            .lasting_output_pipe(&farewell_name)
            .map_err(failed)?;
        let greeting = format!(
            "{}PS1= PS2= PS4='+ '; unset HISTFILE TMOUT MAILCHECK; \
             trap 'command printf \"%s\\0\" \"${{PWD-}}\" >{}' EXIT\n",
            if kind == "bash" {
                "set +o history +H; "
            } else {
                ""
            },
            self.run_dir.path(&farewell_name).display(),
        );
        let wake = match kind {
            "bash" => None,
            _ => Some(self.run_dir.input_pipe("wake").map_err(failed)?),
        };
        let mut shell = Shell {
            pid: launched.pid,
            input,
            fed: 0,
            wake: None,
            farewell,
            farewell_name,
            group,
        };
        shell.feed(&[&greeting, &self.idle_line(wake.is_some())]);
        shell.wake = wake;
        self.shell.shell = Some(shell);
        Ok(())
    }

    fn can_enter(&self, directory: &str) -> bool {
        // Looking up a name in it takes the right to enter it.
        sys::as_fs_user(self.options.uid, self.options.gid, || {
            sys::c_string(format!("{directory}/."))
                .and_then(|path| sys::open(&path, libc::O_PATH | libc::O_DIRECTORY, 0))
                .is_ok()
        })
    }

    /// What a shell other than bash does between commands: busybox takes the death of a child
    /// for the end of its input when it idles at its prompt, so it idles here.
    pub fn idle_line(&self, waits: bool) -> String {
        match waits {
            true => format!(
                "while ! command read -r _ <{}; do :; done\n",
                self.run_dir.path("wake").display()
            ),
            false => String::new(),
        }
    }

    pub fn run_next_in_shell(&mut self) {
        while self.shell.current.is_none() {
            let Some(serial) = self.shell.queue.pop_front() else {
                return;
            };
            let waits = self
                .execs
                .get(serial)
                .is_some_and(|exec| exec.state == State::Queued);
            if !waits {
                continue;
            }
            if let Err(failure) = self.run_in_shell(serial) {
                self.refuse(serial, &failure);
            }
        }
    }

    /// What a command leaves running gets the group for itself; the shell goes on in a new one.
    /// So whatever shares a group with the shell belongs to the present command.
    pub fn separate_jobs(&mut self, serial: Serial) {
        let Some(shell) = &self.shell.shell else {
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
            self.move_shell();
            self.kill_survivors(serial);
        }
    }

    /// Puts the shell into a group of its own.
    pub fn move_shell(&mut self) {
        let Some(shell) = &mut self.shell.shell else {
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
    pub fn shell_ended(&mut self, exit_code: i32, signal: Option<i32>) {
        // Its last word may still be in the pipe.
        self.take_reports();
        let mut begun = true;
        if let Some(shell) = self.shell.shell.take() {
            begun = sys::bytes_waiting(shell.input.as_raw_fd()) < shell.fed;
            self.take_farewell(&shell);
            self.kill_with_shell(&shell);
            self.tracker.end(shell.group);
        }
        self.shell.replaced = true;
        let Some(current) = self.shell.current.take() else {
            return;
        };
        let serial = current.serial;
        if begun {
            self.end_in_shell(&current, exit_code, signal);
            self.kill_survivors(serial);
        } else {
            // The shell never read the command, so it can safely be given to the next one.
            self.unstart(&current);
            self.shell.failures += 1;
            if self.shell.failures < MAX_FAILURES {
                self.shell.queue.push_front(serial);
            } else {
                self.shell.failures = 0;
                let message = "the shell ends as soon as it starts; look at its profile files";
                self.refuse(serial, &Failure::new("no_shell", message));
            }
        }
        self.run_next_in_shell();
    }

    /// A command that was being ended may have gone on in the group that the shell was moved to.
    fn kill_with_shell(&self, shell: &Shell) {
        let ended = (self.shell.current.as_ref())
            .and_then(|current| self.execs.get(current.serial))
            .is_some_and(|exec| exec.ending.is_some());
        if ended && shell.group != Group::Processes {
            let origin = Origin::of_group(shell.pid);
            self.tracker.kill(shell.group, &origin);
        }
    }

    /// Where the shell was when it ended, if it had time to say so.
    fn take_farewell(&mut self, shell: &Shell) {
        let mut text = [0u8; FAREWELL_BYTES];
        let n = sys::read(shell.farewell.as_raw_fd(), &mut text).unwrap_or(0);
        self.run_dir.remove(&[&shell.farewell_name]);
        if let Some(end) = text[..n].iter().position(|b| *b == 0) {
            self.remember_cwd(&String::from_utf8_lossy(&text[..end]));
        }
    }

    pub fn remember_cwd(&mut self, cwd: &str) {
        if cwd.starts_with('/') && cwd.len() <= libc::PATH_MAX as usize {
            self.shell.cwd = cwd.to_string();
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
