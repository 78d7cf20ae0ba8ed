/**
 * The far end of `PlainPeer`: `take N` counts bytes and answers with one, `give N` sends that many.
 * With `tcp` it reports its loopback port.
 */
import { Buffer } from "node:buffer";
import { once } from "node:events";
import { createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { PORTION_BYTES } from "./plain-peer.ts";

const socketPath = process.argv[2];
if (socketPath === undefined) throw new Error("usage: plain-peer-process.ts SOCKET | tcp");

const server = createServer((socket) => {
  socket.once("data", (first: Buffer) => {
    const end = first.indexOf("\n");
    const [verb, count] = first.subarray(0, end).toString().split(" ");
    if (verb === "take") take(socket, Number(count), first.byteLength - end - 1);
    else void give(socket, Number(count));
  });
});

function take(socket: Socket, bytes: number, taken: number): void {
  let left = bytes - taken;
  socket.on("data", (chunk: Buffer) => {
    left -= chunk.byteLength;
    if (left <= 0) socket.end("x");
  });
}

async function give(socket: Socket, bytes: number): Promise<void> {
  const portion = Buffer.alloc(PORTION_BYTES);
  for (let left = bytes; left > 0; left -= portion.byteLength)
    if (!socket.write(portion.subarray(0, left))) await once(socket, "drain");
  socket.end();
}

if (socketPath === "tcp")
  server.listen(0, "127.0.0.1", () => process.send?.((server.address() as AddressInfo).port));
else server.listen(socketPath, () => process.send?.("listening"));
process.once("disconnect", () => process.exit(0));
