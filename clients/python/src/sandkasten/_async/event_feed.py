"""Streams of events: each event once, in order, over connections that may break."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import httpx2

from ..errors import SandboxError, connection_failed, error_from_event
from ..events import SandboxEvent, feed_event, json_object
from ..requests import Query
from .primitives import sleep
from .transport import Call, Transport


@dataclass(frozen=True)
class EventChoice:
    """Which events, and where to start."""

    types: Sequence[str] | None
    cursor: str | None
    begin: Literal["now", "start"] | None
    follow: bool
    session_id: str | None = None
    owner: str | None = None

    def query(self, cursor: str | None) -> Query:
        return {
            "types": None if self.types is None else ",".join(self.types),
            "cursor": cursor,
            "from": self.begin if cursor is None else None,
            "follow": None if self.follow else False,
            "session_id": self.session_id,
            "owner": self.owner,
        }


async def follow_events(
    transport: Transport, path: str, choice: EventChoice
) -> AsyncIterator[SandboxEvent]:
    async for event, cursor in _follow(transport, path, choice.query, choice.cursor):
        told = feed_event(event, cursor or "")
        if told is not None:
            yield told


async def follow_egress(
    transport: Transport, path: str, cursor: int
) -> AsyncIterator[Mapping[str, Any]]:
    def query(after: str | None) -> Query:
        return {"cursor": after}

    async for event, _ in _follow(transport, path, query, str(cursor)):
        if event.event == "connection":
            yield json_object(event)


async def _follow(
    transport: Transport, path: str, query: Callable[[str | None], Query], cursor: str | None
) -> AsyncIterator[tuple[httpx2.ServerSentEvent, str | None]]:
    failures = 0
    while True:
        try:
            call = Call("GET", path, query(cursor), waits=True)
            async with transport.open(call) as response:
                async for event in httpx2.EventSource(response, max_event_size=None):
                    failures = 0
                    if event.event == "done":
                        return
                    if event.event == "error":
                        raise error_from_event(json_object(event))
                    cursor = event.id or cursor
                    yield event, cursor
            raise connection_failed("Following events", "the connection ended")
        except SandboxError as error:
            if not transport.retry.allows(failures, error):
                raise
            await sleep(transport.retry.delay(failures, error))
            failures += 1
