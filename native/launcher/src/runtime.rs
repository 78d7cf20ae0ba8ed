//! Runs the OCI runtime: its arguments, the descriptors it passes on, and its error output.

use std::fs::{self, File};
use std::io::{self, PipeReader, Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::cgroup::Join;
use crate::fault::{Context, Fault, Outcome, program_failure};
use crate::oom;
use crate::programs::STANDARD_PATH;
use crate::rlimits::Rlimit;
use crate::runtime_files::RuntimeFiles;
use crate::runtime_program::{self, ReadOnlyProgram};
use crate::spec::{Runtime, RuntimeKind};
use crate::sys::{self, Forked};
use crate::warm_up::WarmUp;

pub const DEADLINE: Duration = Duration::from_secs(20);
const CONSOLE_BYTES: u64 = 64 << 10;
/// The socket, the cgroup directory, the memory events and the source of the runner's score are
/// descriptors 3 to 6 in the sandbox.
pub const PASSED_FDS: usize = 4;
const FIRST_PASSED_FD: RawFd = 3;
/// Where the runtime, but not the sandbox, inherits the pipe with its configuration.
pub const AWAITED_CONFIG_FD: RawFd = FIRST_PASSED_FD + PASSED_FDS as RawFd;
/// The exit code that shells use for this.
const EXEC_FAILED: i32 = 127;

/// Keeps the numbers of the runtime's descriptors free until it is started.
pub struct ReservedFds(#[allow(dead_code)] Vec<OwnedFd>);

/// Occupies the numbers of the runtime's descriptors, so nothing opened later, here or by std, gets
/// them.
pub fn reserve_fds() -> Outcome<ReservedFds> {
    let mut held = Vec::new();
    loop {
        let file = File::open("/dev/null").context(|| "opening /dev/null".into())?;
        if file.as_raw_fd() > AWAITED_CONFIG_FD {
            return Ok(ReservedFds(held));
        }
        held.push(file.into());
    }
}

/// The inputs of a start.
pub struct Start<'a> {
    pub runtime: &'a Runtime,
    pub id: &'a str,
    pub files: &'a RuntimeFiles,
    /// The cgroups that the runtime joins before it begins.
    pub join: &'a Join,
    /// The limits of the runtime and everything it starts.
    pub rlimits: Vec<Rlimit>,
    /// In the order of their numbers in the sandbox.
    pub pass: &'a [OwnedFd; PASSED_FDS],
    /// Present if the runtime starts before its configuration is complete.
    pub awaited_config: Option<&'a PipeReader>,
}

/// A started runtime.
pub struct Running {
    child: i32,
    /// Reports why the program could not be started, and ends when it runs.
    refusal: PipeReader,
    console: OwnedFd,
}

/// Starts the runtime.
pub fn begin(start: &Start<'_>) -> Outcome<Running> {
    let console = sys::bounded_memory_file(c"console", CONSOLE_BYTES)
        .context(|| "creating the console".into())?;
    let program = ReadOnlyProgram::of(start.runtime);
    let mut command = command(start, program.as_ref());
    // SECURITY: a process with the console could otherwise fill the host's disk through it; this
    // one is limited to 64 KiB (threat: floods of output; guarded by `the_console_is_bounded`).
    let copy = |fd: &OwnedFd| fd.try_clone().context(|| "copying the console".into());
    command
        .stdin(empty_file()?)
        .stdout(copy(&console)?)
        .stderr(copy(&console)?);
    let starting = || starting(start.runtime);
    let (refusal, refused) = io::pipe().context(starting)?;
    match fork(start.join).context(starting)? {
        Forked::Parent(child) => Ok(Running {
            child,
            refusal,
            console,
        }),
        Forked::Child => {
            let error = match entrances(start.join) {
                Ok(join) => {
                    hand_over(&mut command, start, join);
                    command.exec()
                }
                Err(error) => error,
            };
            let _ = write!(&refused, "{error}");
            std::process::exit(EXEC_FAILED);
        }
    }
}

fn starting(runtime: &Runtime) -> String {
    format!(
        "starting {} in the sandbox's cgroups",
        runtime.path.display()
    )
}

impl Running {
    /// Waits until the sandbox is started.
    pub fn finish(
        mut self,
        runtime: &Runtime,
        files: &RuntimeFiles,
        state_dir: &Path,
        warm_up: Option<WarmUp>,
    ) -> Outcome<()> {
        let starting = || starting(runtime);
        let mut reason = String::new();
        self.refusal.read_to_string(&mut reason).context(starting)?;
        if !reason.is_empty() {
            sys::wait_child(self.child).context(starting)?;
            return Err(Fault::new(format!("{}: {reason}", starting())));
        }
        if let Some(warm_up) = warm_up {
            warm_up.begin();
        }
        let ended = wait(self.child);
        let said = console_text(self.console).context(|| "reading the console".into())?;
        let console_file = state_dir.join("console.log");
        if !said.is_empty() {
            fs::write(&console_file, &said)
                .context(|| format!("writing {}", console_file.display()))?;
        }
        match ended? {
            None => Ok(()),
            Some(status) => Err(Fault::of(
                program_failure(state_dir),
                format!(
                    "{} could not start the sandbox ({status}): {}",
                    runtime.path.display(),
                    reasons(&files.log, &said)
                ),
            )),
        }
    }

    /// Ends the runtime, unless it has already ended.
    pub fn end(self) -> Outcome<()> {
        let ending = || "ending the runtime".to_string();
        let pidfd = sys::pidfd_open(self.child).context(ending)?;
        sys::pidfd_kill(pidfd.as_fd()).context(ending)?;
        sys::wait_child(self.child).context(ending).map(drop)
    }
}

/// Reads as empty and accepts no byte.
///
/// SECURITY: never /dev/null: crun gives its standard streams to the sandbox's root, which would then
/// own the host's device (guarded by `host_devices_are_not_changed`).
pub fn empty_file() -> Outcome<OwnedFd> {
    sys::bounded_memory_file(c"empty", 0).context(|| "creating an empty file".into())
}

fn command(start: &Start<'_>, program: Option<&ReadOnlyProgram>) -> Command {
    let runtime = start.runtime;
    let mut command = match program {
        Some(program) => Command::new(program.path()),
        None => Command::new(&runtime.path),
    };
    command
        .arg0(&runtime.path)
        .arg("--root")
        .arg(&start.files.root)
        .arg("--log")
        .arg(&start.files.log)
        .args(["--log-format", "json"]);
    match runtime.kind {
        RuntimeKind::Crun => command.arg("--cgroup-manager=disabled"),
        RuntimeKind::Runc => &mut command,
        RuntimeKind::Runsc => command.arg("--ignore-cgroups"),
    };
    command.args(&runtime.args).args(["run", "--detach"]);
    command
        .arg("--pid-file")
        .arg(&start.files.pid)
        .arg("--bundle")
        .arg(&start.files.bundle);
    if passes_fds(runtime.kind) {
        command.arg(format!("--preserve-fds={PASSED_FDS}"));
    }
    command.arg(start.id).current_dir("/");
    // SECURITY: nothing of the daemon's environment, least of all its keys, reaches the sandbox
    // (threat: leaked secrets and descriptors; guarded by `inherited_descriptors_lead_nowhere`).
    command.env_clear().env("PATH", STANDARD_PATH);
    if program.is_some() {
        let (name, value) = runtime_program::TOLD;
        command.env(name, value);
    }
    command
}

/// gVisor does not pass descriptors on; its runner is reached through the runtime's `exec`.
fn passes_fds(kind: RuntimeKind) -> bool {
    kind != RuntimeKind::Runsc
}

/// Forks, into the unified cgroup if the kernel can.
fn fork(join: &Join) -> io::Result<Forked> {
    if let Some(unified) = &join.unified {
        // SAFETY: the launcher has one thread; the child becomes the runtime or ends.
        if let Ok(forked) = unsafe { sys::fork_into(unified.as_fd()) } {
            return Ok(forked);
        }
    }
    // SAFETY: as above.
    unsafe { sys::fork(0) }
}

/// The files by which this process joins the cgroups that it is not in yet.
///
/// SECURITY: whether it was created in the unified one, which may have all limits, is checked, not
/// assumed (threats: fork bombs, exhausting memory and hogging the CPU; guarded by
/// `the_sandbox_is_in_all_its_cgroups`).
fn entrances(join: &Join) -> io::Result<Vec<RawFd>> {
    let mut files: Vec<RawFd> = join.tasks.iter().map(AsRawFd::as_raw_fd).collect();
    if let Some(mut procs) = join.unified_procs.as_ref() {
        let mut members = String::new();
        procs.read_to_string(&mut members)?;
        let own = std::process::id().to_string();
        if !members.lines().any(|member| member == own) {
            files.push(procs.as_raw_fd());
        }
    }
    Ok(files)
}

/// Before exec: joins the cgroups, moves the descriptors to where the sandbox expects them and sets
/// the limits.
fn hand_over(command: &mut Command, start: &Start<'_>, join: Vec<RawFd>) {
    let pass: Vec<RawFd> = start.pass.iter().map(AsRawFd::as_raw_fd).collect();
    let passing = passes_fds(start.runtime.kind);
    let rlimits = start.rlimits.clone();
    let oom_score = oom::score_of_sandboxes();
    let awaited_config = start.awaited_config.map(AsRawFd::as_raw_fd);
    // SAFETY: the closure only makes bare system calls on what was prepared before it runs.
    unsafe {
        command.pre_exec(move || {
            for file in &join {
                sys::write_once(*file, b"0")?;
            }
            let mut first_closed = FIRST_PASSED_FD;
            if passing {
                for (fd, number) in pass.iter().zip(FIRST_PASSED_FD..) {
                    sys::place_fd(*fd, number)?;
                }
                first_closed += PASSED_FDS as RawFd;
            }
            if let Some(pipe) = awaited_config {
                sys::place_fd(pipe, AWAITED_CONFIG_FD)?;
                first_closed = AWAITED_CONFIG_FD + 1;
            }
            // SECURITY: a descriptor of the host that leaks into a sandbox is a way out of it
            // (threat: leaked secrets and descriptors; guarded by
            // `inherited_descriptors_lead_nowhere`).
            sys::close_on_exec_from(first_closed as u32)?;
            for limit in &rlimits {
                sys::set_rlimit(limit.resource, limit.soft, limit.hard)?;
            }
            oom::take_score(&oom_score)
        });
    }
}

/// None on success, otherwise how the runtime ended.
fn wait(child: i32) -> Outcome<Option<String>> {
    let waiting = || "waiting for the runtime".to_string();
    let pidfd = sys::pidfd_open(child).context(waiting)?;
    if !sys::wait_readable(pidfd.as_fd(), DEADLINE.as_millis() as i32).context(waiting)? {
        sys::pidfd_kill(pidfd.as_fd()).context(waiting)?;
        sys::wait_child(child).context(waiting)?;
        return Ok(Some(format!(
            "the runtime did not finish within {} s",
            DEADLINE.as_secs()
        )));
    }
    let status = sys::wait_child(child).context(waiting)?;
    Ok((!status.success()).then(|| status.to_string()))
}

/// The output so far; the bytes after it are the zeros that the console was created with.
fn console_text(console: OwnedFd) -> io::Result<Vec<u8>> {
    let mut file = File::from(console);
    let length = file.stream_position()?.min(CONSOLE_BYTES);
    let mut bytes = vec![0; length as usize];
    // Read at offsets: the position is shared with the sandbox, which continues to print.
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// The last messages of the runtime's log, or else what it printed.
fn reasons(log: &Path, console: &[u8]) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let messages: Vec<String> = text.lines().filter_map(log_message).collect();
    if !messages.is_empty() {
        let last = messages.len().saturating_sub(3);
        return messages[last..].join("; ");
    }
    let said = String::from_utf8_lossy(console);
    let said = said.trim();
    if said.is_empty() {
        "it gave no reason".to_owned()
    } else {
        said.chars().take(2000).collect()
    }
}

fn log_message(line: &str) -> Option<String> {
    let entry: Value = serde_json::from_str(line).ok()?;
    if matches!(
        entry.get("level").and_then(Value::as_str),
        Some("debug" | "info")
    ) {
        return None;
    }
    Some(entry.get("msg")?.as_str()?.trim().to_owned())
}

/// Where a runtime keeps the state of one sandbox.
pub fn state_paths(runtime: &Runtime, id: &str) -> Outcome<Vec<PathBuf>> {
    if runtime.kind != RuntimeKind::Runsc {
        return Ok(vec![runtime.root.join(id)]);
    }
    let prefix = format!("{id}_sandbox:");
    let reading = || format!("reading {}", runtime.root.display());
    let listing = match fs::read_dir(&runtime.root) {
        Ok(listing) => listing,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).context(reading),
    };
    let mut found = Vec::new();
    for entry in listing {
        let path = entry.context(reading)?.path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if name.starts_with(&prefix) {
            found.push(path);
        }
    }
    Ok(found)
}

/// The sandbox's first process as (pid, start time), from the runtime's own state.
pub fn noted_process(runtime: &Runtime, id: &str) -> Option<(i32, u64)> {
    let (file, pid, start) = match runtime.kind {
        RuntimeKind::Crun => ("status", "pid", "process-start-time"),
        RuntimeKind::Runc => ("state.json", "init_process_pid", "init_process_start"),
        RuntimeKind::Runsc => return None,
    };
    let notes: Value =
        serde_json::from_slice(&fs::read(runtime.root.join(id).join(file)).ok()?).ok()?;
    Some((
        i32::try_from(notes.get(pid)?.as_i64()?).ok()?,
        notes.get(start)?.as_u64()?,
    ))
}
