//! Handles requests for commands: validates them, collects their text, and starts or attaches.

use crate::commands::Commands;
use crate::connections::{Address, Stream};
use crate::execs::Exec;
use crate::processes::user::{self, User};
use crate::protocol::failure::Failure;
use crate::protocol::frame::Kind;
use crate::protocol::message::{AttachRequest, ExecRequest, Mode, Until};
use crate::sandbox::Sandbox;
use crate::server::context::Context;
use crate::shells::{is_shell_name, shell_name};

const MAX_COMMAND_BYTES: usize = 1 << 20;

/// A command whose text is still arriving.
pub struct Collecting {
    request: ExecRequest,
    text: Vec<u8>,
}

impl Collecting {
    /// Takes the bytes that belong to the text and returns the rest.
    fn take(&mut self, mut data: Vec<u8>) -> Vec<u8> {
        let wanted = self.request.cmd_bytes - self.text.len();
        let rest = data.split_off(wanted.min(data.len()));
        self.text.extend_from_slice(&data);
        rest
    }

    fn is_complete(&self) -> bool {
        self.text.len() == self.request.cmd_bytes
    }
}

impl Commands {
    pub fn request(
        &mut self,
        address: Address,
        mut request: ExecRequest,
        cx: &mut Context,
    ) -> Result<(), Failure> {
        validate(&request)?;
        request.run_as = self.user_of(&request)?;
        if self.execs.contains(&request.exec_id) {
            return self.attach(address, &again(request), cx);
        }
        if request.cmd_bytes == 0 {
            self.begin(address, request, Vec::new(), cx);
        } else {
            let text = Vec::new();
            let collecting = Box::new(Collecting { request, text });
            cx.connections.open(address, Stream::Collecting(collecting));
        }
        Ok(())
    }

    /// The user to run as, if the sandbox allows the user that the request names.
    ///
    /// SECURITY: commands run as another user only in sandboxes whose code is root. Elsewhere a
    /// request may name the code user, but this changes nothing, not even its groups in the image
    /// (threat: gaining privileges). Guarded by "another user" in tests/e2e/shell.test.ts.
    fn user_of(&self, request: &ExecRequest) -> Result<Option<User>, Failure> {
        let named = request.user.as_deref().map(user::resolve).transpose()?;
        if self.sandbox.allow_user {
            return Ok(named);
        }
        let Sandbox { uid, gid, .. } = *self.sandbox;
        // The image may assign another group to the user; a request that names no group does not
        // ask for it.
        let has_group = request.user.as_ref().is_some_and(|user| user.contains(':'));
        if named.is_some_and(|user| user.uid != uid || has_group && user.gid != gid) {
            let message = format!("commands of this sandbox run as user {uid}:{gid} only");
            return Err(Failure::new("permission", message));
        }
        Ok(None)
    }

    /// Collects a command's text; the bytes after it are stdin.
    pub fn collect(&mut self, address: Address, data: Vec<u8>, cx: &mut Context) {
        let Some(Stream::Collecting(collecting)) = cx.connections.stream(address) else {
            return;
        };
        let length = data.len();
        let rest = collecting.take(data);
        let is_complete = collecting.is_complete();
        cx.connections.grant(address, length - rest.len());
        if !is_complete {
            return;
        }
        let Some(Stream::Collecting(collecting)) = cx.connections.end_stream(address) else {
            return;
        };
        let Collecting { request, text } = *collecting;
        if self.execs.contains(&request.exec_id) {
            // A concurrent request has already started this command: it runs only once.
            if let Err(failure) = self.attach(address, &again(request), cx) {
                cx.connections.answer(address, Kind::Error, &failure);
            }
            return;
        }
        let exec_id = request.exec_id.clone();
        self.begin(address, request, text, cx);
        if !rest.is_empty()
            && let Ok(serial) = self.execs.find(&exec_id).map(Exec::serial)
        {
            self.push_stdin(serial, address, rest, cx);
        }
    }

    fn begin(&mut self, address: Address, request: ExecRequest, text: Vec<u8>, cx: &mut Context) {
        let shell = match request.mode {
            Mode::Process => None,
            Mode::Shell => match self.shells.get_or_create(shell_name(&request)) {
                Ok(shell) => Some(shell),
                Err(failure) => return cx.connections.answer(address, Kind::Error, &failure),
            },
        };
        let stdin = request.stdin;
        let serial = self.execs.insert(Exec::new(request, text, shell, address));
        cx.connections.open(address, Stream::Exec { serial, stdin });
        match shell {
            Some(shell) => self.shells.enqueue(shell, serial, &mut self.execs, cx),
            None => self.execs.start_process(serial, cx),
        }
    }

    pub fn attach(
        &mut self,
        address: Address,
        request: &AttachRequest,
        cx: &mut Context,
    ) -> Result<(), Failure> {
        self.execs.attach(address, request, cx)
    }
}

/// A request for an existing command is a request for its output.
fn again(request: ExecRequest) -> AttachRequest {
    AttachRequest {
        exec_id: request.exec_id,
        offset: 0,
        stdin: false,
        until: Until::Done,
    }
}

fn validate(request: &ExecRequest) -> Result<(), Failure> {
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
                return Err(Failure::invalid(
                    "user and argv are only valid for processes",
                ));
            }
        }
        Mode::Process => {
            if request.shell.is_some() {
                return Err(Failure::invalid("shell is only valid for shell commands"));
            }
            if request.argv.is_empty() || request.argv[0].is_empty() {
                return Err(Failure::invalid("argv must name a program"));
            }
            if request.argv.iter().any(|argument| argument.contains('\0')) {
                return Err(Failure::invalid("an argument contains a NUL byte"));
            }
            if request.cmd_bytes > 0 {
                return Err(Failure::invalid(
                    "cmd_bytes is only valid for shell commands",
                ));
            }
        }
    }
    Ok(())
}
