# Generated from the asynchronous version by generate_sync.py. Do not edit.
"""Commands on a real daemon."""

from sandkasten import SandboxError
from sandkasten._sync.primitives import sleep

from .daemon_case import DaemonCase


class Commands(DaemonCase):
    def test_the_shell_keeps_its_state_and_an_exit_code_is_a_result(self) -> None:
        self.session.exec("cd /tmp && export NAME=world")
        result = self.session.exec('echo "hello $NAME"; echo oops >&2; exit 3')
        self.assertEqual((result.exit_code, result.cwd, result.truncated), (3, "/tmp", False))
        self.assertEqual((result.stdout, result.stderr), ("hello world\n", "oops\n"))
        self.assertEqual((result.end_reason, result.output_bytes), ("exited", 17))
        self.assertGreaterEqual(result.duration_ms, 0)

    def test_a_named_shell_has_its_own_directory(self) -> None:
        self.session.exec("cd /var", shell="build")
        built = self.session.exec("pwd", shell="build")
        self.assertEqual((built.stdout, built.shell, built.status), ("/var\n", "build", "done"))
        shells = {shell.name: shell.cwd for shell in self.session.shells()}
        self.assertEqual(shells["build"], "/var")
        self.session.close_shell("build")
        self.assertNotIn("build", [shell.name for shell in self.session.shells()])
        with self.assertRaises(SandboxError) as caught:
            self.session.close_shell("build")
        self.assertEqual(caught.exception.code, "SHELL_NOT_FOUND")

    def test_a_list_of_arguments_runs_with_the_given_input_and_environment(self) -> None:
        script = 'cat; echo "$X in $PWD"'
        result = self.session.exec(
            ["sh", "-c", script], cwd="/usr", env={"X": "1"}, stdin="given\n"
        )
        self.assertEqual(result.output, "given\n1 in /usr\n")
        counted = self.session.exec(["wc", "-c"], stdin=b"\xff\x00\n")
        self.assertEqual(counted.stdout.strip(), "3")
        long = self.session.exec("seq 10000", output_budget_bytes=1000)
        self.assertTrue(long.truncated)
        self.assertLess(len(long.output), 2000)

    def test_a_command_that_exceeds_its_timeout_raises_with_its_output(self) -> None:
        with self.assertRaises(SandboxError) as caught:
            self.session.exec("echo partial; sleep 1000", timeout_ms=300)
        error = caught.exception
        self.assertEqual((error.code, error.status), ("COMMAND_TIMEOUT", 504))
        assert error.result is not None
        self.assertEqual((error.result.output, error.result.timed_out), ("partial\n", True))
        self.assertEqual((self.session.exec("echo alive")).output, "alive\n")

    def test_output_arrives_while_the_command_runs(self) -> None:
        stream = self.session.exec_stream(
            "cd /usr; echo one; until [ -e /workspace/go ]; do sleep 0.05; done;"
            "printf '\\377' >&2; exit 5"
        )
        seen = []
        for chunk in stream:
            seen.append((chunk.stream, chunk.text, chunk.data, chunk.offset))
            if len(seen) == 1:
                self.assertIsNone(stream.result)
                self.session.write("go", b"")
        self.assertEqual(
            seen, [("stdout", "one\n", b"one\n", 0), ("stderr", "\ufffd", b"\xff", 4)]
        )
        assert stream.result is not None
        self.assertEqual((stream.result.exit_code, stream.result.cwd), (5, "/usr"))
        with self.assertRaises(RuntimeError):
            for _ in stream:
                pass

    def test_a_stream_reports_a_timeout_after_its_output(self) -> None:
        stream = self.session.exec_stream("echo first; sleep 1000", timeout_ms=300)
        seen = []
        with self.assertRaises(SandboxError) as caught:
            for chunk in stream:
                seen.append(chunk.text)
        self.assertEqual((seen, caught.exception.code), (["first\n"], "COMMAND_TIMEOUT"))
        assert stream.result is not None
        self.assertTrue(stream.result.timed_out)

    def test_a_command_can_be_followed_from_where_a_reader_stopped(self) -> None:
        command = "echo begun; until [ -e left ]; do sleep 0.05; done; echo end"
        stream = self.session.exec_stream(["sh", "-c", command], cwd="/workspace")
        for _ in stream:
            break
        self.session.write("left", "")
        assert stream.exec is not None
        again = stream.exec.follow(cursor=len("begun\n"))
        self.assertEqual([chunk.text for chunk in again], ["end\n"])
        assert again.result is not None
        self.assertEqual(again.result.exit_code, 0)

    def test_a_started_command_is_fed_waited_for_and_read(self) -> None:
        started = self.session.start(["cat"], stdin_open=True)
        started.write_stdin("one\n")
        waited = started.wait(until={"pattern": "o(ne)"})
        self.assertEqual((waited.status, waited.matched), ("running", True))
        assert waited.match is not None
        self.assertEqual((waited.match.line, list(waited.match.groups)), ("one", ["ne"]))
        self.assertEqual((started.wait(timeout_ms=0)).status, "running")
        started.write_stdin(b"\xfe")
        started.close_stdin()
        result = started.wait()
        self.assertEqual((result.exit_code, result.output_bytes), (0, 5))
        page = started.read(cursor=4)
        self.assertEqual(
            ([chunk.data for chunk in page.chunks], page.done, page.next_cursor),
            ([b"\xfe"], True, 5),
        )
        self.assertEqual((started.info()).cmd, ["cat"])
        newest = [info.exec_id for info in self.session.execs()][0]
        self.assertEqual(newest, started.id)

    def test_a_started_command_is_signalled_and_cancelled(self) -> None:
        trapped = self.session.start(["sh", "-c", "trap 'exit 9' USR1; echo ready; sleep 1000 & wait"])
        trapped.wait(until={"pattern": "ready"})
        self.assertGreaterEqual(trapped.signal("USR1"), 1)
        self.assertEqual((trapped.wait()).exit_code, 9)
        cancelled = self.session.start(["sh", "-c", "echo ready; sleep 1000"])
        cancelled.wait(until={"pattern": "ready"})
        self.assertTrue(cancelled.cancel())
        self.assertEqual((cancelled.wait()).end_reason, "cancelled")
        self.assertFalse(cancelled.cancel())

    def test_the_same_idempotency_key_runs_one_command(self) -> None:
        self.session.exec(["sh", "-c", "echo x >> once"], idempotency_key="once", cwd="/workspace")
        self.session.exec(["sh", "-c", "echo x >> once"], idempotency_key="once", cwd="/workspace")
        self.assertEqual(self.session.read("once"), b"x\n")

    def test_a_terminal_is_typed_into_resized_and_returned_to(self) -> None:
        pty = self.session.pty("stty -echo; read a; stty size; read b; exit 4", rows=30, cols=90)
        with pty:
            pty.resize(31, 91)
            pty.write("go\n")
            seen = b""
            for data in pty:
                seen += data
                if b"31 91" in seen:
                    break
            self.assertIn(b"31 91", seen)
        again = self.session.pty(exec_id=pty.exec_id, cursor=pty.cursor)
        with again:
            again.write(b"end\n")
            for _ in again:
                pass
        assert again.result is not None
        self.assertEqual(again.result.exit_code, 4)
        with self.assertRaises(SandboxError) as caught:
            self.session.pty(exec_id="nothing-here")
        self.assertEqual(caught.exception.code, "EXEC_NOT_FOUND")

    def test_ports_are_listed_opened_by_url_and_connected_to(self) -> None:
        echo = (
            "import socketserver as s\n"
            "class H(s.StreamRequestHandler):\n"
            "  def handle(self):\n"
            "    while d := self.request.recv(65536): self.request.sendall(d)\n"
            "    self.request.sendall(b'bye')\n"
            "s.ThreadingTCPServer(('127.0.0.1', 8765), H).serve_forever()\n"
        )
        self.session.write("echo.py", echo)
        server = self.session.start(["python3", "echo.py"])
        while not (ports := self.session.ports()):
            sleep(0.05)
        self.assertEqual(
            [(port.port, port.address, port.process) for port in ports],
            [(8765, "127.0.0.1", "python3")],
        )
        sent = bytes(range(256)) * 12_000  # More than the window of either side.
        with self.session.connect(8765) as connection:
            received = b""
            for start in range(0, len(sent), 512_000):
                connection.write(sent[start : start + 512_000])
                while len(received) < min(start + 512_000, len(sent)):
                    received += connection.read()
            connection.end_input()
            for data in connection:
                received += data
        self.assertEqual(received, sent + b"bye")
        self.assertIn("8765-", self.session.url(8765, expires_in_seconds=60))
        with self.assertRaises(SandboxError) as caught:
            self.session.url(0)
        self.assertEqual(caught.exception.code, "INVALID_REQUEST")
        server.cancel()
        server.wait()
        with self.assertRaises(SandboxError) as caught:
            self.session.connect(8765)
        self.assertEqual(caught.exception.code, "PORT_REFUSED")
