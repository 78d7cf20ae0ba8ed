"""Sessions, commands, files and ports, as the daemon describes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias, TypeVar

T = TypeVar("T")

Command: TypeAlias = str | Sequence[str]
"""Text runs in a shell that keeps its state. A list of arguments runs as a separate process."""

OutputStream: TypeAlias = Literal["stdout", "stderr"]


@dataclass(frozen=True)
class SessionInfo:
    """A session. Times are ISO 8601."""

    id: str
    image: str
    """The image in use."""
    requested_image: str | None
    """The image that was requested, if it differs."""
    status: str
    backend: str
    """The backend that runs the sandbox."""
    cwd: str
    acquire_source: str
    workspace_id: str | None
    key: str | None
    profile: str
    network: Any
    isolation_level: str
    limits: Mapping[str, int]
    metadata: Mapping[str, str]
    ttl_seconds: int
    created_at: str
    expires_at: str
    """When the session expires unless it is used."""
    max_expires_at: str
    """When the session ends even if it is used."""
    last_activity_at: str
    ended_at: str | None
    end_reason: str | None


@dataclass(frozen=True)
class SessionStats:
    """A sandbox's current resource usage, and its limits."""

    memory_bytes: int
    memory_limit: int
    cpu_usage_usec: int
    pids: int
    pids_limit: int
    disk_bytes: int
    disk_limit: int
    oom_kills: int


@dataclass(frozen=True)
class IsolationFact:
    """One measured property of a sandbox's isolation."""

    name: str
    enforced: bool
    measured: str


@dataclass(frozen=True)
class IsolationReport:
    """A sandbox's isolation, as measured inside it."""

    tier: str
    runtime: str
    facts: Sequence[IsolationFact]


@dataclass(frozen=True)
class ExecInfo:
    """A command without its output."""

    exec_id: str
    session_id: str
    status: str
    """`queued`, `running` or `done`."""
    cmd: Command
    """The command as requested, at most its first 4 KiB."""
    shell: str | None
    """The shell that ran it; None for a list of arguments."""
    exit_code: int | None
    """None while the command runs, or if its exit code is unknown."""
    end_reason: str | None
    """`exited`, `timeout`, `idle_timeout`, `oom`, `killed`, `cancelled`, `sandbox_gone`, `not_started` or `unknown`."""
    timed_out: bool
    signal: int | None
    """The signal that ended it."""
    cwd: str
    """The shell's directory after the command."""
    duration_ms: int
    output_bytes: int
    stdout_bytes: int
    stderr_bytes: int
    dropped_bytes: int
    """Bytes of output that can no longer be read."""
    shell_restarted: bool
    """This command ended its shell, or runs in a new one because an earlier command did."""
    background: bool
    """Processes that it left in the background still hold its output."""
    timeout_ms: int | None
    """The timeout in effect."""
    timeout_clamped: bool
    """The requested timeout exceeded the maximum and was lowered."""
    started_at: str
    ended_at: str | None


@dataclass(frozen=True)
class OutputMatch:
    """Where the output matched the pattern of `until`."""

    stream: OutputStream
    text: str
    groups: Sequence[str | None]
    line: str


@dataclass(frozen=True)
class ExecResult(ExecInfo):
    """A command with its output."""

    output: str
    """stdout and stderr in order of arrival. Bytes that are not UTF-8 are replaced."""
    stdout: str
    stderr: str
    truncated: bool
    """The middle of the output is missing here; `Exec.read` returns all of it."""
    next_cursor: int
    """Where this output ends: the cursor from which to continue reading."""
    matched: bool | None
    """Whether the output matched `until`; None without `until`."""
    match: OutputMatch | None


@dataclass(frozen=True)
class OutputChunk:
    """A chunk of output."""

    stream: OutputStream
    text: str
    """Bytes that are not UTF-8 are replaced. A character is never split between two chunks."""
    data: bytes
    """The exact bytes."""
    seq: int
    timestamp: int
    """Milliseconds since 1970."""
    offset: int
    """Where the chunk begins in the whole output, in bytes."""
    skipped_bytes: int
    """Bytes before it that can no longer be read."""


@dataclass(frozen=True)
class OutputPage:
    """A part of a command's output."""

    chunks: Sequence[OutputChunk]
    next_cursor: int
    skipped_bytes: int
    """Bytes between the cursor and the first chunk that can no longer be read."""
    done: bool
    """The command has ended, and this is the end of its output."""
    closed: bool
    """Nothing more can come, not even from background processes."""
    exec: ExecInfo


@dataclass(frozen=True)
class ShellInfo:
    """A shell of a session."""

    name: str
    kind: str
    cwd: str
    busy: bool
    exec_id: str | None
    """The command running in it."""
    queued: int
    """How many commands wait for it."""


@dataclass(frozen=True)
class PortInfo:
    """A TCP port that a process listens on inside a sandbox."""

    port: int
    address: str
    pid: int | None
    """Process id inside the sandbox, if known."""
    process: str | None
    """Name of the process, if known."""


@dataclass(frozen=True)
class FileEntry:
    """A file, directory or link."""

    path: str
    name: str
    type: str
    """`file`, `dir`, `symlink` or `other`."""
    size: int
    mode: int
    """Permission bits."""
    mtime_unix: float
    uid: int
    gid: int
    target: str | None
    """The target of a link."""
    etag: str
    """Changes whenever the content does."""
    raw_path: str | None
    """base64 of the path's bytes, if they are not UTF-8."""


@dataclass(frozen=True)
class WrittenFile:
    """A file that was written."""

    path: str
    size_bytes: int
    etag: str
    raw_path: str | None


@dataclass(frozen=True)
class FileChange:
    """A change below a watched directory."""

    kind: str
    """`create`, `modify`, `remove`, `move`, or `overflow` when changes may have been missed."""
    path: str
    raw_path: str | None


@dataclass(frozen=True)
class WorkspaceInfo:
    """A persistent workspace."""

    id: str
    backend: str
    created_at: str
    last_used_at: str
    sessions: Sequence[str]
    """Active sessions that use it."""


@dataclass(frozen=True)
class ImageInfo:
    """An image that sandboxes can be created from."""

    reference: str
    digest: str
    source: str
    size_bytes: int
    shared: bool
    created_at: str


def from_body(cls: type[T], body: Mapping[str, Any]) -> T:
    """Reads the known fields of a response; a newer daemon may send more."""
    known = fields(cls)  # type: ignore[arg-type]
    return cls(**{field.name: body.get(field.name) for field in known})


def result_from_body(body: Mapping[str, Any]) -> ExecResult:
    match = body.get("match")
    typed = None if match is None else from_body(OutputMatch, match)
    return from_body(ExecResult, {**body, "match": typed})


def report_from_body(body: Mapping[str, Any]) -> IsolationReport:
    facts = [from_body(IsolationFact, fact) for fact in body["facts"]]
    return IsolationReport(body["tier"], body["runtime"], facts)
