//! Requests for commands: checking them, gathering their text, beginning or attaching.

use crate::connections::connection::Stream;
use crate::protocol::failure::Failure;
use crate::execs::exec::{Address, Exec, Reader};
use crate::protocol::frame::{INITIAL_CREDIT, Kind};
use crate::protocol::message::{AttachRequest, ExecRequest, Mode, Until};
use crate::server::event_loop::Server;
use crate::shells::named::{is_shell_name, shell_name};
use crate::processes::user;
use serde_json::json;
use std::collections::VecDeque;

const MAX_COMMAND_BYTES: usize = 1 << 20;

impl Server {
    pub fn take_exec(&mut self, address: Address, mut request: ExecRequest) -> Result<(), Failure> {
        validate(&request, self.options.allow_user)?;
        request.ids = request.user.as_deref().map(user::resolve).transpose()?;
        if self.execs.find(&request.exec_id).is_some() {
            let attach = AttachRequest {
                exec_id: request.exec_id,
                offset: 0,
                stdin: false,
                until: Until::Done,
            };
            return self.attach(address, &attach);
        }
        if request.cmd_bytes == 0 {
            self.begin_exec(address, request, Vec::new());
        } else {
            let stream = Stream::Collecting {
                request: Box::new(request),
                command: Vec::new(),
            };
            self.open(address, stream);
        }
        Ok(())
    }

    pub fn begin_exec(&mut self, address: Address, request: ExecRequest, command: Vec<u8>) {
        let in_shell = request.mode == Mode::Shell;
        let stdin = request.stdin;
        let shell = match in_shell.then(|| self.shell_for(&request)).transpose() {
            Ok(shell) => shell,
            Err(failure) => return self.answer(address, Kind::Error, &failure),
        };
        let mut exec = Exec::new(request, command);
        exec.shell = shell;
        exec.readers.push(reader(address, 0, Until::Done));
        exec.stdin.source = stdin.then_some(address);
        let serial = self.execs.insert(exec);
        self.open(address, Stream::Exec { serial, stdin });
        match shell {
            Some(shell) => self.enqueue_in_shell(shell, serial),
            None => self.start_process(serial),
        }
    }

    pub fn attach(&mut self, address: Address, request: &AttachRequest) -> Result<(), Failure> {
        let serial = self
            .execs
            .find(&request.exec_id)
            .ok_or_else(|| unknown(&request.exec_id))?;
        let Some(exec) = self.execs.get_mut(serial) else {
            return Err(unknown(&request.exec_id));
        };
        if request.offset > exec.spool.end() {
            return Err(Failure::invalid("the offset is beyond the output"));
        }
        let started = exec.announced;
        exec.readers
            .push(reader(address, request.offset, request.until));
        if request.stdin {
            exec.stdin.source = Some(address);
            exec.stdin.stale = exec.stdin.waiting;
        }
        let pid = exec.pid;
        let stream = Stream::Exec {
            serial,
            stdin: request.stdin,
        };
        self.open(address, stream);
        if started {
            self.send_json(
                address,
                Kind::Event,
                &json!({ "event": "started", "exec_id": request.exec_id, "pid": pid }),
            );
        }
        // The offset says what was consumed already.
        self.after_acknowledgement(serial);
        self.pump(serial);
        Ok(())
    }

    /// Gathers a command's text; what follows it is stdin.
    pub fn collect(&mut self, address: Address, mut data: Vec<u8>) {
        let Some(connection) = self.connections.get_mut(&address.connection) else {
            return;
        };
        let Some(open) = connection.streams.get_mut(&address.stream) else {
            return;
        };
        let Stream::Collecting { request, command } = &mut open.stream else {
            return;
        };
        let wanted = request.cmd_bytes - command.len();
        let rest = data.split_off(wanted.min(data.len()));
        command.extend_from_slice(&data);
        let complete = command.len() == request.cmd_bytes;
        self.grant(address, data.len());
        if !complete {
            return;
        }
        let Some(connection) = self.connections.get_mut(&address.connection) else {
            return;
        };
        let Some(open) = connection.streams.remove(&address.stream) else {
            return;
        };
        if let Stream::Collecting { request, command } = open.stream {
            let exec_id = request.exec_id.clone();
            if self.execs.find(&exec_id).is_some() {
                // The same command came twice at once: it runs once.
                let attach = AttachRequest {
                    exec_id,
                    offset: 0,
                    stdin: false,
                    until: Until::Done,
                };
                if let Err(failure) = self.attach(address, &attach) {
                    self.answer(address, Kind::Error, &failure);
                }
                return;
            }
            self.begin_exec(address, *request, command);
            if let (Some(serial), false) = (self.execs.find(&exec_id), rest.is_empty()) {
                self.push_stdin(serial, address, rest);
            }
        }
    }
}

fn reader(address: Address, offset: u64, until: Until) -> Reader {
    Reader {
        address,
        next: offset,
        credit: INITIAL_CREDIT,
        unacknowledged: VecDeque::new(),
        acknowledged: offset,
        until,
        answered: false,
    }
}

pub fn unknown(exec_id: &str) -> Failure {
    Failure::new("not_found", format!("no command has the id {exec_id}"))
}

fn validate(request: &ExecRequest, allow_user: bool) -> Result<(), Failure> {
    let id = request.exec_id.as_bytes();
    let id_ok = (1..=64).contains(&id.len())
        && id
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || *b == b'_' || *b == b'-');
    if !id_ok {
        return Err(Failure::invalid(
            "exec_id must be 1 to 64 letters, digits, _ or -",
        ));
    }
    for (name, value) in &request.env {
        let name_ok = !name.is_empty()
            && !name.as_bytes()[0].is_ascii_digit()
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if !name_ok || value.contains('\0') {
            return Err(Failure::invalid(format!(
                "bad environment variable {name:?}"
            )));
        }
    }
    match request.mode {
        Mode::Shell => {
            if request.cmd_bytes > MAX_COMMAND_BYTES {
                return Err(Failure::new("too_large", "the command is over 1 MiB"));
            }
            if !is_shell_name(shell_name(request)) {
                return Err(Failure::invalid(
                    "a shell's name must be 1 to 64 letters, digits, _, . or -, \
                     and begin with a letter or digit",
                ));
            }
            if request.user.is_some() || !request.argv.is_empty() {
                return Err(Failure::invalid("user and argv are for processes"));
            }
        }
        Mode::Process => {
            if request.shell.is_some() {
                return Err(Failure::invalid("shell is for commands of the shell"));
            }
            if request.argv.is_empty() || request.argv[0].is_empty() {
                return Err(Failure::invalid("argv must name a program"));
            }
            if request.argv.iter().any(|argument| argument.contains('\0')) {
                return Err(Failure::invalid("an argument contains a NUL byte"));
            }
            if request.cmd_bytes > 0 {
                return Err(Failure::invalid("cmd_bytes is for the shell"));
            }
            // SECURITY: another user than the code user is only for sandboxes whose code is root.
            if request.user.is_some() && !allow_user {
                return Err(Failure::new("permission", "this sandbox has one user only"));
            }
        }
    }
    Ok(())
}
