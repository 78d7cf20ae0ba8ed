"""A small dev server with hot reload, and pages that try forbidden actions."""

import base64
import hashlib
import http.server
import json
import os
import sys
import threading
import time

PAGE = "/workspace/page.html"
MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_args) -> None:
        pass

    def do_GET(self) -> None:
        if self.headers.get("Upgrade", "").lower() == "websocket":
            return self.reload_socket()
        if self.path == "/stream":
            return self.stream(int(os.environ.get("STREAM_BYTES", "0")))
        if self.path == "/headers":
            return self.answer(json.dumps(list(self.headers.items())).encode())
        super().do_GET()

    def do_PUT(self) -> None:
        digest = hashlib.sha256()
        left = int(self.headers["Content-Length"])
        while left > 0:
            piece = self.rfile.read(min(left, 65536))
            digest.update(piece)
            left -= len(piece)
        self.answer(digest.hexdigest().encode())

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        name = f"/workspace/report-{self.path.rsplit('/', 1)[-1]}"
        with open(f"{name}.new", "wb") as file:
            file.write(body)
        os.rename(f"{name}.new", name)
        self.answer(b"")

    def answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        # Both try to set cookies for the daemon's own host.
        self.send_header("Set-Cookie", "app=1; Path=/; Domain=localhost")
        self.send_header("Set-Cookie", "own=1; Path=/")
        self.end_headers()
        self.wfile.write(body)

    def stream(self, size: int) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(size))
        self.end_headers()
        block = bytes(range(256)) * 256
        for _ in range(size // len(block)):
            self.wfile.write(block)

    def reload_socket(self) -> None:
        accept = hashlib.sha1((self.headers["Sec-WebSocket-Key"] + MAGIC).encode()).digest()
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(accept).decode())
        self.end_headers()
        self.wfile.flush()
        self.close_connection = True
        seen = os.stat(PAGE).st_mtime_ns
        while os.stat(PAGE).st_mtime_ns == seen:
            time.sleep(0.02)
        self.wfile.write(b"\x81\x06reload")


if __name__ == "__main__":
    os.chdir("/workspace")
    server = http.server.ThreadingHTTPServer((sys.argv[2], int(sys.argv[1])), Handler)
    if ":" in sys.argv[2]:
        raise SystemExit("an IPv4 address, please")
    threading.Thread(target=server.serve_forever).start()
