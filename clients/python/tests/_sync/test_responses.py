# Generated from the asynchronous version by generate_sync.py. Do not edit.
"""Responses that a real daemon seldom gives: pages, broken connections, strangers at its address."""

import threading
import unittest
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from sandkasten import RetryPolicy, SyncSandboxClient, SandboxError

SESSION = '{"id":"%s","image":"host","status":"running"}'
DONE = 'event: done\ndata: {"exec_id":"e1","status":"done","exit_code":0}\n\n'


def chunk(offset: int, text: str) -> str:
    fields = f'"stream":"stdout","seq":0,"timestamp":1,"offset":{offset}'
    return f'event: chunk\nid: 1\ndata: {{"chunk":"{text}",{fields}}}\n\n'


class Scripted(BaseHTTPRequestHandler):
    """Answers by path, one answer after the other; the last one stays."""

    answers: dict[str, list[tuple[int, dict[str, str], str]]] = {}
    requests: list[tuple[str, dict[str, str]]] = []

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        what = f"{self.command} {self.path}"
        Scripted.requests.append((what, {k.lower(): v for k, v in self.headers.items()}))
        queue = Scripted.answers[what]
        status, headers, body = queue.pop(0) if len(queue) > 1 else queue[0]
        if status == 0:
            self.connection.close()
            return
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body.encode())

    do_GET: Callable[[Any], None] = answer
    do_POST: Callable[[Any], None] = answer
    do_PUT: Callable[[Any], None] = answer
    do_DELETE: Callable[[Any], None] = answer

    def log_message(self, *_: Any) -> None:
        """Stay silent."""


