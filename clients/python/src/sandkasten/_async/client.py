"""The entry point: sessions, workspaces, images, events and keys of one daemon."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal
from uuid import uuid4

from ..events import SandboxEvent
from ..requests import Query, WorkspaceMount, present, segment, session_url
from ..retry import RetryPolicy
from ..types import ImageInfo, SessionInfo, WorkspaceInfo, from_body
from .event_feed import EventChoice, follow_events
from .files import Files
from .keys import Keys
from .session import Session
from .transport import Call, Transport

_DEFAULT_URL = "http://127.0.0.1:8080"


class SandboxClient:
    """A client of one daemon. A `with` block closes its connections, and so does `close`.

    Without arguments, it uses `SANDKASTEN_URL` and `SANDKASTEN_API_KEY` from the environment.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout_seconds: float = 60.0,
        retry: RetryPolicy | None = None,
    ) -> None:
        """`timeout_seconds` does not apply to calls that wait for something."""
        url = base_url or os.environ.get("SANDKASTEN_URL") or _DEFAULT_URL
        key = api_key if api_key is not None else os.environ.get("SANDKASTEN_API_KEY")
        self._transport = Transport(url, key, timeout_seconds, retry or RetryPolicy())
        self.keys = Keys(self._transport)
        """The keys of the daemon, for administrators."""

    async def create_session(
        self,
        image: str | None = None,
        ttl_seconds: int | None = None,
        workspace_id: str | None = None,
        backend: str | None = None,
        *,
        key: str | None = None,
        env: Mapping[str, str] | None = None,
        limits: Mapping[str, int] | None = None,
        network: Any = None,
        secrets: Sequence[Mapping[str, str]] | None = None,
        profile: str | None = None,
        isolation: str | None = None,
        metadata: Mapping[str, str] | None = None,
        workspaces: Sequence[WorkspaceMount] | None = None,
        idempotency_key: str | None = None,
    ) -> Session:
        """Creates a session, or returns the active session for `key`. The daemon sets defaults."""
        body = present(
            {
                "image": image,
                "ttl_seconds": ttl_seconds,
                "workspace_id": workspace_id,
                "backend": backend,
                "key": key,
                "env": None if env is None else dict(env),
                "limits": None if limits is None else dict(limits),
                "network": network,
                "secrets": None if secrets is None else [dict(secret) for secret in secrets],
                "profile": profile,
                "isolation": isolation,
                "metadata": None if metadata is None else dict(metadata),
                "workspaces": None if workspaces is None else list(workspaces),
            }
        )
        call = Call(
            "POST",
            "/v1/sessions",
            json=body,
            idempotency_key=idempotency_key or str(uuid4()),
        )
        answer, response = await self._transport.json_and_response(call)
        created = response.status_code == 201
        return Session(self._transport, from_body(SessionInfo, answer), created)

    async def get_session(self, session_id: str) -> Session:
        """The session with an id, active or ended."""
        body = await self._transport.json(Call("GET", session_url(session_id)))
        return Session(self._transport, from_body(SessionInfo, body))

    async def list_sessions(
        self,
        status: str | None = None,
        *,
        key: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> list[Session]:
        """All matching sessions: those that have not ended first, each group newest first."""
        return [session async for session in self.sessions(status, key=key, metadata=metadata)]

    async def sessions(
        self,
        status: str | None = None,
        *,
        key: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> AsyncIterator[Session]:
        """The same sessions, loading pages as needed."""
        pairs = [f"{name}={value}" for name, value in (metadata or {}).items()]
        query: dict[str, Any] = {"status": status, "key": key, "metadata": pairs}
        while True:
            call = Call("GET", "/v1/sessions", query)
            bodies, response = await self._transport.json_and_response(call)
            for body in bodies:
                yield Session(self._transport, from_body(SessionInfo, body))
            cursor = response.headers.get("x-next-cursor")
            if cursor is None:
                return
            query["cursor"] = cursor

    async def list_workspaces(self) -> list[WorkspaceInfo]:
        """All persistent workspaces."""
        body = await self._transport.json(Call("GET", "/v1/workspaces"))
        return [from_body(WorkspaceInfo, workspace) for workspace in body["workspaces"]]

    async def create_workspace(self, workspace_id: str) -> WorkspaceInfo:
        """Creates an empty workspace, or returns the existing one with this id."""
        path = f"/v1/workspaces/{segment(workspace_id)}"
        return from_body(WorkspaceInfo, await self._transport.json(Call("PUT", path)))

    async def delete_workspace(self, workspace_id: str) -> None:
        """Deletes a workspace with its files. Raises `CONFLICT` while a session uses it."""
        path = f"/v1/workspaces/{segment(workspace_id)}"
        await self._transport.json(Call("DELETE", path, done_when_repeated="FILE_NOT_FOUND"))

    def workspace_files(self, workspace_id: str) -> Files:
        """The files of a workspace, even if no session uses it."""
        return Files(self._transport, f"/v1/workspaces/{segment(workspace_id)}")

    async def list_images(self) -> list[ImageInfo]:
        """All local images."""
        body = await self._transport.json(Call("GET", "/v1/images"))
        return [from_body(ImageInfo, image) for image in body["images"]]

    async def remove_image(self, reference: str) -> None:
        """Removes an image."""
        query: Query = {"reference": reference}
        await self._transport.json(Call("DELETE", "/v1/images", query))

    def events(
        self,
        types: Sequence[str] | None = None,
        *,
        cursor: str | None = None,
        begin: Literal["now", "start"] | None = None,
        follow: bool = True,
        session_id: str | None = None,
        owner: str | None = None,
    ) -> AsyncIterator[SandboxEvent]:
        """Events, each once and in order, even if the connection breaks.

        `types` are names such as `exec.ended`, or first words such as `session`. `cursor` is the `id`
        of the last processed event. Without it, events `begin` now, or at the oldest stored event.
        `follow=False` ends after the stored events.
        """
        choice = EventChoice(types, cursor, begin, follow, session_id, owner)
        return follow_events(self._transport, "/v1/events", choice)

    async def health(self) -> bool:
        """Whether the daemon is up. It needs no key."""
        return bool((await self._transport.json(Call("GET", "/healthz")))["status"] == "ok")

    async def version(self) -> Mapping[str, Any]:
        """The daemon's version and backends."""
        body: Mapping[str, Any] = await self._transport.json(Call("GET", "/v1/version"))
        return body

    async def close(self) -> None:
        """Closes the connections kept open for later calls. Sessions continue."""
        await self._transport.close()

    async def __aenter__(self) -> SandboxClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
