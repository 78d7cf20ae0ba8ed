"""Commands: start, follow, wait, signal, and write to stdin."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Mapping
from typing import Any
from uuid import uuid4

import httpx2

from ..errors import SandboxError, connection_failed, error_from_event
from ..events import json_object
from ..output import OutputAssembler
from ..requests import (
    OutputCondition,
    Query,
    TerminalSize,
    exec_body,
    present,
    segment,
    session_url,
)
from ..types import (
    Command,
    ExecInfo,
    ExecResult,
    OutputChunk,
    OutputPage,
    OutputStream,
    from_body,
    result_from_body,
)
from .primitives import sleep
from .transport import Call, Transport

_WAIT_MS = 60_000
"""How long one request waits: short enough that no proxy closes it."""


class Exec:
    """A running or finished command. It continues without a client."""

    def __init__(self, transport: Transport, session_id: str, exec_id: str) -> None:
        self._transport = transport
        self._path = f"{session_url(session_id)}/execs/{segment(exec_id)}"
        self.session_id = session_id
        self.id = exec_id

    async def info(self) -> ExecInfo:
        """The command's current state."""
        return from_body(ExecInfo, await self._transport.json(Call("GET", self._path)))

    async def read(
        self,
        cursor: int = 0,
        max_bytes: int | None = None,
        wait_ms: int | None = None,
        stream: OutputStream | None = None,
    ) -> OutputPage:
        """A part of its output from a byte offset on, even after it has ended."""
        query: Query = {
            "cursor": cursor,
            "max_bytes": max_bytes,
            "wait_ms": wait_ms,
            "stream": stream,
            "raw": True,
        }
        body = await self._transport.json(
            Call("GET", f"{self._path}/output", query, waits=wait_ms is not None)
        )
        assembler = OutputAssembler(body["cursor"], stream is not None)
        chunks = [chunk for each in body["chunks"] for chunk in assembler.add(each)]
        return OutputPage(
            chunks=[*chunks, *assembler.flush()],
            next_cursor=body["next_cursor"],
            skipped_bytes=body["skipped_bytes"],
            done=body["done"],
            closed=body["closed"],
            exec=from_body(ExecInfo, body["exec"]),
        )

    def follow(
        self,
        cursor: int = 0,
        stream: OutputStream | None = None,
        until: str | None = None,
    ) -> ExecStream:
        """Its output as it arrives. `until="closed"` includes that of background processes."""
        query: Query = {"cursor": cursor, "stream": stream, "until": until}
        return ExecStream(self._transport, self.session_id, query, exec_id=self.id)

    async def wait(
        self,
        timeout_ms: int | None = None,
        until: OutputCondition | None = None,
        output_budget_bytes: int | None = None,
    ) -> ExecResult:
        """Waits for its end, or until its output matches. A command timeout is a result here.

        With `timeout_ms` it returns after that time at the latest; see `status`.
        """
        left_ms = timeout_ms
        while True:
            asked_ms = _WAIT_MS if left_ms is None else min(left_ms, _WAIT_MS)
            body = present(
                {
                    "wait_ms": asked_ms,
                    "until": until,
                    "output_budget_bytes": output_budget_bytes,
                }
            )
            call = Call("POST", f"{self._path}/wait", json=body, repeatable=True, waits=True)
            result = result_from_body(await self._transport.json(call))
            is_over = result.status == "done" and (until is None or not result.background)
            if is_over or result.matched:
                return result
            if left_ms is not None:
                left_ms -= asked_ms
                if left_ms <= 0:
                    return result

    async def cancel(self) -> bool:
        """Ends it as a timeout does. Returns at once, with False if it had already ended."""
        call = Call("POST", f"{self._path}/cancel", json={}, repeatable=True)
        return bool((await self._transport.json(call))["cancelled"])

    async def signal(self, signal: str | int = "TERM", tree: bool = False) -> int:
        """Sends a signal; returns how many processes got it. `tree` includes all that it started."""
        body = {"signal": signal, "tree": tree}
        call = Call("POST", f"{self._path}/signal", json=body)
        return int((await self._transport.json(call))["delivered"])

    async def write_stdin(self, data: str | bytes) -> None:
        """Writes to its stdin, which `stdin_open` kept open."""
        content = data.encode() if isinstance(data, str) else data
        body = {"content_base64": base64.b64encode(content).decode()}
        await self._transport.json(Call("POST", f"{self._path}/stdin", json=body, waits=True))

    async def close_stdin(self) -> None:
        """Closes its stdin."""
        await self._transport.json(Call("POST", f"{self._path}/stdin", json={"close": True}))

    async def resize(self, rows: int, cols: int) -> None:
        """Resizes its terminal."""
        size: TerminalSize = {"rows": rows, "cols": cols}
        call = Call("POST", f"{self._path}/resize", json=size, repeatable=True)
        await self._transport.json(call)


