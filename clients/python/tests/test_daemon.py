"""The client against a real daemon, which SANDKASTEN_URL and SANDKASTEN_API_KEY name."""

import asyncio
import os
import threading
import unittest
from http.client import HTTPConnection
from urllib.parse import urlsplit

from sandkasten import SandboxClient, SandboxError, Session

URL = os.environ["SANDKASTEN_URL"]


class Daemon(unittest.IsolatedAsyncioTestCase):
    client = SandboxClient(URL, os.environ["SANDKASTEN_API_KEY"])
    session: Session

    @classmethod
    def setUpClass(cls) -> None:
        cls.session = asyncio.run(cls.client.create_session(image="host"))
        cls.addClassCleanup(lambda: asyncio.run(cls.session.destroy()))

    async def failure(self, awaitable) -> SandboxError:
        with self.assertRaises(SandboxError) as caught:
            await awaitable
        return caught.exception

    async def test_sessions_are_created_found_and_listed(self) -> None:
        made = await self.client.create_session("host", ttl_seconds=90, workspace_id="of-python")
        async with made:
            self.assertEqual((made.info.ttl_seconds, made.info.workspace_id), (90, "of-python"))
            found = await self.client.get_session(made.id)
            self.assertEqual((found.id, found.info.status), (made.id, "running"))
            listed = await self.client.list_sessions(status="running")
            self.assertEqual([session.id for session in listed], [made.id, self.session.id])
        self.assertIn(made.id, [session.id for session in await self.client.list_sessions()])
        self.assertEqual((await self.client.get_session(made.id)).info.status, "destroyed")

    async def test_a_session_is_of_the_backend_that_was_asked_for(self) -> None:
        usual = self.session.info.backend
        async with await self.client.create_session(backend=usual) as made:
            self.assertEqual(made.info.backend, usual)
        error = await self.failure(self.client.create_session(backend="of-clay"))
        self.assertEqual((error.code, error.details), ("INVALID_REQUEST", {"backends": [usual]}))

    async def test_the_shell_remembers_and_an_exit_code_is_a_result(self) -> None:
        await self.session.exec("cd /tmp && export NAME=world")
        result = await self.session.exec('echo "hello $NAME"; echo oops >&2; exit 3')
        self.assertEqual((result.exit_code, result.cwd, result.truncated), (3, "/tmp", False))
        self.assertEqual((result.stdout, result.stderr), ("hello world\n", "oops\n"))
        self.assertEqual((result.end_reason, result.output_bytes), ("exited", 17))
        self.assertGreaterEqual(result.duration_ms, 0)

    async def test_a_named_shell_has_its_own_directory(self) -> None:
        await self.session.exec("cd /var", shell="build")
        built = await self.session.exec("pwd", shell="build")
        self.assertEqual((built.stdout, built.shell, built.status), ("/var\n", "build", "done"))
        usual = await self.session.exec("cd /tmp; pwd; sleep 0.2 &")
        self.assertEqual((usual.stdout, usual.shell, usual.background), ("/tmp\n", "default", True))

    async def test_ports_are_listed_and_opened_by_url(self) -> None:
        serve = "python3 -m http.server --bind 127.0.0.1 8765 >/dev/null 2>&1 &"
        await self.session.exec(f"cd /workspace && echo preview > page && {serve}")
        while not (ports := await self.session.ports()):
            await asyncio.sleep(0.02)
        self.assertEqual(
            [(port.port, port.address, port.process) for port in ports],
            [(8765, "127.0.0.1", "python3")],
        )
        url = urlsplit(await self.session.url(8765, expires_in_seconds=60))
        connection = HTTPConnection("127.0.0.1", url.port, timeout=30)
        connection.request("GET", f"/page?{url.query}", headers={"Host": url.netloc})
        self.assertEqual(await asyncio.to_thread(connection.getresponse().read), b"preview\n")
        connection.close()
        error = await self.failure(self.session.url(0))
        self.assertEqual(error.code, "INVALID_REQUEST")
        await self.session.exec("kill %1")

    async def test_a_list_of_arguments_runs_with_what_it_is_given(self) -> None:
        script = 'cat; echo "$X in $PWD"'
        result = await self.session.exec(
            ["sh", "-c", script], cwd="/usr", env={"X": "1"}, stdin="given\n"
        )
        self.assertEqual(result.output, "given\n1 in /usr\n")
        long = await self.session.exec("seq 10000", output_budget_bytes=1000)
        self.assertTrue(long.truncated)
        self.assertLess(len(long.output), 2000)

    async def test_a_command_that_is_too_slow_raises_with_what_it_printed(self) -> None:
        error = await self.failure(self.session.exec("echo partial; sleep 1000", timeout_ms=300))
        self.assertEqual((error.code, error.status), ("COMMAND_TIMEOUT", 504))
        assert error.result is not None
        self.assertEqual((error.result.output, error.result.timed_out), ("partial\n", True))
        self.assertEqual((await self.session.exec("echo alive")).output, "alive\n")

    async def test_output_comes_while_the_command_runs(self) -> None:
        stream = self.session.exec_stream(
            "cd /usr; echo one; until [ -e /workspace/go ]; do sleep 0.05; done;"
            "printf '\\377' >&2; exit 5"
        )
        seen = []
        async for chunk in stream:
            seen.append((chunk.stream, chunk.text, chunk.data, chunk.offset))
            if len(seen) == 1:
                self.assertIsNone(stream.result)
                await self.session.write("go", b"")
        self.assertEqual(
            seen, [("stdout", "one\n", b"one\n", 0), ("stderr", "\ufffd", b"\xff", 4)]
        )
        assert stream.result is not None
        self.assertEqual((stream.result.exit_code, stream.result.cwd), (5, "/usr"))
        with self.assertRaises(RuntimeError):
            async for _ in stream:
                pass

    async def test_a_stream_tells_after_its_output_that_the_time_was_up(self) -> None:
        stream = self.session.exec_stream("echo first; sleep 1000", timeout_ms=300)
        seen = []
        with self.assertRaises(SandboxError) as caught:
            async for chunk in stream:
                seen.append(chunk.text)
        self.assertEqual((seen, caught.exception.code), (["first\n"], "COMMAND_TIMEOUT"))
        assert stream.result is not None
        self.assertTrue(stream.result.timed_out)

    async def test_leaving_a_stream_does_not_end_the_command(self) -> None:
        command = "echo begun; until [ -e left ]; do sleep 0.05; done; echo done > end"
        async for _ in self.session.exec_stream(["sh", "-c", command], cwd="/workspace"):
            break
        await self.session.write("left", "")
        wait = "cd /workspace; until [ -s end ]; do sleep 0.05; done; cat end"
        self.assertEqual((await self.session.exec(wait)).output, "done\n")

    async def test_files_keep_every_byte(self) -> None:
        everything = bytes(range(256)) * 5000
        for path, content in [("a b&c=ü#.bin", everything), ("deep/text", "grün\n"), ("empty", "")]:
            await self.session.write(path, content)
            expected = content.encode() if isinstance(content, str) else content
            self.assertEqual(await self.session.read(path), expected)
        self.assertEqual(await self.session.read("a b&c=ü#.bin", max_bytes=3), b"\0\1\2")
        self.assertEqual(await self.session.read("empty", max_bytes=3), b"")
        with self.assertRaises(ValueError):
            await self.session.read("empty", max_bytes=-1)

    async def test_what_the_daemon_refuses_is_an_error_with_its_code(self) -> None:
        error = await self.failure(self.session.read("nowhere"))
        self.assertEqual((error.code, error.status), ("FILE_NOT_FOUND", 404))
        self.assertTrue(error.request_id)
        self.assertIn("FILE_NOT_FOUND: ", str(error))
        error = await self.failure(self.client.get_session("../sessions?x"))
        self.assertEqual((error.code, error.status), ("INVALID_REQUEST", 400))
        error = await self.failure(SandboxClient(URL, "wrong-key").create_session())
        self.assertEqual((error.code, error.status), ("UNAUTHORIZED", 401))
        error = await self.failure(self.session.write("huge", bytes(70_000_000)))
        self.assertEqual((error.code, error.status), ("STORAGE_FULL", 507))

    async def test_a_destroyed_session_is_gone_and_may_be_destroyed_again(self) -> None:
        session = await self.client.create_session(image="host")
        await session.destroy()
        await session.destroy()
        error = await self.failure(session.exec("true"))
        self.assertIn(error.status, (404, 410))

    async def test_many_commands_wait_at_once_without_holding_up_a_call(self) -> None:
        wait = ["sh", "-c", ": > begun.$$; until [ -e all ]; do sleep 0.2; done"]
        calls = [self.session.exec(wait, cwd="/workspace") for _ in range(12)]
        running = [asyncio.create_task(call) for call in calls]
        await self.session.exec(
            "until [ $(ls /workspace/begun.* | wc -l) = 12 ]; do sleep 0.1; done"
        )
        await self.session.write("all", "")
        results = await asyncio.gather(*running)
        self.assertEqual([result.exit_code for result in results], [0] * 12)

    async def test_a_call_that_is_given_up_leaves_no_thread(self) -> None:
        with self.assertRaises(asyncio.TimeoutError):
            await asyncio.wait_for(self.session.exec(["sleep", "1000"]), 0.3)
        for thread in threading.enumerate():
            if thread.name.startswith("sandkasten"):
                thread.join(10)
                self.assertFalse(thread.is_alive())


if __name__ == "__main__":
    unittest.main()
