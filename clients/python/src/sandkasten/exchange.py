"""One request and its answer, on a connection and a thread of its own."""

from __future__ import annotations

import asyncio
import http.client
import socket
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from .errors import SandboxError

T = TypeVar("T")


class Exchange:
    """Blocking calls of `http.client`, made awaitable.

    The thread is not one of asyncio's own, because those are few: commands that take long would
    keep everything else waiting. Cancelling closes the connection, which also frees the thread.
    """

    def __init__(self, connection: http.client.HTTPConnection, what: str) -> None:
        self._connection = connection
        self._what = what
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sandkasten")
        self._socket: socket.socket | None = None
        self._response: http.client.HTTPResponse | None = None
        self._closed = False

    async def send(
        self, method: str, target: str, headers: Mapping[str, str], data: bytes | None
    ) -> http.client.HTTPResponse:
        """Sends the request and waits for the head of its answer, however long that takes."""

        def work() -> http.client.HTTPResponse:
            self._connect()
            try:
                self._connection.request(method, target, body=data, headers=dict(headers))
            except BrokenPipeError:
                pass  # Refused before it was sent whole: the answer says why.
            self._response = self._connection.getresponse()
            return self._response

        return await self.run(work)

    async def run(self, work: Callable[[], T]) -> T:
        """Does blocking work with the connection. What fails there is a SandboxError here."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except (OSError, http.client.HTTPException) as cause:
            message = f"{self._what} failed: {cause!r}. Check that the daemon runs at this address."
            raise SandboxError("CONNECTION_FAILED", 0, message) from cause

    def close(self) -> None:
        """Ends the connection, also under a thread that reads from it."""
        self._closed = True
        if self._socket is not None:
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # The other side was first.
        # In its own thread, because closing waits for a reader there.
        self._thread.submit(self._release)
        self._thread.shutdown(wait=False)

    def _release(self) -> None:
        if self._response is not None:
            self._response.close()
        self._connection.close()

    def _connect(self) -> None:
        self._connection.connect()
        self._socket = self._connection.sock
        # Only connecting has a time limit. A command may be silent for long, but a machine that is
        # gone must be noticed.
        self._socket.settimeout(None)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # Whoever closes sees the socket, or is seen here.
        if self._closed:
            raise ConnectionAbortedError("the request was given up")
