"""A session: a sandbox, the shell in it that remembers, and its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any
from urllib.parse import quote

from .exec_stream import ExecStream
from .results import ExecResult, PortInfo, SessionInfo, from_body
from .transport import Transport


def session_path(session_id: str) -> str:
    return f"/v1/sessions/{quote(session_id, safe='')}"


class Session:
    """`async with` destroys it at the end of the block."""

    def __init__(self, transport: Transport, info: SessionInfo) -> None:
        self._transport = transport
        self._path = session_path(info.id)
        self.info = info
        """What was known of it when it was asked for."""

    @property
    def id(self) -> str:
        return self.info.id

    async def exec(
        self,
        cmd: str | Sequence[str],
        timeout_ms: int | None = None,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        shell: str | None = None,
        output_budget_bytes: int | None = None,
    ) -> ExecResult:
        """Runs a command to its end.

        Text runs in the session's shell, or in the one named `shell`, which its first command
        creates; a list of arguments runs as a separate process. A non-zero exit code is a result,
        not an error. A command that exceeds its timeout raises `COMMAND_TIMEOUT`, with its output
        in `error.result`. Cancelling the call does not end the command.
        """
        body = _exec_body(cmd, timeout_ms, cwd, env, stdin, shell)
        if output_budget_bytes is not None:
            body["output_budget_bytes"] = output_budget_bytes
        answer = await self._transport.json("POST", f"{self._path}/exec", body=body)
        return from_body(ExecResult, answer.body)

    def exec_stream(
        self,
        cmd: str | Sequence[str],
        timeout_ms: int | None = None,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        shell: str | None = None,
    ) -> ExecStream:
        """Runs a command, when it is iterated over, and gives its output as it comes."""
        body = _exec_body(cmd, timeout_ms, cwd, env, stdin, shell)
        return ExecStream(self._transport, f"{self._path}/exec/stream", body)

    async def write(self, path: str, content: str | bytes) -> None:
        """Writes a file whole, text as UTF-8. Paths that are not absolute start at /workspace."""
        data = content.encode() if isinstance(content, str) else content
        await self._transport.json("PUT", self._file, query={"path": path}, data=data)

    async def read(self, path: str, max_bytes: int | None = None) -> bytes:
        """A file's bytes: all of them, or the first so many."""
        if max_bytes is not None and max_bytes < 0:
            raise ValueError(f"max_bytes must not be negative, and is {max_bytes}")
        return await self._transport.content(self._file, {"path": path}, max_bytes)

    async def ports(self) -> list[PortInfo]:
        """What listens on TCP ports inside it."""
        answer = await self._transport.json("GET", f"{self._path}/ports")
        return [from_body(PortInfo, port) for port in answer.body["ports"]]

    async def url(self, port: int, expires_in_seconds: int | None = None) -> str:
        """A URL that opens a port in a browser without the key.

        It is for this one port, until it expires (after an hour, unless told) or the session ends.
        """
        body = {} if expires_in_seconds is None else {"expires_in_seconds": expires_in_seconds}
        answer = await self._transport.json("POST", f"{self._path}/ports/{port:d}/url", body=body)
        return answer.body["url"]

    async def destroy(self) -> None:
        """Ends it with all that runs in it. A second time is no error."""
        await self._transport.json("DELETE", self._path)

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.destroy()

    @property
    def _file(self) -> str:
        return f"{self._path}/fs/file"


def _exec_body(
    cmd: str | Sequence[str],
    timeout_ms: int | None,
    cwd: str | None,
    env: Mapping[str, str] | None,
    stdin: str | None,
    shell: str | None,
) -> dict[str, Any]:
    asked = {
        "cmd": cmd if isinstance(cmd, str) else list(cmd),
        "timeout_ms": timeout_ms,
        "cwd": cwd,
        "env": None if env is None else dict(env),
        "stdin": stdin,
        "shell": shell,
    }
    return {name: value for name, value in asked.items() if value is not None}
