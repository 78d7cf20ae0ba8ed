"""What the synchronous client needs from threads. Written by hand, unlike the rest of this package."""

from __future__ import annotations

import time
from threading import Lock

import httpx2
from websockets.sync.client import ClientConnection as Socket
from websockets.sync.client import connect as open_socket

__all__ = ["HttpClients", "Lock", "Socket", "open_socket", "sleep"]

sleep = time.sleep


class HttpClients:
    """The HTTP client of all threads."""

    def __init__(self) -> None:
        self._client: httpx2.Client | None = None
        self._lock = Lock()

    def get(self) -> httpx2.Client:
        with self._lock:
            if self._client is None:
                self._client = httpx2.Client()
            return self._client

    def close(self) -> None:
        """Closes all connections."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()
