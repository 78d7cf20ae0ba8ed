"""Server-sent events of the daemon, and the events of its feed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import httpx2

from .errors import connection_failed
from .types import from_body


@dataclass(frozen=True)
class SandboxEvent:
    """An event of the feed."""

    id: str
    """The event's id, and the cursor to continue after it."""
    type: str
    """Such as `exec.ended`; `gap` if events are missing before the next one, see its `reason`."""
    time: str
    """When it happened; for a gap, when it was noticed."""
    owner: str
    """The owner; empty for the daemon itself."""
    session_id: str | None
    data: Mapping[str, Any]
    """The data of an event, which depends on its type."""


def json_object(event: httpx2.ServerSentEvent) -> Mapping[str, Any]:
    """The data of an event, which the daemon sends as a JSON object."""
    try:
        data = event.json()
    except ValueError as cause:
        raise connection_failed("Reading an event", cause) from cause
    if not isinstance(data, dict):
        raise connection_failed("Reading an event", "its data is not an object")
    return data


def feed_event(event: httpx2.ServerSentEvent, cursor: str) -> SandboxEvent | None:
    """The parsed event; None for events about the feed itself."""
    if event.event == "gap":
        now = datetime.now(timezone.utc).isoformat()
        return SandboxEvent(cursor, "gap", now, "", None, json_object(event))
    return from_body(SandboxEvent, json_object(event)) if event.event == "event" else None
