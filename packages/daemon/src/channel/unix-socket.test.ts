import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import type { Server, Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { connectUnixSocket } from "./unix-socket.ts";

let directory: string;
let server: Server;
const peers: Socket[] = [];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "sandkasten-socket-"));
  server = createServer((socket) => peers.push(socket));
});

afterEach(async () => {
  for (const peer of peers.splice(0)) peer.destroy();
  server.close();
  await rm(directory, { recursive: true, force: true });
});

async function dial(): Promise<{ socket: Socket; peer: Socket }> {
  const path = join(directory, "socket");
  await new Promise<void>((resolve) => server.listen(path, resolve));
  const socket = await connectUnixSocket(path, new AbortController().signal);
  await expect.poll(() => peers.length).toBe(1);
  return { socket, peer: peers[0] as Socket };
}

describe("connectUnixSocket", () => {
  it("loses nothing that arrives before the first listener", async () => {
    const { socket, peer } = await dial();
    await new Promise<void>((resolve) => peer.write("early", () => resolve()));
    await sleep(20);
    let text = "";
    const ended = new Promise((resolve) => socket.once("end", resolve));
    socket.on("data", (bytes) => (text += bytes.toString()));
    socket.resume();
    peer.end(" and late");
    await ended;
    expect(text).toBe("early and late");
  });

  it("reads everything into the same memory", async () => {
    const { socket, peer } = await dial();
    const memories = new Set<unknown>();
    let received = 0;
    const ended = new Promise((resolve) => socket.once("end", resolve));
    socket.on("data", (bytes) => {
      received += bytes.byteLength;
      memories.add(bytes.buffer);
    });
    socket.resume();
    peer.end(Buffer.alloc(5_000_000));
    await ended;
    expect([received, memories.size]).toEqual([5_000_000, 1]);
  });

  it("gives up when the signal fires first", async () => {
    const path = join(directory, "socket");
    await expect(connectUnixSocket(path, AbortSignal.abort("enough"))).rejects.toThrow(
      "was cancelled",
    );
  });

  it("rejects if nothing listens", async () => {
    const path = join(directory, "nowhere");
    await expect(connectUnixSocket(path, new AbortController().signal)).rejects.toThrow("ENOENT");
  });
});
