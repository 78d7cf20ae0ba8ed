# Generated from the asynchronous version by generate_sync.py. Do not edit.
"""The keys of a daemon, for administrators."""

from __future__ import annotations

from ..keys import CreatedKey, KeyInfo, KeyScope
from ..requests import present, segment
from ..types import from_body
from .transport import Call, Transport


class SyncKeys:
    """The keys of the daemon."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(
        self,
        name: str,
        *,
        owner: str | None = None,
        scope: KeyScope | None = None,
        expires_in_seconds: int | None = None,
        max_sessions: int | None = None,
        max_running_execs: int | None = None,
        max_image_bytes: int | None = None,
    ) -> CreatedKey:
        """Creates a key, by default for the owner `name` with the scope `use`. Never retried."""
        body = present(
            {
                "name": name,
                "owner": owner,
                "scope": scope,
                "expires_in_seconds": expires_in_seconds,
                "max_sessions": max_sessions,
                "max_running_execs": max_running_execs,
                "max_image_bytes": max_image_bytes,
            }
        )
        return from_body(CreatedKey, self._transport.json(Call("POST", "/v1/keys", json=body)))

    def list(self) -> list[KeyInfo]:
        """All keys, including configured and revoked ones."""
        body = self._transport.json(Call("GET", "/v1/keys"))
        return [from_body(KeyInfo, key) for key in body["keys"]]

    def revoke(self, key_id: str) -> None:
        """Revokes a key: its open connections and preview links end."""
        self._transport.json(Call("DELETE", f"/v1/keys/{segment(key_id)}"))
