//! One command in a shell: its text and pipes, its beginning and its end.

use crate::execs::{Exec, Execs, Outcome, Serial, State};
use crate::processes::{proc_tree, terminal};
use crate::protocol::failure::{Failure, reason_of};
use crate::server::context::Context;
use crate::shells::lines::{CommandLines, Dialect};
use crate::shells::pipes::{CommandPipes, SparePipes, in_name};
use crate::shells::reports::Current;
use crate::shells::run_dir::REPAIR_FILE;
use crate::shells::terminal::ShellTerminal;
use crate::shells::{ShellId, Shells};
use std::io;
use std::path::Path;

impl Shells {
    /// Starts the next queued command, unless one is running.
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

    fn run(
        &mut self,
        id: ShellId,
        serial: Serial,
        execs: &mut Execs,
        cx: &mut Context,
    ) -> Result<(), Failure> {
        let Some(exec) = execs.get(serial) else {
            return Ok(());
        };
        let cwd = exec.request().cwd.as_deref();
        let cwd = cwd.map(|cwd| self.sandbox.directory(cwd));
        if let Some(cwd) = &cwd
            && let Err(error) = self.sandbox.can_enter(Path::new(cwd))
        {
            self.end_without_directory(id, serial, cwd, &error, execs, cx);
            return Ok(());
        }
        let failed = |error: io::Error| Failure::io("prepare", "the command", &error);
        self.begin(id, serial, cwd.as_deref(), execs, cx)
            .map_err(failed)?;
        execs.begin_quietly(serial);
        if let Some(exec) = execs.get_mut(serial) {
            exec.feed_stdin(cx);
        }
        Ok(())
    }

    fn begin(
        &mut self,
        id: ShellId,
        serial: Serial,
        cwd: Option<&str>,
        execs: &mut Execs,
        cx: &mut Context,
    ) -> io::Result<()> {
        let oom_kills = self.sandbox.limits.oom_kills_before();
        let now = cx.clock.now();
        let (uid, gid) = (self.sandbox.uid, self.sandbox.gid);
        let Some(shell) = self.by_id.get_mut(&id) else {
            return Ok(());
        };
        // The previous command receives no further output of the terminal.
        if let Some(terminal) = &mut shell.terminal
            && let Some(last) = terminal.reader.take().and_then(|last| execs.get_mut(last))
        {
            last.release_terminal(cx);
        }
        let (Some(process), Some(exec)) = (&mut shell.process, execs.get_mut(serial)) else {
            return Ok(());
        };
        if self.run_dir.restore()? {
            self.spare_pipes = None;
        }
        let request = exec.request();
        if let (None, Some(size)) = (&shell.terminal, request.pty) {
            shell.terminal = Some(ShellTerminal::open(size.rows, size.cols, uid, gid)?);
        }
        let CommandPipes {
            tag,
            mut files,
            redirections,
            pipes,
        } = match &mut shell.terminal {
            Some(terminal) => {
                terminal.reader = Some(serial);
                terminal.pipes(request.stdin)?
            }
            None => {
                let spare = match self.spare_pipes.take() {
                    Some(spare) => spare,
                    None => SparePipes::make(&self.run_dir)?,
                };
                CommandPipes::new(&self.run_dir, spare, request.merge, request.stdin)?
            }
        };
        if request.stdin && !pipes.on_terminal {
            let path = self.run_dir.path(&in_name(&tag));
            self.openings.watch(&path, serial)?;
        }
        // The trailing 0 is replaced by an expansion that sets bash's line number.
        let file_name = format!("cmd-{tag}-0");
        let file = self.run_dir.path(&file_name);
        let status_name = format!("status-{tag}");
        let status = shell.memory.status_to_restore();
        if let Some(status) = status {
            let text = format!("return {status}\n");
            self.run_dir.put(&status_name, text.as_bytes())?;
            files.push(status_name.clone());
        }
        let status_file = self.run_dir.path(&status_name).display().to_string();
        let env: Vec<(String, String)> = request.env.clone().into_iter().collect();
        let marker = (proc_tree::MARKER, request.exec_id.as_str());
        let trap_list = format!("traps-{tag}");
        let lines = CommandLines {
            number: serial,
            redirections: &redirections,
            text: exec.command(),
            file: &file.display().to_string(),
            repair_file: &self.run_dir.path(REPAIR_FILE).display().to_string(),
            env: &env,
            marker: self.tracker.needs_marker().then_some(marker),
            terminal_type: (pipes.on_terminal && shell.memory.lacks_terminal_type)
                .then_some(terminal::TYPE),
            cwd,
            status_file: status.map(|_| status_file.as_str()),
            trap_list: &self.run_dir.path(&trap_list).display().to_string(),
            memory: &shell.memory,
        };
        let sets_terminal_type = lines.terminal_type.is_some();
        let (packets, content) = lines.packets(process.dialect);
        let closing = lines.closing(process.dialect);
        let lists_traps = process.dialect == Dialect::Sh && lines.ends_err_trap();
        let listed = match lists_traps {
            true => Some(self.run_dir.output_pipe(&trap_list)?),
            false => None,
        };
        files.extend(lists_traps.then_some(trap_list));
        if let Some(content) = content {
            self.run_dir.put(&file_name, &content)?;
            files.push(file_name);
        }
        exec.connect(process.pid, pipes);
        exec.begin(now, oom_kills, process.group);
        if std::mem::take(&mut shell.replaced) {
            exec.note_restart();
        }
        if let Some(problem) = shell.profile_problem.take() {
            exec.note_restart();
            exec.say(&format!(
                "sandkasten: {problem}; this shell runs without profile files\n"
            ));
        }
        if sets_terminal_type {
            shell.memory.lacks_terminal_type = false;
        }
        process.socket.send(packets);
        process.watch(id, &cx.poll);
        shell.current = Some(Current::new(serial, files, closing, listed));
        Ok(())
    }

    fn end_without_directory(
        &mut self,
        id: ShellId,
        serial: Serial,
        cwd: &str,
        why: &io::Error,
        execs: &mut Execs,
        cx: &mut Context,
    ) {
        let cause = reason_of(why);
        if let Some(exec) = execs.get_mut(serial) {
            exec.announce(cx);
            exec.say(&format!("cd: {cwd}: {cause}\n"));
        }
        let outcome = Outcome {
            cwd: self.directory(id),
            ..Outcome::exited(1)
        };
        execs.finish(serial, outcome, cx);
    }

    /// The shell's directory, as last reported.
    fn directory(&self, id: ShellId) -> Option<String> {
        Some(self.by_id.get(&id)?.memory.shown_cwd())
    }

    /// Returns a command to its state before the shell got it.
    pub(super) fn unstart(&self, current: &Current, execs: &mut Execs, cx: &Context) {
        self.run_dir.remove(&current.files);
        if let Some(exec) = execs.get_mut(current.serial) {
            exec.unstart(&cx.poll);
        }
    }

    pub(super) fn end(
        &self,
        id: ShellId,
        current: &Current,
        outcome: Outcome,
        execs: &mut Execs,
        cx: &mut Context,
    ) {
        let outcome = Outcome {
            cwd: self.directory(id),
            ..outcome
        };
        execs.finish(current.serial, outcome, cx);
    }
}
