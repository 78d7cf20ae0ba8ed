"""What the daemon says about keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

KeyScope: TypeAlias = Literal["admin", "use", "read"]


@dataclass(frozen=True)
class KeyInfo:
    """A key, without what would let somebody use it. Times are ISO 8601."""

    id: str
    name: str
    owner: str
    scope: KeyScope
    source: Literal["config", "stored"]
    """Keys of the configuration are changed there, and cannot be revoked here."""
    created_at: str | None
    expires_at: str | None
    revoked_at: str | None
    last_used_at: str | None
    """To within some minutes."""
    max_sessions: int | None
    max_running_execs: int | None
    max_image_bytes: int | None


@dataclass(frozen=True)
class CreatedKey(KeyInfo):
    """A new key with the key itself, which is told this once."""

    key: str
