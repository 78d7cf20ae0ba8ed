"""What the daemon tells of sessions and commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class SessionInfo:
    """A session. Times are ISO 8601."""

    id: str
    image: str
    status: str
    backend: str
    """The backend that runs the sandbox."""
    cwd: str
    acquire_source: str
    workspace_id: str | None
    ttl_seconds: int
    created_at: str
    expires_at: str


@dataclass(frozen=True)
class ExecInfo:
    """What is known of a command without its output."""

    exec_id: str
    status: str
    """`queued`, `running` or `done`."""
    shell: str | None
    """The shell that ran it; None for a list of arguments."""
    exit_code: int | None
    """None while it runs, or when it is not known."""
    end_reason: str | None
    """`exited`, `timeout`, `idle_timeout`, `oom`, `killed`, `cancelled`, `sandbox_gone`, `not_started` or `unknown`."""
    timed_out: bool
    signal: int | None
    """The signal that ended it."""
    cwd: str
    """The shell's directory afterwards."""
    duration_ms: int
    output_bytes: int
    dropped_bytes: int
    """Bytes of output that nobody can read any more."""
    shell_restarted: bool
    """This command ended its shell, or runs in a new one because an earlier command did."""
    background: bool
    """Processes that it left in the background still hold its output."""
    timeout_ms: int | None
    """The timeout in effect."""
    timeout_clamped: bool
    """The requested timeout exceeded the maximum and was lowered."""


@dataclass(frozen=True)
class ExecResult(ExecInfo):
    """A command with its output."""

    output: str
    """stdout and stderr as they came. What is not UTF-8 is replaced."""
    stdout: str
    stderr: str
    truncated: bool
    """The middle of the output is missing here."""


@dataclass(frozen=True)
class PortInfo:
    """Something that listens on a TCP port inside a sandbox."""

    port: int
    address: str
    pid: int | None
    """Process id inside the sandbox, where it is known."""
    process: str | None
    """Name of the process, where it is known."""


@dataclass(frozen=True)
class OutputChunk:
    """A piece of output."""

    stream: str
    """`stdout` or `stderr`."""
    text: str
    """What is not UTF-8 is replaced. A character is in one piece, never in two halves."""
    data: bytes
    """Exactly what was written."""
    seq: int
    timestamp: int
    """Milliseconds since 1970."""
    offset: int
    """Where it begins in all that the command wrote, in bytes."""
    skipped_bytes: int
    """Bytes before it that nobody can read any more."""


def from_body(cls: type[T], body: Mapping[str, Any]) -> T:
    """Takes what is known from a body; a newer daemon may say more."""
    known = fields(cls)  # type: ignore[arg-type]
    return cls(**{field.name: body.get(field.name) for field in known})
