"""What is seldom seen: pages, and answers that are not whole or not a daemon's."""

import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from sandkasten import SandboxClient, SandboxError

SESSION = '{"id":"%s","image":"host","status":"running"}'


class Scripted(BaseHTTPRequestHandler):
    """Answers by path; the connection ends with each answer."""

    answers: dict[str, tuple[int, dict[str, str], str]] = {}

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, headers, body = self.answers[f"{self.command} {self.path}"]
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body.encode())

    do_GET = do_POST = answer

    def log_message(self, *_) -> None:
        """Says nothing."""


class Answers(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
        thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.client = SandboxClient(f"{self.url}/behind/", "key")

    def script(self, request: str, body: str, status: int = 200, **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        Scripted.answers[request] = (status, named, body)

    async def test_a_list_goes_on_to_its_last_page(self) -> None:
        self.script("GET /behind/v1/sessions", f"[{SESSION % 'a'}]", X_Next_Cursor="c 1")
        self.script("GET /behind/v1/sessions?cursor=c+1", f"[{SESSION % 'b'}]")
        self.assertEqual([session.id for session in await self.client.list_sessions()], ["a", "b"])

    async def test_output_that_breaks_off_is_no_end(self) -> None:
        chunk = '{"chunk":"x","stream":"stdout","seq":0,"timestamp":1,"offset":9}'
        skipped = 'event: skipped\ndata: {"skipped_bytes":9}\n\n'
        events = f": ping\n\n{skipped}event: chunk\nid: 10\ndata: {chunk}\n\nevent: done\nda"
        self.script("GET /behind/v1/sessions/a", SESSION % "a")
        self.script("POST /behind/v1/sessions/a/exec/stream", events)
        stream = (await self.client.get_session("a")).exec_stream("x")
        seen = []
        with self.assertRaises(SandboxError) as caught:
            async for output in stream:
                seen.append((output.text, output.skipped_bytes))
        self.assertEqual((seen, caught.exception.code), ([("x", 9)], "CONNECTION_FAILED"))
        self.assertIsNone(stream.result)

    async def test_what_is_no_daemon_is_called_so(self) -> None:
        self.script("GET /behind/v1/sessions/page", "<html>")
        self.script("GET /behind/v1/sessions/proxy", "<html>", status=502, X_Request_ID="r1")
        self.script("GET /behind/v1/sessions/cut", "{", Content_Length="1000")
        for session_id, status in [("page", 200), ("proxy", 502), ("cut", 0)]:
            with self.assertRaises(SandboxError) as caught:
                await self.client.get_session(session_id)
            self.assertEqual(
                (caught.exception.code, caught.exception.status), ("CONNECTION_FAILED", status)
            )

    async def test_nobody_at_the_address_is_an_error_that_says_so(self) -> None:
        self.server.socket.close()
        with self.assertRaises(SandboxError) as caught:
            await self.client.list_sessions()
        self.assertEqual((caught.exception.code, caught.exception.status), ("CONNECTION_FAILED", 0))
        with self.assertRaises(ValueError):
            SandboxClient("localhost:8080", "key")


if __name__ == "__main__":
    unittest.main()
