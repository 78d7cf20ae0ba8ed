"""How long the client waits before it tries again, and when it gives up."""

import unittest

from sandkasten import RetryPolicy, SandboxError


def failure(retry_after_seconds: float | None = None) -> SandboxError:
    return SandboxError(
        "QUOTA_EXCEEDED", 429, "busy", retry_after_seconds=retry_after_seconds
    )


class Retries(unittest.TestCase):
    def test_delays_double_up_to_a_limit_and_differ(self) -> None:
        policy = RetryPolicy(max_retries=20, delay_seconds=1)
        for failures, longest in [(0, 1), (1, 2), (2, 4), (3, 8), (10, 8)]:
            delays = {policy.delay(failures, failure()) for _ in range(100)}
            self.assertGreater(len(delays), 50)
            self.assertGreaterEqual(min(delays), longest / 2)
            self.assertLessEqual(max(delays), longest)

    def test_the_daemon_is_not_asked_again_before_it_allows_it(self) -> None:
        policy = RetryPolicy()
        self.assertEqual(policy.delay(0, failure(7)), 7)
        self.assertTrue(policy.allows(0, failure(60)))
        self.assertFalse(policy.allows(0, failure(61)))

    def test_retries_are_few(self) -> None:
        policy = RetryPolicy(max_retries=2)
        self.assertEqual([policy.allows(n, failure()) for n in range(4)], [True, True, False, False])
        self.assertFalse(policy.allows(0, SandboxError("FILE_NOT_FOUND", 404, "none")))
