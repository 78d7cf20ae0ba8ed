//! Starts commands that are separate processes.

use crate::execs::Execs;
use crate::execs::exec::{Exec, Pipes, Serial};
use crate::execs::finish::Outcome;
use crate::processes::launch::{self, Launch, LaunchError, Progress};
use crate::processes::{Tracker, proc_tree, terminal};
use crate::protocol::failure::reason_of;
use crate::protocol::message::ExecRequest;
use crate::sandbox::Sandbox;
use crate::server::context::Context;
use crate::server::token::Token;
use crate::sys;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

impl Execs {
    pub fn start_process(&mut self, serial: Serial, cx: &mut Context) {
        let Some(exec) = self.table.get_mut(serial) else {
            return;
        };
        let oom_kills = self.sandbox.limits.oom_kills_before();
        exec.begin(cx.clock.now(), oom_kills, self.tracker.begin());
        match exec.launch(&self.sandbox, &self.tracker, cx) {
            Ok(()) => {
                exec.watch_output(cx);
                exec.feed_stdin(cx);
            }
            Err(error) => {
                let step = "prepare";
                self.end_unstarted(serial, &LaunchError { step, error }, cx);
            }
        }
    }

    /// Checks whether a process has started its program.
    pub fn take_launch(&mut self, serial: Serial, cx: &mut Context) {
        let Some(exec) = self.table.get_mut(serial) else {
            return;
        };
        let Some(report) = exec.launching.take() else {
            return;
        };
        match launch::progress(&report) {
            Progress::Pending => exec.launching = Some(report),
            // A child that is stopped before its exec shares the pipe and would keep it watched.
            Progress::Running => {
                cx.poll.remove(report.as_raw_fd());
                exec.announce(cx);
            }
            // The process's end, which follows, then belongs to no command.
            Progress::Failed(problem) => {
                cx.poll.remove(report.as_raw_fd());
                self.end_unstarted(serial, &problem, cx);
            }
        }
    }

    /// Handles the end of a process; `shells` are the pids of all shells. A process that never
    /// started its program has reported why.
    pub fn process_ended(&mut self, pid: i32, outcome: Outcome, shells: &[i32], cx: &mut Context) {
        if let Some(serial) = self.process(pid) {
            self.take_launch(serial, cx);
        }
        let Some(serial) = self.process(pid) else {
            return;
        };
        let Some(exec) = self.get(serial) else {
            return;
        };
        let group = exec.group;
        if exec.stop.is_ending() {
            self.kill_members(serial, shells);
        }
        self.finish(serial, outcome, cx);
        if let Some(group) = group {
            self.tracker.end(group);
        }
    }

    fn process(&self, pid: i32) -> Option<Serial> {
        self.running()
            .find(|exec| exec.pid == pid && !exec.in_shell())
            .map(|exec| exec.serial)
    }

    /// A program that cannot run is a result, with the exit code that a shell would return.
    fn end_unstarted(&mut self, serial: Serial, problem: &LaunchError, cx: &mut Context) {
        let Some(exec) = self.table.get_mut(serial) else {
            return;
        };
        exec.announce(cx);
        let what = match problem.step {
            "directory" => exec.request.cwd.clone().unwrap_or_default(),
            _ => exec.request.argv.first().cloned().unwrap_or_default(),
        };
        let LaunchError { step, error } = problem;
        let reason = reason_of(error);
        exec.say(&format!("cannot run: {step} {what}: {reason}\n"));
        // The process has not exited yet and holds the pipes, but will never write to them.
        exec.close_outputs(&cx.poll);
        let group = exec.group;
        let exit_code = match error.raw_os_error() {
            Some(libc::ENOENT) if *step == "exec" => 127,
            _ => 126,
        };
        self.finish(serial, Outcome::exited(exit_code), cx);
        if let Some(group) = group {
            self.tracker.end(group);
        }
    }
}

impl Exec {
    fn launch(&mut self, sandbox: &Sandbox, tracker: &Tracker, cx: &Context) -> io::Result<()> {
        sandbox.limits.check_room()?;
        let user = self.request.run_as.as_ref();
        let (uid, gid) = user.map_or((sandbox.uid, sandbox.gid), |user| (user.uid, user.gid));
        let (theirs, pipes) = plumb(&self.request, uid, gid)?;
        let mut env = sandbox.env.clone();
        if let Some(user) = user {
            user.name_in(&mut env, sandbox.uid);
        }
        let (type_name, type_value) = terminal::TYPE;
        if pipes.on_terminal && !env.iter().any(|(name, _)| name == type_name) {
            set(&mut env, type_name, type_value);
        }
        if tracker.needs_marker() {
            set(&mut env, proc_tree::MARKER, &self.request.exec_id);
        }
        for (name, value) in &self.request.env {
            set(&mut env, name, value);
        }
        let entrance = match self.group {
            Some(group) => tracker.entrance(group)?,
            None => None,
        };
        let launched = launch::launch(&Launch {
            sandbox,
            argv: &self.request.argv,
            env: &env,
            cwd: Path::new(&sandbox.directory(self.request.cwd.as_deref().unwrap_or_default())),
            uid,
            gid,
            stdio: [0, 1, 2].map(|i: usize| theirs[i].as_raw_fd()),
            terminal: pipes.on_terminal,
            entrance: entrance.as_ref().map(AsRawFd::as_raw_fd),
        })?;
        let token = Token::Launch(self.serial);
        cx.poll
            .add(launched.report.as_raw_fd(), libc::EPOLLIN, token)?;
        self.launching = Some(launched.report);
        self.connect(launched.pid, pipes);
        Ok(())
    }
}

fn set(env: &mut Vec<(String, String)>, name: &str, value: &str) {
    env.retain(|(existing, _)| existing != name);
    env.push((name.to_string(), value.to_string()));
}

/// Creates the pipes of a command: its ends, and ours.
fn plumb(request: &ExecRequest, uid: u32, gid: u32) -> io::Result<([OwnedFd; 3], Pipes)> {
    if let Some(size) = request.pty {
        let (master, slave) = terminal::open(size.rows, size.cols, uid, gid)?;
        let writer = master.try_clone()?;
        let theirs = [slave.try_clone()?, slave.try_clone()?, slave];
        let pipes = Pipes {
            output: [Some(master), None],
            stdin: request.stdin.then_some(writer),
            stdin_opened: true,
            on_terminal: true,
        };
        return Ok((theirs, pipes));
    }
    // The pipes belong to the code user, so that it can reopen them as /dev/stdout.
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
        let pipes = Pipes {
            output: [Some(out_read), err_read],
            stdin,
            stdin_opened: true,
            on_terminal: false,
        };
        Ok(([stdin_theirs, out_write, err_write], pipes))
    })
}
