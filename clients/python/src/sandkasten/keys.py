"""The keys of a daemon, as it describes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

KeyScope: TypeAlias = Literal["admin", "use", "read"]


@dataclass(frozen=True)
class KeyInfo:
    """A key without its secret. Times are ISO 8601."""

    id: str
    name: str
    owner: str
    scope: KeyScope
    source: Literal["config", "stored"]
    """Configured keys are changed in the configuration, and cannot be revoked here."""
    created_at: str | None
    expires_at: str | None
    revoked_at: str | None
    last_used_at: str | None
    """Accurate to a few minutes."""
    max_sessions: int | None
    max_running_execs: int | None
    max_image_bytes: int | None


@dataclass(frozen=True)
class CreatedKey(KeyInfo):
    """A new key including its secret, which is not shown again."""

    key: str
