/** Large, slow and broken transfers. */
import { expect, it } from "vitest";
import type { NetworkSetup } from "./setup.ts";
import { hashOfLarge, serveTcp } from "./world.ts";

export function loadSuite(setup: () => NetworkSetup): void {
  it("a large download arrives completely", async () => {
    const { mebibytes, mode } = setup();
    const way = mode === "transparent" ? "ProxyHandler({})" : "ProxyHandler()";
    const { stdout, stderr } = await setup().sh(`/usr/bin/python3 - <<'END'
import hashlib, urllib.request
opener = urllib.request.build_opener(urllib.request.${way})
hash = hashlib.sha256()
with opener.open("http://web.test:PORT/large/${String(mebibytes)}", timeout=60) as answer:
    while part := answer.read(1 << 20): hash.update(part)
print(hash.hexdigest())
END`);
    expect({ stdout, stderr }).toMatchObject({ stdout: `${hashOfLarge(mebibytes)}\n` });
  });

  it("500 connections are open at once, and each gets its own bytes", async () => {
    const { network, mode, echo } = setup();
    const open =
      mode === "transparent"
        ? `socket.create_connection(("echo.test", ${String(echo.port)}), timeout=60)`
        : `tunnel()`;
    network.mostOpen = network.open;
    const { stdout, stderr } = await setup().sh(`/usr/bin/python3 - <<'END'
import socket
def tunnel():
    s = socket.create_connection(("127.0.0.1", 3128), timeout=60)
    s.sendall(b"CONNECT echo.test:${String(echo.port)} HTTP/1.1\\r\\n\\r\\n")
    answer = b""
    while not answer.endswith(b"\\r\\n\\r\\n"): answer += s.recv(1)
    assert b" 200 " in answer, answer
    return s
sockets = [${open} for _ in range(500)]
for number, s in enumerate(sockets): s.sendall(b"%d\\n" % number)
right = sum(s.makefile("rb").readline() == b"%d\\n" % number for number, s in enumerate(sockets))
print(right)
END`);
    expect({ stdout, stderr }).toMatchObject({ stdout: "500\n" });
    expect(network.mostOpen).toBeGreaterThanOrEqual(500);
    await expect.poll(() => network.open).toBe(0);
  });

  it("the runner waits for a slow server", async () => {
    const { stdout, stderr } = await setup().sh(`/usr/bin/python3 - <<'END'
import urllib.request
print(urllib.request.urlopen("http://web.test:PORT/slow", timeout=60).read().decode())
END`);
    expect({ stdout, stderr }).toMatchObject({ stdout: "0123456789\n" });
  });

  it("a reset by the server is a reset for the program, not an end", async (context) => {
    const { network, mode } = setup();
    if (mode === "proxy") context.skip("the raw socket knows no proxy");
    const server = await serveTcp((socket) => {
      socket.write("partial");
      socket.once("data", () => socket.resetAndDestroy());
    });
    try {
      network.allow("reset.test", server.port);
      const { stdout, stderr } = await setup().sh(`/usr/bin/python3 - <<'END'
import socket
s = socket.create_connection(("reset.test", ${String(server.port)}), timeout=20)
print(s.recv(7).decode())
s.sendall(b"x")
try:
    print("ended", s.recv(1))
except ConnectionResetError:
    print("reset")
END`);
      expect({ stdout, stderr }).toMatchObject({ stdout: "partial\nreset\n" });
    } finally {
      await server.close();
    }
  });
}
