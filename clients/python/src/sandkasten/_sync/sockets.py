# Generated from the asynchronous version by generate_sync.py. Do not edit.
"""Terminals and port connections, over WebSockets."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Callable, Mapping
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


class SyncPty:
    """An open terminal. Iterate it for its output. The command continues after it is closed."""

    def __init__(self, socket: Socket, exec_id: str, cursor: int) -> None:
        self._socket = socket
        self.exec_id = exec_id
        """The command running in it; pass its id to `pty` to reattach."""
        self.cursor = cursor
        """How many bytes of output have arrived: the cursor for reattaching."""
        self.result: ExecInfo | None = None
        """How the command ended; None until its output has been read to the end."""

    def __iter__(self) -> Iterator[bytes]:
        while self.result is None:
            message = receive(self._socket)
            if isinstance(message, bytes):
                self.cursor += len(message)
                yield message
            else:
                self._control(json.loads(message))

    def write(self, data: str | bytes) -> None:
        """Sends input."""
        content = data.encode() if isinstance(data, str) else data
        for start in range(0, len(content), _MESSAGE_BYTES):
            send(self._socket, content[start : start + _MESSAGE_BYTES])

    def resize(self, rows: int, cols: int) -> None:
        """Resizes the terminal."""
        tell(self._socket, {"type": "resize", "rows": rows, "cols": cols})

    def signal(self, signal: str | int) -> None:
        """Sends a signal to the command."""
        tell(self._socket, {"type": "signal", "signal": signal})

    def end_input(self) -> None:
        """Ends the input, as Ctrl-D does."""
        tell(self._socket, {"type": "eof"})

    def close(self) -> None:
        """Closes the connection."""
        self._socket.close()

    def __enter__(self) -> SyncPty:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _control(self, message: Mapping[str, Any]) -> None:
        kind = message["type"]
        if kind == "skipped":
            self.cursor += message["bytes"]
        elif kind == "exit":
            self.result = from_body(ExecInfo, message["exec"])
        elif kind == "error":
            raise error_from_body(message["error"], 0)


def open_pty(transport: Transport, session_id: str, query: Query) -> SyncPty:
    socket = transport.socket(f"{session_url(session_id)}/pty", query)
    try:
        while True:
            message = receive(socket)
            control = {} if isinstance(message, bytes) else json.loads(message)
            if control.get("type") == "started":
                cursor = query.get("cursor")
                return SyncPty(socket, control["exec_id"], cursor if isinstance(cursor, int) else 0)
            if control.get("type") == "error":
                raise error_from_body(control["error"], 0)
    except BaseException:
        socket.close()
        raise


class SyncPortConnection:
    """An open connection to a port. Neither side sends more than a megabyte ahead of the other."""

    def __init__(self, socket: Socket) -> None:
        self._socket = socket
        self._receiving = Lock()
        self._arrived: deque[bytes] = deque()
        self._port_ended = False
        self._unacknowledged = 0

    def read(self) -> bytes:
        """The next bytes from the port; empty at the end."""
        self._receive_until(lambda: bool(self._arrived) or self._port_ended)
        if not self._arrived:
            return b""
        data = self._arrived.popleft()
        try:
            tell(self._socket, {"type": "ack", "bytes": len(data)})
        except SandboxError:
            pass  # The connection has ended. What arrived before can be read, then the reason.
        return data

    def __iter__(self) -> Iterator[bytes]:
        while data := self.read():
            yield data

    def write(self, data: bytes) -> None:
        """Sends bytes; waits while the port has a megabyte of unread data."""
        for start in range(0, len(data), _MESSAGE_BYTES):
            piece = data[start : start + _MESSAGE_BYTES]
            size = len(piece)
            self._receive_until(lambda: self._unacknowledged + size <= _WINDOW_BYTES)
            self._unacknowledged += size
            send(self._socket, piece)

    def end_input(self) -> None:
        """Ends the output to the port; reading continues."""
        tell(self._socket, {"type": "eof"})

    def close(self) -> None:
        """Closes the connection in both directions."""
        self._socket.close()

    def __enter__(self) -> SyncPortConnection:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _receive_until(self, is_ready: Callable[[], bool]) -> None:
        """Receives messages until the condition holds. A reader and a writer can both wait here."""
        while not is_ready():
            with self._receiving:
                if not is_ready():
                    self._receive_one()

    def _receive_one(self) -> None:
        message = receive(self._socket)
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


def open_port(transport: Transport, session_id: str, port: int) -> SyncPortConnection:
    path = f"{session_url(session_id)}/ports/{port:d}/connect"
    socket = transport.socket(path, {"window": _WINDOW_BYTES})
    try:
        message = receive(socket)
        control = {} if isinstance(message, bytes) else json.loads(message)
        if control.get("type") == "connected":
            return SyncPortConnection(socket)
        if control.get("type") == "error":
            raise error_from_body(control["error"], 0)
        raise connection_failed(f"GET {path}", "the daemon did not confirm the connection")
    except BaseException:
        socket.close()
        raise


def receive(socket: Socket) -> str | bytes:
    try:
        return socket.recv()
    except ConnectionClosed as cause:
        raise connection_failed("The connection", _close_reason(cause)) from cause


def send(socket: Socket, message: str | bytes) -> None:
    try:
        socket.send(message)
    except ConnectionClosed as cause:
        raise connection_failed("The connection", _close_reason(cause)) from cause


def tell(socket: Socket, message: Mapping[str, Any]) -> None:
    send(socket, json.dumps(message))


def _close_reason(cause: ConnectionClosed) -> str:
    closed = cause.rcvd
    if closed is None:
        return "it broke off"
    return f"it was closed with {closed.code} {closed.reason}".rstrip()
