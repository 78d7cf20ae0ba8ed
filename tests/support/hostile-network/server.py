"""A web server that records the raw heads of requests, and sends forbidden responses.

On the next port, it accepts connections and neither reads nor ends them.
"""

import socket
import sys
import threading

REPLIES = {
    b"/both": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"/lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
    b"/noise": bytes(range(256)),
    b"/nothing": b"",
    b"/huge": b"HTTP/1.1 200 OK\r\nX: " + b"y" * 2_000_000 + b"\r\n\r\n",
    b"/switch": b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    b"/status": b"HTTP/1.1 999999 OK\r\n\r\n",
    b"/split": b"HTTP/1.1 200 OK\r\nX: a\rSet-Cookie: b\r\n\r\n",
}


def serve(peer: socket.socket) -> None:
    with peer:
        peer.settimeout(20)
        head = b""
        try:
            while b"\r\n\r\n" not in head and (got := peer.recv(65536)):
                head += got
            with open("seen", "ab") as seen:
                seen.write(head)
            path = (head.split(b" ") + [b""])[1]
            peer.sendall(REPLIES.get(path, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"))
        except OSError:
            pass


def hold(listener: socket.socket) -> None:
    held = []
    while True:
        held.append(listener.accept()[0])


port = int(sys.argv[1])
threading.Thread(target=hold, args=(socket.create_server(("127.0.0.1", port + 1)),), daemon=True).start()
with socket.create_server(("127.0.0.1", port)) as listener:
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
