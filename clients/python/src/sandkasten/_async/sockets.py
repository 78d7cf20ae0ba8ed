"""Terminals and port connections, over WebSockets."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from types import TracebackType
from typing import Any

from websockets.exceptions import ConnectionClosed

from ..errors import SandboxError, connection_failed, error_from_body
from ..requests import Query, session_url
from ..types import ExecInfo, from_body
from .primitives import Lock, Socket
from .transport import Transport

_MESSAGE_BYTES = 65_536
_WINDOW_BYTES = 1_048_576
"""The most that either side of a port connection sends before the other acknowledges some of it."""


class Pty:
    """An open terminal. Iterate it for its output. The command continues after it is closed."""

    def __init__(self, socket: Socket, exec_id: str, cursor: int) -> None:
        self._socket = socket
        self.exec_id = exec_id
        """The command running in it; pass its id to `pty` to reattach."""
        self.cursor = cursor
        """How many bytes of output have arrived: the cursor for reattaching."""
        self.result: ExecInfo | None = None
        """How the command ended; None until its output has been read to the end."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while self.result is None:
            message = await receive(self._socket)
            if isinstance(message, bytes):
                self.cursor += len(message)
                yield message
            else:
                self._control(json.loads(message))

    async def write(self, data: str | bytes) -> None:
        """Sends input."""
        content = data.encode() if isinstance(data, str) else data
        for start in range(0, len(content), _MESSAGE_BYTES):
            await send(self._socket, content[start : start + _MESSAGE_BYTES])

    async def resize(self, rows: int, cols: int) -> None:
        """Resizes the terminal."""
        await tell(self._socket, {"type": "resize", "rows": rows, "cols": cols})

    async def signal(self, signal: str | int) -> None:
        """Sends a signal to the command."""
        await tell(self._socket, {"type": "signal", "signal": signal})

    async def end_input(self) -> None:
        """Ends the input, as Ctrl-D does."""
        await tell(self._socket, {"type": "eof"})

    async def close(self) -> None:
        """Closes the connection."""
        await self._socket.close()

    async def __aenter__(self) -> Pty:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def _control(self, message: Mapping[str, Any]) -> None:
        kind = message["type"]
        if kind == "skipped":
            self.cursor += message["bytes"]
        elif kind == "exit":
            self.result = from_body(ExecInfo, message["exec"])
        elif kind == "error":
            raise error_from_body(message["error"], 0)


async def open_pty(transport: Transport, session_id: str, query: Query) -> Pty:
    socket = await transport.socket(f"{session_url(session_id)}/pty", query)
    try:
        while True:
            message = await receive(socket)
            control = {} if isinstance(message, bytes) else json.loads(message)
            if control.get("type") == "started":
                cursor = query.get("cursor")
                return Pty(socket, control["exec_id"], cursor if isinstance(cursor, int) else 0)
            if control.get("type") == "error":
                raise error_from_body(control["error"], 0)
    except BaseException:
        await socket.close()
        raise


class PortConnection:
    """An open connection to a port. Neither side sends more than a megabyte ahead of the other."""

    def __init__(self, socket: Socket) -> None:
        self._socket = socket
        self._receiving = Lock()
        self._arrived: deque[bytes] = deque()
        self._port_ended = False
        self._unacknowledged = 0

    async def read(self) -> bytes:
        """The next bytes from the port; empty at the end."""
        await self._receive_until(lambda: bool(self._arrived) or self._port_ended)
        if not self._arrived:
            return b""
        data = self._arrived.popleft()
        try:
            await tell(self._socket, {"type": "ack", "bytes": len(data)})
        except SandboxError:
            pass  # The connection has ended. What arrived before can be read, then the reason.
        return data

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while data := await self.read():
            yield data

    async def write(self, data: bytes) -> None:
        """Sends bytes; waits while the port has a megabyte of unread data."""
        for start in range(0, len(data), _MESSAGE_BYTES):
            piece = data[start : start + _MESSAGE_BYTES]
            size = len(piece)
            await self._receive_until(lambda: self._unacknowledged + size <= _WINDOW_BYTES)
            self._unacknowledged += size
            await send(self._socket, piece)

    async def end_input(self) -> None:
        """Ends the output to the port; reading continues."""
        await tell(self._socket, {"type": "eof"})

    async def close(self) -> None:
        """Closes the connection in both directions."""
        await self._socket.close()

    async def __aenter__(self) -> PortConnection:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _receive_until(self, is_ready: Callable[[], bool]) -> None:
        """Receives messages until the condition holds. A reader and a writer can both wait here."""
        while not is_ready():
            async with self._receiving:
                if not is_ready():
                    await self._receive_one()

    async def _receive_one(self) -> None:
        message = await receive(self._socket)
        if isinstance(message, bytes):
            self._arrived.append(message)
            return
        control = json.loads(message)
        kind = control["type"]
        if kind == "ack":
            self._unacknowledged -= control["bytes"]
        elif kind == "eof":
            self._port_ended = True
        elif kind == "error":
            raise error_from_body(control["error"], 0)


async def open_port(transport: Transport, session_id: str, port: int) -> PortConnection:
    path = f"{session_url(session_id)}/ports/{port:d}/connect"
    socket = await transport.socket(path, {"window": _WINDOW_BYTES})
    try:
        message = await receive(socket)
        control = {} if isinstance(message, bytes) else json.loads(message)
        if control.get("type") == "connected":
            return PortConnection(socket)
        if control.get("type") == "error":
            raise error_from_body(control["error"], 0)
        raise connection_failed(f"GET {path}", "the daemon did not confirm the connection")
    except BaseException:
        await socket.close()
        raise


async def receive(socket: Socket) -> str | bytes:
    try:
        return await socket.recv()
    except ConnectionClosed as cause:
        raise connection_failed("The connection", _close_reason(cause)) from cause


async def send(socket: Socket, message: str | bytes) -> None:
    try:
        await socket.send(message)
    except ConnectionClosed as cause:
        raise connection_failed("The connection", _close_reason(cause)) from cause


async def tell(socket: Socket, message: Mapping[str, Any]) -> None:
    await send(socket, json.dumps(message))


def _close_reason(cause: ConnectionClosed) -> str:
    closed = cause.rcvd
    if closed is None:
        return "it broke off"
    return f"it was closed with {closed.code} {closed.reason}".rstrip()
