"""The one error of the client: what the daemon answered, or that none answered."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .results import ExecResult, from_body


class SandboxError(Exception):
    """A request that failed. The message says what happened, to what, and what to do."""

    def __init__(
        self,
        code: str,
        status: int,
        message: str,
        details: Mapping[str, Any] | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        """A code of the daemon, or `CONNECTION_FAILED` when no daemon answered."""
        self.status = status
        """The HTTP status; 0 when there was no answer."""
        self.message = message
        self.details = details
        self.request_id = request_id
        """The daemon's name for the request, to be found in its log."""

    @property
    def result(self) -> ExecResult | None:
        """With `COMMAND_TIMEOUT`: what the command did until its time was up."""
        if self.details is None or "exec_id" not in self.details or "output" not in self.details:
            return None
        return from_body(ExecResult, self.details)


def error_from_answer(status: int, content: bytes, request_id: str | None) -> SandboxError:
    try:
        body = json.loads(content)
    except ValueError:
        body = None
    if isinstance(body, dict) and isinstance(body.get("error_code"), str):
        return SandboxError(
            body["error_code"],
            status,
            str(body.get("message", "the daemon gives no reason")),
            body.get("details"),
            body.get("request_id", request_id),
        )
    message = f"the answer was {status} without a reason; is a Sandkasten daemon there?"
    return SandboxError("CONNECTION_FAILED", status, message, request_id=request_id)
