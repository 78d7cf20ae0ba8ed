"""The client's only error: what the daemon returned, or that it did not respond."""

from __future__ import annotations

import json
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from time import time
from typing import Any

from .types import ExecResult, result_from_body

_RETRYABLE_STATUSES = frozenset({429, 503})
_UNAVAILABLE_CODES = frozenset(
    {
        "SANDBOX_UNREACHABLE",
        "ENGINE_UNREACHABLE",
        "BACKEND_BUSY",
        "DATABASE_UNREACHABLE",
        "REGISTRY_UNREACHABLE",
    }
)
_GATEWAY_STATUSES = frozenset({502, 503, 504})


class SandboxError(Exception):
    """A request that failed. The message says what happened and what to do."""

    def __init__(
        self,
        code: str,
        status: int,
        message: str,
        details: Mapping[str, Any] | None = None,
        request_id: str | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        """A code of the daemon, or `CONNECTION_FAILED` if it did not respond."""
        self.status = status
        """The HTTP status; 0 if there was no response."""
        self.message = message
        self.details = details
        self.request_id = request_id
        """Identifies the request in the daemon's log."""
        self.retry_after_seconds = retry_after_seconds
        """How long the daemon asks clients to wait before a retry."""

    @property
    def result(self) -> ExecResult | None:
        """With `COMMAND_TIMEOUT`: the result so far."""
        if self.details is None or "exec_id" not in self.details or "output" not in self.details:
            return None
        return result_from_body(self.details)

    @property
    def may_pass(self) -> bool:
        """Whether the same request can succeed later. The outcome of a command never changes."""
        result = self.result
        if result is not None and result.status == "done":
            return False
        return self.code == "CONNECTION_FAILED" or self.status in _RETRYABLE_STATUSES


def error_from_event(data: Mapping[str, Any], status: int = 200) -> SandboxError:
    """A failure that the daemon reported after a successful response had started."""
    code = data.get("error_code", "INTERNAL_ERROR")
    message = data.get("error", "the daemon gave no reason")
    unavailable = status == 200 and code in _UNAVAILABLE_CODES
    return SandboxError(code, 503 if unavailable else status, message, data.get("exec"))


def connection_failed(what: str, reason: object) -> SandboxError:
    message = f"{what} failed: {reason}. Check that the daemon is running at this address."
    return SandboxError("CONNECTION_FAILED", 0, message)


def error_from_response(status: int, content: bytes, headers: Mapping[str, str]) -> SandboxError:
    """The error for an unsuccessful response."""
    request_id = headers.get("x-request-id")
    retry_after = parse_retry_after(headers.get("retry-after"))
    try:
        body = json.loads(content)
    except ValueError:
        body = None
    if isinstance(body, dict) and isinstance(body.get("error_code"), str):
        return error_from_body(body, status, request_id, retry_after)
    if 300 <= status < 400:
        message = "the address redirects elsewhere; use the final address as base_url"
        return SandboxError("REDIRECTED", status, message, request_id=request_id)
    message = (
        f"the server responded with status {status} and no error message; "
        "check that base_url is the address of a Sandkasten daemon"
    )
    code = "CONNECTION_FAILED" if status in _GATEWAY_STATUSES else "INTERNAL_ERROR"
    return SandboxError(code, status, message, None, request_id, retry_after)


def error_from_body(
    body: Mapping[str, Any],
    status: int,
    request_id: str | None = None,
    retry_after_seconds: float | None = None,
) -> SandboxError:
    return SandboxError(
        body["error_code"],
        status,
        str(body.get("message", "the daemon gave no reason")),
        body.get("details"),
        body.get("request_id", request_id),
        retry_after_seconds,
    )


def parse_retry_after(value: str | None) -> float | None:
    """Seconds, from a header that contains seconds or a date."""
    if value is None:
        return None
    if value.strip().isdecimal():
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time())
    except ValueError:
        return None
