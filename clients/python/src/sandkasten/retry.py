"""When a request is retried, and after which delay."""

from __future__ import annotations

import random
from dataclasses import dataclass

from .errors import SandboxError

_MAX_DELAY_SECONDS = 8.0
_MAX_RETRY_AFTER_SECONDS = 60.0


@dataclass(frozen=True)
class RetryPolicy:
    """Only requests that are safe to repeat are retried."""

    max_retries: int = 2
    delay_seconds: float = 0.25
    """The longest delay before the first retry. It doubles with each retry."""

    def allows(self, failures: int, error: SandboxError) -> bool:
        """Whether to retry after this many earlier failures."""
        if failures >= self.max_retries or not error.may_pass:
            return False
        return (error.retry_after_seconds or 0) <= _MAX_RETRY_AFTER_SECONDS

    def delay(self, failures: int, error: SandboxError) -> float:
        """Exponential backoff with jitter, and at least the delay that the daemon requested."""
        longest: float = min(_MAX_DELAY_SECONDS, self.delay_seconds * 2**failures)
        jittered = longest * random.uniform(0.5, 1)
        return max(jittered, error.retry_after_seconds or 0)
