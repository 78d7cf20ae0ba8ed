# Generated from the asynchronous version by generate_sync.py. Do not edit.
"""Requests to a daemon: its address, the key, timeouts, safe retries, and errors."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit, urlunsplit

import httpx2
from websockets.exceptions import InvalidStatus, WebSocketException

from ..errors import SandboxError, connection_failed, error_from_response
from ..requests import Query, query_pairs
from ..retry import RetryPolicy
from ..tracing import trace_headers
from .primitives import HttpClients, Socket, open_socket, sleep

CONNECT_TIMEOUT_SECONDS = 10.0
_REPEATABLE_METHODS = frozenset({"GET", "PUT", "DELETE"})
_MAX_MESSAGE_BYTES = 2**20


@dataclass(frozen=True)
class Call:
    """One request, with possible retries."""

    method: str
    path: str
    query: Query = field(default_factory=dict)
    json: Any = None
    content: bytes | Iterator[bytes] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    idempotency_key: str | None = None
    repeatable: bool | None = None
    """Whether repeating it is safe, if the method does not imply that."""
    done_when_repeated: str | None = None
    """The error of a retry whose previous attempt succeeded without a response."""
    waits: bool = False
    """The response can take arbitrarily long."""

    @property
    def is_repeatable(self) -> bool:
        if self.content is not None and not isinstance(self.content, bytes):
            return False
        if self.repeatable is not None:
            return self.repeatable
        return self.idempotency_key is not None or self.method in _REPEATABLE_METHODS

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class Transport:
    """Sends requests. Keeps connections open for later requests until it is closed."""

    def __init__(
        self, base_url: str, api_key: str | None, timeout_seconds: float, retry: RetryPolicy
    ) -> None:
        address = urlsplit(base_url)
        if address.scheme not in ("http", "https") or address.hostname is None:
            raise ValueError(f"base_url must be like http://127.0.0.1:8080, not {base_url!r}")
        if address.query or address.fragment or address.username or address.password:
            raise ValueError("base_url must have no user, query or fragment; use api_key for a key")
        self._address = address
        self._headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        self._timeout = httpx2.Timeout(timeout_seconds, connect=CONNECT_TIMEOUT_SECONDS)
        self._patient = httpx2.Timeout(None, connect=CONNECT_TIMEOUT_SECONDS)
        self._clients = HttpClients()
        self.retry = retry

    def close(self) -> None:
        self._clients.close()

    def json(self, call: Call) -> Any:
        """The JSON of the response."""
        body, _ = self.json_and_response(call)
        return body

    def json_and_response(self, call: Call) -> tuple[Any, httpx2.Response]:
        content, response = self._whole(call)
        try:
            return json.loads(content), response
        except ValueError as cause:
            message = f"{call}: the response is not JSON; is base_url a Sandkasten daemon?"
            raise SandboxError("CONNECTION_FAILED", response.status_code, message) from cause

    def content(self, call: Call) -> bytes:
        """All bytes of the response."""
        content, _ = self._whole(call)
        return content

    def _whole(self, call: Call) -> tuple[bytes, httpx2.Response]:
        lost_response = False
        failures = 0
        while True:
            try:
                response = self._send(call)
                with self._reading(call, response):
                    return response.read(), response
            except SandboxError as error:
                if lost_response and error.code == call.done_when_repeated:
                    return b"{}", httpx2.Response(200)
                lost_response = lost_response or error.code == "CONNECTION_FAILED"
                self._before_retry(call, failures, error)
                failures += 1

    @contextmanager
    def open(self, call: Call) -> Iterator[httpx2.Response]:
        """The response as soon as it begins; read it within the block."""
        response = self._begin(call)
        with self._reading(call, response):
            yield response

    def _begin(self, call: Call) -> httpx2.Response:
        failures = 0
        while True:
            try:
                return self._send(call)
            except SandboxError as error:
                self._before_retry(call, failures, error)
                failures += 1

    @contextmanager
    def _reading(self, call: Call, response: httpx2.Response) -> Iterator[None]:
        try:
            yield
        except (httpx2.HTTPError, httpx2.StreamError) as cause:
            raise connection_failed(str(call), _reason(cause)) from cause
        finally:
            response.close()

    def _before_retry(self, call: Call, failures: int, error: SandboxError) -> None:
        if not call.is_repeatable or not self.retry.allows(failures, error):
            raise error
        sleep(self.retry.delay(failures, error))

    def _send(self, call: Call) -> httpx2.Response:
        client = self._clients.get()
        headers = {**self._headers, **trace_headers(), **call.headers}
        if call.idempotency_key is not None:
            headers["Idempotency-Key"] = call.idempotency_key
        content = call.content
        if call.json is not None:
            content = json.dumps(call.json).encode()
            headers["Content-Type"] = "application/json"
        elif content is not None:
            headers.setdefault("Content-Type", "application/octet-stream")
        is_slow = call.waits or call.content is not None
        timeout = self._patient if is_slow else self._timeout
        url = self._url(call.path, call.query)
        try:
            request = client.build_request(
                call.method, url, headers=headers, content=content, timeout=timeout
            )
            # SECURITY: a redirect could send files and the key to another host. Guarded by
            # test_a_redirect_is_refused in tests/_async/test_responses.py.
            response = client.send(request, stream=True, follow_redirects=False)
            if response.status_code < 300:
                return response
            try:
                body = response.read()
            finally:
                response.close()
        except httpx2.HTTPError as cause:
            raise connection_failed(str(call), _reason(cause)) from cause
        raise error_from_response(response.status_code, body, response.headers)

    def socket(self, path: str, query: Query) -> Socket:
        """A WebSocket. A refusal is raised with the daemon's explanation."""
        url = self._url(path, query).replace("http", "ws", 1)
        try:
            return open_socket(
                url,
                additional_headers={**self._headers, **trace_headers()},
                max_size=_MAX_MESSAGE_BYTES,
                open_timeout=CONNECT_TIMEOUT_SECONDS,
                compression=None,
            )
        except InvalidStatus as refusal:
            response = refusal.response
            headers = {name.lower(): value for name, value in response.headers.raw_items()}
            raise error_from_response(
                response.status_code, bytes(response.body or b""), headers
            ) from refusal
        except (OSError, WebSocketException) as cause:
            raise connection_failed(f"GET {path}", _reason(cause)) from cause

    def _url(self, path: str, query: Query) -> str:
        address = self._address
        whole = address.path.rstrip("/") + path
        return urlunsplit(
            (address.scheme, address.netloc, whole, urlencode(query_pairs(query)), "")
        )


def _reason(cause: Exception) -> str:
    return str(cause) or type(cause).__name__