class ExecStream:
    """A command's output while it runs. Each byte arrives once, even if the connection breaks.

    Iterating starts the command if it is not running yet, and works only once. Leaving the loop
    does not end the command: use `exec` to continue with it. If the command exceeds its timeout,
    the loop raises `COMMAND_TIMEOUT` after the last chunk.
    """

    def __init__(
        self,
        transport: Transport,
        session_id: str,
        query: Query,
        *,
        exec_id: str | None = None,
        cmd: Command | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._transport = transport
        self._session_id = session_id
        self._query = query
        self._cmd = cmd
        self._options = options or {}
        self._begun = False
        self._assembler = OutputAssembler(_cursor_of(query), query.get("stream") is not None)
        self.exec: Exec | None = None
        """The command, once the daemon has accepted it."""
        self.result: ExecInfo | None = None
        """How the command ended; None until its output has been read to the end."""
        if exec_id is not None:
            self.exec = Exec(transport, session_id, exec_id)

    async def __aiter__(self) -> AsyncIterator[OutputChunk]:
        if self._begun:
            raise RuntimeError("this stream was read already; follow the command with exec.follow()")
        self._begun = True
        failures = 0
        while self.result is None:
            try:
                async with self._transport.open(self._call()) as response:
                    self._learn_id(response)
                    async for event in httpx2.EventSource(response, max_event_size=None):
                        failures = 0
                        for chunk in self._receive(event.event, json_object(event)):
                            yield chunk
                        if self.result is not None:
                            return
                raise connection_failed("Following the command", "the connection ended")
            except SandboxError as error:
                if self.exec is None or not self._transport.retry.allows(failures, error):
                    raise
                await sleep(self._transport.retry.delay(failures, error))
                failures += 1

    def _call(self) -> Call:
        headers = {"Accept": "text/event-stream"}
        if self.exec is not None:
            path = f"{session_url(self._session_id)}/execs/{segment(self.exec.id)}/stream"
            query = {**self._query, "cursor": self._assembler.cursor, "raw": True}
            return Call("GET", path, query, headers=headers, waits=True)
        assert self._cmd is not None
        return Call(
            "POST",
            f"{session_url(self._session_id)}/exec/stream",
            json={**exec_body(self._cmd, self._options), "raw_output": True},
            headers=headers,
            idempotency_key=idempotency_key(self._options),
            waits=True,
        )

    def _learn_id(self, response: httpx2.Response) -> None:
        exec_id = response.headers.get("x-exec-id")
        if self.exec is None and exec_id is not None:
            self.exec = Exec(self._transport, self._session_id, exec_id)

    def _receive(self, name: str, data: Mapping[str, Any]) -> list[OutputChunk]:
        if name == "chunk":
            return self._assembler.add(data)
        if name == "skipped":
            self._assembler.skip(data["skipped_bytes"])
        elif name == "done":
            self.result = from_body(ExecInfo, data)
            return self._assembler.flush()
        elif name == "error":
            self._fail(data)
        return []

    def _fail(self, data: Mapping[str, Any]) -> None:
        info = data.get("exec")
        if info is not None:
            self.result = from_body(ExecInfo, info)
        raise error_from_event(data)


def idempotency_key(options: Mapping[str, Any]) -> str:
    key = options.get("idempotency_key")
    return str(uuid4()) if key is None else str(key)


def _cursor_of(query: Query) -> int:
    cursor = query.get("cursor")
    return cursor if isinstance(cursor, int) else 0
