"""Requests to a daemon: its address, the key, bodies and errors."""

from __future__ import annotations

import http.client
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from .errors import SandboxError, error_from_answer
from .exchange import Exchange

CONNECT_TIMEOUT_SECONDS = 10


class Answer(NamedTuple):
    body: Any
    headers: http.client.HTTPMessage


class Event(NamedTuple):
    name: str
    data: dict[str, Any]


class Transport:
    def __init__(self, base_url: str, api_key: str) -> None:
        address = urlsplit(base_url)
        if address.scheme not in ("http", "https") or address.hostname is None:
            raise ValueError(f"base_url must be like http://127.0.0.1:8080, and is {base_url!r}")
        self._address = address
        self._headers = {
            "Authorization": f"Bearer {api_key}",
            "Connection": "close",
        }

    async def json(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        data: bytes | None = None,
    ) -> Answer:
        """A request with a body of JSON, of plain bytes or without, and its answer of JSON."""
        async with self._answer(method, path, query, body, data) as (exchange, response):
            content = await exchange.run(response.read)
            try:
                return Answer(json.loads(content), response.headers)
            except ValueError as cause:
                message = f"{method} {path}: the answer is no JSON; is a Sandkasten daemon there?"
                raise SandboxError("CONNECTION_FAILED", response.status, message) from cause

    async def content(self, path: str, query: Mapping[str, str], limit: int | None) -> bytes:
        """The first bytes of an answer, or all."""
        async with self._answer("GET", path, query) as (exchange, response):
            return await exchange.run(lambda: response.read(limit))

    async def events(self, path: str, body: Any) -> AsyncGenerator[Event, None]:
        """Server-sent events, each when it comes, until the connection ends."""
        async with self._answer("POST", path, body=body) as (exchange, response):
            while (event := await exchange.run(lambda: _read_event(response))) is not None:
                yield event

    @asynccontextmanager
    async def _answer(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        data: bytes | None = None,
    ) -> AsyncIterator[tuple[Exchange, http.client.HTTPResponse]]:
        headers = dict(self._headers)
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        elif data is not None:
            headers["Content-Type"] = "application/octet-stream"
        target = self._address.path.rstrip("/") + path + (f"?{urlencode(query)}" if query else "")
        exchange = Exchange(self._connection(), f"{method} {path}")
        try:
            response = await exchange.send(method, target, headers, data)
            if response.status >= 300:
                content = await exchange.run(response.read)
                raise error_from_answer(
                    response.status, content, response.headers.get("X-Request-ID")
                )
            yield exchange, response
        finally:
            exchange.close()

    def _connection(self) -> http.client.HTTPConnection:
        secure = self._address.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        assert self._address.hostname is not None
        return kind(self._address.hostname, self._address.port, timeout=CONNECT_TIMEOUT_SECONDS)


def _read_event(response: http.client.HTTPResponse) -> Event | None:
    """The next event, or None at the end. Lines that begin with a colon say nothing."""
    name = ""
    data: list[str] = []
    while line := response.readline():
        field, _, value = line.decode().rstrip("\r\n").partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "data":
            data.append(value)
        elif line in (b"\n", b"\r\n") and data:
            return Event(name, json.loads("\n".join(data)))
    return None
