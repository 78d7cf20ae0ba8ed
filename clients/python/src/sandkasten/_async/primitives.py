"""What the asynchronous client needs from asyncio. The synchronous one has its own version of this file."""

from __future__ import annotations

import asyncio
from asyncio import Lock
from weakref import WeakKeyDictionary

import httpx2
from websockets.asyncio.client import ClientConnection as Socket
from websockets.asyncio.client import connect as open_socket

__all__ = ["HttpClients", "Lock", "Socket", "open_socket", "sleep"]

sleep = asyncio.sleep


class HttpClients:
    """An HTTP client for each event loop, because connections belong to the loop that opened them."""

    def __init__(self) -> None:
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx2.AsyncClient] = (
            WeakKeyDictionary()
        )

    def get(self) -> httpx2.AsyncClient:
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            client = httpx2.AsyncClient()
            self._clients[loop] = client
        return client

    async def close(self) -> None:
        """Closes the connections of the running loop."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()
