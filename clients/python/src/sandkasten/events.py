"""Server-sent events of the daemon."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx2

from .errors import connection_failed


def json_object(event: httpx2.ServerSentEvent) -> Mapping[str, Any]:
    """The data of an event, which the daemon sends as a JSON object."""
    try:
        data = event.json()
    except ValueError as cause:
        raise connection_failed("Reading an event", cause) from cause
    if not isinstance(data, dict):
        raise connection_failed("Reading an event", "its data is not an object")
    return data
