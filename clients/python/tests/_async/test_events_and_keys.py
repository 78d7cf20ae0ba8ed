"""The event feed, keys and traces on a real daemon."""

import os
import subprocess
import sys

from opentelemetry import baggage, context, trace

from sandkasten import SandboxClient, SandboxError

from .daemon_case import DaemonCase

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
SPAN_ID = "b7ad6b7169203331"


def admin() -> SandboxClient:
    return SandboxClient(api_key=os.environ["SANDKASTEN_ADMIN_KEY"])


class Events(DaemonCase):
    async def test_a_session_reports_its_events_and_continues_after_a_cursor(self) -> None:
        async with await self.client.create_session("host") as session:
            failed = await session.exec("exit 3")
            told = [event async for event in session.events(begin="start", follow=False)]
            self.assertEqual(
                [event.type for event in told],
                ["session.created", "session.running", "exec.started", "exec.ended"],
            )
            self.assertEqual({event.session_id for event in told}, {session.id})
            self.assertEqual(told[-1].data["exit_code"], 3)
            self.assertEqual(told[-1].data["exec_id"], failed.exec_id)
            await session.pause()
            behind = session.events(cursor=told[-1].id, follow=False)
            self.assertEqual([event.type async for event in behind], ["session.paused"])

    async def test_events_are_followed_as_they_happen(self) -> None:
        async with await self.client.create_session("host") as session:
            followed = self.client.events(["exec.ended"], begin="start", session_id=session.id)
            codes = []
            await session.exec("exit 1")
            async for event in followed:
                codes.append(event.data["exit_code"])
                if len(codes) == 2:
                    break
                await session.exec("exit 2")
            self.assertEqual(codes, [1, 2])

    async def test_a_cursor_of_another_database_is_reported_as_a_gap(self) -> None:
        first = await anext(aiter(self.client.events(cursor="AAAAAAAAAAAAAAAAAAAAAA", follow=False)))
        self.assertEqual((first.type, first.data), ("gap", {"reason": "unknown_cursor"}))
        self.assertNotEqual(first.id, "")


class TheKeys(DaemonCase):
    async def test_an_administrator_creates_lists_and_revokes_keys(self) -> None:
        async with admin() as administrator:
            created = await administrator.keys.create(
                "python-reader", owner="python-team", scope="read", expires_in_seconds=600
            )
            self.assertEqual((created.owner, created.scope), ("python-team", "read"))
            self.assertIsNotNone(created.expires_at)
            async with SandboxClient(api_key=created.key) as reader:
                self.assertEqual(await reader.list_sessions(), [])
                with self.assertRaises(SandboxError) as caught:
                    await reader.create_session("host")
                self.assertEqual(caught.exception.status, 403)
                listed = {key.id: key for key in await administrator.keys.list()}
                self.assertIsNone(listed[created.id].revoked_at)
                self.assertFalse(hasattr(listed[created.id], "key"))
                await administrator.keys.revoke(created.id)
                with self.assertRaises(SandboxError) as caught:
                    await reader.list_sessions()
                self.assertEqual(caught.exception.code, "UNAUTHORIZED")
            listed = {key.id: key for key in await administrator.keys.list()}
            self.assertIsNotNone(listed[created.id].revoked_at)

    async def test_only_an_administrator_manages_keys(self) -> None:
        with self.assertRaises(SandboxError) as caught:
            await self.client.keys.list()
        self.assertEqual(caught.exception.status, 403)


class Traces(DaemonCase):
    async def test_a_command_is_in_the_trace_of_its_caller(self) -> None:
        caller = trace.SpanContext(
            int(TRACE_ID, 16), int(SPAN_ID, 16), True, trace.TraceFlags(trace.TraceFlags.SAMPLED)
        )
        active = trace.set_span_in_context(trace.NonRecordingSpan(caller))
        token = context.attach(baggage.set_baggage("password", "hunter2", active))
        try:
            traced = await self.session.exec("echo $TRACEPARENT")
            async with await self.session.pty("echo $TRACEPARENT") as terminal:
                shown = b"".join([output async for output in terminal])
        finally:
            context.detach(token)
        self.assertEqual(traced.stdout, f"00-{TRACE_ID}-{SPAN_ID}-01\n")
        self.assertIn(f"00-{TRACE_ID}-{SPAN_ID}-01".encode(), shown)
        self.assertEqual((await self.session.exec("echo [$TRACEPARENT]")).stdout, "[]\n")

    async def test_a_program_without_opentelemetry_does_not_load_it(self) -> None:
        program = (
            "import sys, sandkasten; from sandkasten.tracing import trace_headers;"
            "assert trace_headers() == {};"
            "assert not any(name.startswith('opentelemetry') for name in sys.modules)"
        )
        subprocess.run([sys.executable, "-c", program], check=True)
