"""The way into a daemon: sessions are created and found here."""

from __future__ import annotations

from .results import SessionInfo, from_body
from .session import Session, session_path
from .transport import Transport


class SandboxClient:
    """A daemon, for the owner of a key. There is nothing to close: each call has its connection."""

    def __init__(self, base_url: str, api_key: str) -> None:
        self._transport = Transport(base_url, api_key)

    async def create_session(
        self,
        image: str | None = None,
        ttl_seconds: int | None = None,
        workspace_id: str | None = None,
        backend: str | None = None,
    ) -> Session:
        """Opens a sandbox. What is left out is as the daemon is configured."""
        asked = {
            "image": image,
            "ttl_seconds": ttl_seconds,
            "workspace_id": workspace_id,
            "backend": backend,
        }
        body = {name: value for name, value in asked.items() if value is not None}
        answer = await self._transport.json("POST", "/v1/sessions", body=body)
        return Session(self._transport, from_body(SessionInfo, answer.body))

    async def get_session(self, session_id: str) -> Session:
        """The session of an id, as it is now."""
        answer = await self._transport.json("GET", session_path(session_id))
        return Session(self._transport, from_body(SessionInfo, answer.body))

    async def list_sessions(self, status: str | None = None) -> list[Session]:
        """All sessions of the key, newest first; with a status, those that have it."""
        sessions: list[Session] = []
        query = {} if status is None else {"status": status}
        while True:
            answer = await self._transport.json("GET", "/v1/sessions", query=query)
            sessions += [
                Session(self._transport, from_body(SessionInfo, body)) for body in answer.body
            ]
            cursor = answer.headers.get("X-Next-Cursor")
            if cursor is None:
                return sessions
            query["cursor"] = cursor