class Responses(unittest.TestCase):
    def setUp(self) -> None:
        Scripted.answers = {}
        Scripted.requests = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
        thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        retry = RetryPolicy(max_retries=2, delay_seconds=0.01)
        self.client: SyncSandboxClient = SyncSandboxClient(f"{self.url}/behind/", "key", retry=retry)

    def tearDown(self) -> None:
        self.client.close()

    def script(self, request: str, body: str, status: int = 200, **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        Scripted.answers.setdefault(request, []).append((status, named, body))

    def script_events(self, request: str, body: str, **headers: str) -> None:
        self.script(request, body, 200, Content_Type="text/event-stream", **headers)

    def sent(self, request: str) -> list[dict[str, str]]:
        return [headers for what, headers in Scripted.requests if what == request]

    def test_a_list_continues_to_its_last_page(self) -> None:
        self.script("GET /behind/v1/sessions", f"[{SESSION % 'a'}]", X_Next_Cursor="c 1")
        self.script("GET /behind/v1/sessions?cursor=c+1", f"[{SESSION % 'b'}]")
        self.assertEqual([session.id for session in self.client.list_sessions()], ["a", "b"])

    def test_a_stream_continues_after_a_broken_connection(self) -> None:
        self.script("GET /behind/v1/sessions/a", SESSION % "a")
        self.script_events("POST /behind/v1/sessions/a/exec/stream", chunk(0, "one"), X_Exec_Id="e1")
        again = "GET /behind/v1/sessions/a/execs/e1/stream?cursor={}&raw=true"
        self.script(again.format(3), "", status=0)
        self.script_events(again.format(3), chunk(0, "onetwo"))
        self.script_events(again.format(6), chunk(9, "end") + DONE)
        stream = (self.client.get_session("a")).exec_stream("x")
        seen = [(output.text, output.offset, output.skipped_bytes) for output in stream]
        self.assertEqual(seen, [("one", 0, 0), ("two", 3, 0), ("end", 9, 3)])
        self.assertEqual(len(self.sent("POST /behind/v1/sessions/a/exec/stream")), 1)
        assert stream.result is not None
        self.assertEqual(stream.result.exit_code, 0)

    def test_a_stream_that_keeps_breaking_is_not_an_end(self) -> None:
        self.script("GET /behind/v1/sessions/a", SESSION % "a")
        self.script_events(
            "POST /behind/v1/sessions/a/exec/stream", chunk(0, "one"), X_Exec_Id="e1"
        )
        self.script("GET /behind/v1/sessions/a/execs/e1/stream?cursor=3&raw=true", "", status=0)
        stream = (self.client.get_session("a")).exec_stream("x")
        with self.assertRaises(SandboxError) as caught:
            for _ in stream:
                pass
        self.assertEqual(caught.exception.code, "CONNECTION_FAILED")
        self.assertIsNone(stream.result)

    def test_a_command_is_retried_only_with_the_same_key(self) -> None:
        self.script("GET /behind/v1/sessions/a", SESSION % "a")
        run = "POST /behind/v1/sessions/a/exec"
        self.script(run, "", status=0)
        self.script(run, '{"error_code":"BACKEND_BUSY","message":"later"}', status=503)
        self.script(run, '{"exec_id":"e1","status":"done","exit_code":7}')
        result = (self.client.get_session("a")).exec("x")
        self.assertEqual(result.exit_code, 7)
        keys = {headers["idempotency-key"] for headers in self.sent(run)}
        self.assertEqual((len(self.sent(run)), len(keys)), (3, 1))

    def test_requests_that_cannot_be_repeated_are_sent_once(self) -> None:
        self.script("GET /behind/v1/sessions/a", SESSION % "a")
        session = self.client.get_session("a")
        append = "PUT /behind/v1/sessions/a/fs/file?path=log&append=true"
        self.script(append, "", status=0)
        with self.assertRaises(SandboxError):
            session.files.append("log", "line\n")
        signal = "POST /behind/v1/sessions/a/execs/e1/signal"
        self.script(signal, "", status=0)
        with self.assertRaises(SandboxError):
            session.get_exec("e1").signal("TERM")
        self.assertEqual((len(self.sent(append)), len(self.sent(signal))), (1, 1))

    def test_a_deletion_whose_response_was_lost_is_a_success(self) -> None:
        self.script("GET /behind/v1/sessions/a", SESSION % "a")
        files = (self.client.get_session("a")).files
        remove = "DELETE /behind/v1/sessions/a/fs?path=x&recursive=false"
        self.script(remove, "", status=0)
        self.script(remove, '{"error_code":"FILE_NOT_FOUND","message":"gone"}', status=404)
        files.remove("x")
        with self.assertRaises(SandboxError) as caught:
            files.remove("x")
        self.assertEqual(caught.exception.code, "FILE_NOT_FOUND")

    def test_a_redirect_is_refused(self) -> None:
        self.script("GET /behind/v1/sessions/a", "", status=307, Location=f"{self.url}/elsewhere")
        self.script("GET /elsewhere", SESSION % "a")
        with self.assertRaises(SandboxError) as caught:
            self.client.get_session("a")
        self.assertEqual((caught.exception.code, caught.exception.status), ("REDIRECTED", 307))
        self.assertEqual(self.sent("GET /elsewhere"), [])

    def test_a_server_that_is_not_a_daemon_is_recognized(self) -> None:
        self.script("GET /behind/v1/sessions/page", "<html>")
        self.script("GET /behind/v1/sessions/proxy", "<html>", status=502, X_Request_ID="r1")
        self.script("GET /behind/v1/sessions/cut", "{", Content_Length="1000")
        for session_id, status in [("page", 200), ("proxy", 502), ("cut", 0)]:
            with self.assertRaises(SandboxError) as caught:
                self.client.get_session(session_id)
            self.assertEqual(
                (caught.exception.code, caught.exception.status), ("CONNECTION_FAILED", status)
            )

    def test_an_address_without_a_server_is_an_error_that_says_so(self) -> None:
        self.server.socket.close()
        with self.assertRaises(SandboxError) as caught:
            self.client.list_sessions()
        self.assertEqual((caught.exception.code, caught.exception.status), ("CONNECTION_FAILED", 0))
        with self.assertRaises(ValueError):
            SyncSandboxClient("localhost:8080", "key")
        with self.assertRaises(ValueError):
            SyncSandboxClient("http://user:secret@localhost:8080")
