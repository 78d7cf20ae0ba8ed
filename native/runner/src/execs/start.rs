//! Starting a command that is a process of its own.

use crate::execs::exec::Serial;
use crate::execs::finish::Outcome;
use crate::protocol::message::ExecRequest;
use crate::processes::proc_tree;
use crate::processes::launch::{self, Launch, LaunchError, Progress};
use crate::server::event_loop::Server;
use crate::sys;
use crate::server::token::Token;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

/// A command's ends of its pipes and ours.
struct Plumbing {
    theirs: [OwnedFd; 3],
    output: [Option<OwnedFd>; 2],
    stdin: Option<OwnedFd>,
}

impl Server {
    pub fn start_process(&mut self, serial: Serial) {
        let oom_kills = self.oom_kills_before();
        let now = self.now();
        let group = self.tracker.begin();
        if let Some(exec) = self.execs.get_mut(serial) {
            exec.begin(now, oom_kills, group);
        }
        match self.try_start(serial) {
            Ok(()) => {
                self.watch_output(serial);
                self.feed_stdin(serial);
            }
            Err(error) => {
                let step = "prepare";
                self.end_unstarted(serial, &LaunchError { step, error });
            }
        }
    }

    /// Looks whether a process has become its program.
    pub fn take_launch(&mut self, serial: Serial) {
        let Some(exec) = self.execs.get_mut(serial) else {
            return;
        };
        let Some(report) = exec.launching.take() else {
            return;
        };
        match launch::progress(&report) {
            Progress::Pending => exec.launching = Some(report),
            // A child that was stopped on its way shares the pipe, and would keep it watched.
            Progress::Running => {
                self.epoll.remove(report.as_raw_fd());
                self.announce(serial);
            }
            // Its own end, which follows, is then nobody's.
            Progress::Failed(problem) => {
                self.epoll.remove(report.as_raw_fd());
                self.end_unstarted(serial, &problem);
            }
        }
    }

    fn try_start(&mut self, serial: Serial) -> io::Result<()> {
        self.check_room()?;
        let (uid, gid) = (self.options.uid, self.options.gid);
        let tracking = self.tracker.name();
        let Some(exec) = self.execs.get_mut(serial) else {
            return Ok(());
        };
        let (run_uid, run_gid) = exec.request.ids.unwrap_or((uid, gid));
        let plumbing = plumb(&exec.request, run_uid, run_gid)?;
        let mut env = self.options.env.clone();
        if tracking == "processes" {
            set(&mut env, proc_tree::MARKER, &exec.request.exec_id);
        }
        for (name, value) in &exec.request.env {
            set(&mut env, name, value);
        }
        // A relative one is taken from the workspace, as everywhere else.
        let wanted = exec.request.cwd.as_deref().unwrap_or_default();
        let cwd = Path::new(&self.options.workdir).join(wanted);
        let cwd = cwd.to_string_lossy().into_owned();
        let entrance = match exec.group {
            Some(group) => self.tracker.entrance(group)?,
            None => None,
        };
        let launched = launch::launch(&Launch {
            argv: &exec.request.argv,
            env: &env,
            cwd: &cwd,
            uid: run_uid,
            gid: run_gid,
            stdio: [0, 1, 2].map(|i: usize| plumbing.theirs[i].as_raw_fd()),
            open_files: self.options.open_files,
            oom_score: &self.options.oom_score,
            privileged: self.options.allow_user,
            terminal: exec.request.pty.is_some(),
            entrance: entrance.as_ref().map(AsRawFd::as_raw_fd),
        })?;
        let token = Token::Launch(serial).pack();
        self.epoll
            .add(launched.report.as_raw_fd(), libc::EPOLLIN, token)?;
        exec.pid = launched.pid;
        exec.launching = Some(launched.report);
        exec.output = plumbing.output;
        exec.stdin.fd = plumbing.stdin;
        exec.stdin.taken = true;
        exec.on_terminal = exec.request.pty.is_some();
        Ok(())
    }

    /// A program that cannot be run is a result, as a shell would give it.
    fn end_unstarted(&mut self, serial: Serial, problem: &LaunchError) {
        self.announce(serial);
        let Some(exec) = self.execs.get_mut(serial) else {
            return;
        };
        let what = match problem.step {
            "directory" => exec.request.cwd.clone().unwrap_or_default(),
            _ => exec.request.argv.first().cloned().unwrap_or_default(),
        };
        let message = format!("cannot run: {} {what}: {}\n", problem.step, problem.error);
        exec.spool.append(2, message.as_bytes());
        let group = exec.group;
        let exit_code = match problem.error.raw_os_error() {
            Some(libc::ENOENT) if problem.step == "exec" => 127,
            _ => 126,
        };
        self.finish(
            serial,
            Outcome {
                exit_code,
                signal: None,
                cwd: None,
            },
        );
        if let Some(group) = group {
            self.tracker.end(group);
        }
    }
}

fn set(env: &mut Vec<(String, String)>, name: &str, value: &str) {
    env.retain(|(existing, _)| existing != name);
    env.push((name.to_string(), value.to_string()));
}

fn plumb(request: &ExecRequest, uid: u32, gid: u32) -> io::Result<Plumbing> {
    if let Some(size) = request.pty {
        let (master, slave) = launch::open_terminal(size.rows, size.cols, uid, gid)?;
        let writer = master.try_clone()?;
        return Ok(Plumbing {
            theirs: [slave.try_clone()?, slave.try_clone()?, slave],
            output: [Some(master), None],
            stdin: request.stdin.then_some(writer),
        });
    }
    // The pipes belong to the code user, so that it can open them again as /dev/stdout.
    sys::as_fs_user(uid, gid, || {
        let (out_read, out_write) = sys::pipe(0)?;
        let (err_read, err_write) = if request.merge {
            (None, out_write.try_clone()?)
        } else {
            let (read, write) = sys::pipe(0)?;
            (Some(read), write)
        };
        for fd in std::iter::once(&out_read).chain(&err_read) {
            sys::set_nonblocking(fd.as_raw_fd())?;
        }
        let (stdin_theirs, stdin) = if request.stdin {
            let (read, write) = sys::pipe(0)?;
            sys::set_nonblocking(write.as_raw_fd())?;
            (read, Some(write))
        } else {
            (sys::open(c"/dev/null", libc::O_RDONLY, 0)?, None)
        };
        Ok(Plumbing {
            theirs: [stdin_theirs, out_write, err_write],
            output: [Some(out_read), err_read],
            stdin,
        })
    })
}
