# Generated from the asynchronous version by generate_sync.py. Do not edit.
"""A session: a sandbox with stateful shells, files and ports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Unpack

from ..events import SandboxEvent
from ..requests import (
    ExecOptions,
    Query,
    SandboxPath,
    StartOptions,
    exec_body,
    present,
    segment,
    session_url,
)
from ..types import (
    Command,
    ExecInfo,
    ExecResult,
    ImageInfo,
    IsolationReport,
    PortInfo,
    SessionInfo,
    SessionStats,
    ShellInfo,
    WrittenFile,
    from_body,
    report_from_body,
    result_from_body,
)
from .event_feed import EventChoice, follow_egress, follow_events
from .execs import SyncExec, SyncExecStream, idempotency_key
from .files import SyncFiles
from .sockets import SyncPortConnection, SyncPty, open_port, open_pty
from .transport import Call, Transport


class SyncSession:
    """A session. A `with` block destroys it at its end."""

    def __init__(self, transport: Transport, info: SessionInfo, created: bool = False) -> None:
        self._transport = transport
        self._path = session_url(info.id)
        self.info = info
        """The session's state when it was last requested."""
        self.created = created
        """Whether `create_session` created it, instead of finding the active session for its key."""
        self.files = SyncFiles(transport, self._path)

    @property
    def id(self) -> str:
        return self.info.id

    def refresh(self) -> SessionInfo:
        """Gets the current state and updates `info`."""
        return self._update("GET", "")

    def exec(
        self, cmd: Command, timeout_ms: int | None = None, **options: Unpack[ExecOptions]
    ) -> ExecResult:
        """Runs a command to its end.

        Text runs in the session's shell, or in the one named `shell`, which its first command
        creates. A list of arguments runs as a separate process. A non-zero exit code is a result,
        not an error. A command that exceeds its timeout raises `COMMAND_TIMEOUT`, with its output
        in `error.result`. Cancelling the call does not end the command, unless `on_disconnect` is
        `cancel`.
        """
        call = self._exec_call("/exec", cmd, {**options, "timeout_ms": timeout_ms}, waits=True)
        return result_from_body(self._transport.json(call))

    def exec_stream(
        self, cmd: Command, timeout_ms: int | None = None, **options: Unpack[ExecOptions]
    ) -> SyncExecStream:
        """Runs a command when iterated, and yields its output as it arrives."""
        given = {**options, "timeout_ms": timeout_ms}
        return SyncExecStream(self._transport, self.id, {}, cmd=cmd, options=given)

    def start(
        self, cmd: Command, timeout_ms: int | None = None, **options: Unpack[StartOptions]
    ) -> SyncExec:
        """Starts a command without waiting for it."""
        call = self._exec_call("/execs", cmd, {**options, "timeout_ms": timeout_ms}, waits=False)
        return self.get_exec((self._transport.json(call))["exec_id"])

    def get_exec(self, exec_id: str) -> SyncExec:
        """The command with an id. Sends no request."""
        return SyncExec(self._transport, self.id, exec_id)

    def execs(self) -> Iterator[ExecInfo]:
        """All commands of the session, newest first, loading pages as needed."""
        query: dict[str, Any] = {}
        while True:
            page = self._transport.json(Call("GET", f"{self._path}/execs", query))
            for body in page["execs"]:
                yield from_body(ExecInfo, body)
            if page.get("next_cursor") is None:
                return
            query["cursor"] = page["next_cursor"]

    def events(
        self,
        types: Sequence[str] | None = None,
        *,
        cursor: str | None = None,
        begin: Literal["now", "start"] | None = None,
        follow: bool = True,
    ) -> Iterator[SandboxEvent]:
        """The events of this session, with the parameters of the client's `events`."""
        choice = EventChoice(types, cursor, begin, follow)
        return follow_events(self._transport, f"{self._path}/events", choice)

    def shells(self) -> list[ShellInfo]:
        """The existing shells."""
        body = self._transport.json(Call("GET", f"{self._path}/shells"))
        return [from_body(ShellInfo, shell) for shell in body["shells"]]

    def close_shell(self, name: str) -> None:
        """Closes a shell and cancels its commands. Its background jobs continue."""
        path = f"{self._path}/shells/{segment(name)}"
        self._transport.json(Call("DELETE", path, done_when_repeated="SHELL_NOT_FOUND"))

    def pty(
        self,
        cmd: str | None = None,
        *,
        rows: int | None = None,
        cols: int | None = None,
        cwd: str | None = None,
        shell: str | None = None,
        exec_id: str | None = None,
        cursor: int | None = None,
    ) -> SyncPty:
        """Opens a terminal with a login shell or `cmd`, or reattaches to that of `exec_id`."""
        query: Query = {
            "cmd": cmd,
            "rows": rows,
            "cols": cols,
            "cwd": cwd,
            "shell": shell,
            "exec_id": exec_id,
            "cursor": cursor,
        }
        return open_pty(self._transport, self.id, query)

    def ports(self) -> list[PortInfo]:
        """The listening TCP ports inside it."""
        body = self._transport.json(Call("GET", f"{self._path}/ports"))
        return [from_body(PortInfo, port) for port in body["ports"]]

    def url(self, port: int, expires_in_seconds: int | None = None) -> str:
        """A URL that opens a port in a browser without the key.

        It is valid for this port only, until it expires (after an hour by default) or the session ends.
        """
        body = present({"expires_in_seconds": expires_in_seconds})
        path = f"{self._path}/ports/{port:d}/url"
        call = Call("POST", path, json=body, repeatable=True)
        return str((self._transport.json(call))["url"])

    def connect(self, port: int) -> SyncPortConnection:
        """Connects to a port. Raises `PORT_REFUSED` if nothing listens there."""
        return open_port(self._transport, self.id, port)

    def write(self, path: SandboxPath, content: str | bytes) -> WrittenFile:
        """Writes a file; the same as `files.write`."""
        return self.files.write(path, content)

    def read(self, path: SandboxPath, max_bytes: int | None = None) -> bytes:
        """The bytes of a file; the same as `files.read`."""
        return self.files.read(path, max_bytes)

    def pause(self) -> SessionInfo:
        """Freezes all its processes until `resume`."""
        return self._update("POST", "/pause", {})

    def resume(self) -> SessionInfo:
        """Resumes all its processes."""
        return self._update("POST", "/resume", {})

    def renew(self, ttl_seconds: int | None = None) -> SessionInfo:
        """Restarts its time to live, as every use does."""
        return self._update("POST", "/renew", present({"ttl_seconds": ttl_seconds}))

    def commit(self, reference: str) -> ImageInfo:
        """Creates an image from the session's root. Requires the profile `root`.

        `/workspace` and the home directory are not included.
        """
        call = Call("POST", f"{self._path}/commit", json={"reference": reference}, waits=True)
        return from_body(ImageInfo, self._transport.json(call))

    def stats(self) -> SessionStats:
        """Its current resource usage."""
        return from_body(
            SessionStats, self._transport.json(Call("GET", f"{self._path}/stats"))
        )

    def set_network(self, network: Any) -> SessionInfo:
        """Changes which hosts it may connect to, as in `{"allow": ["api.example.com"]}`."""
        return self._update("PUT", "/network", {"network": network})

    def egress(self, cursor: int = 0, limit: int | None = None) -> dict[str, Any]:
        """A page of its outbound connections, including refused ones, oldest first."""
        query: Query = {"cursor": cursor, "limit": limit}
        page: dict[str, Any] = self._transport.json(
            Call("GET", f"{self._path}/egress", query)
        )
        return page

    def follow_egress(self, cursor: int = 0) -> Iterator[Mapping[str, Any]]:
        """Its outbound connections as they end, from a cursor on, until you stop reading."""
        return follow_egress(self._transport, f"{self._path}/egress/stream", cursor)

    def isolation(self) -> IsolationReport:
        """Its isolation, as measured inside it."""
        return report_from_body(self._transport.json(Call("GET", f"{self._path}/isolation")))

    def destroy(self) -> None:
        """Destroys the session with all its processes and files. Idempotent."""
        self._transport.json(Call("DELETE", self._path))

    def __enter__(self) -> SyncSession:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.destroy()

    def _exec_call(self, suffix: str, cmd: Command, options: dict[str, Any], waits: bool) -> Call:
        return Call(
            "POST",
            f"{self._path}{suffix}",
            json=exec_body(cmd, options),
            idempotency_key=idempotency_key(options),
            waits=waits,
        )

    def _update(self, method: str, suffix: str, body: Any = None) -> SessionInfo:
        call = Call(method, f"{self._path}{suffix}", json=body)
        self.info = from_body(SessionInfo, self._transport.json(call))
        return self.info
