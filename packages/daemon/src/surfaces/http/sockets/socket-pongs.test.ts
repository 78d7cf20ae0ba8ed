import { EventEmitter } from "node:events";
import type { WebSocket } from "@fastify/websocket";
import { expect, test } from "vitest";
import { answerPings } from "./socket-pongs.ts";

/** A client that reads only when it is told to. */
class SlowSocket extends EventEmitter {
  readonly OPEN = 1;
  readyState = 1;
  readonly pongs: string[] = [];
  #sent: (() => void) | undefined;

  pong(data: Buffer, _mask: boolean, sent: () => void): void {
    this.pongs.push(data.toString());
    this.#sent = sent;
  }

  read(): void {
    const sent = this.#sent;
    this.#sent = undefined;
    sent?.();
  }
}

test("pongs wait one at a time, for the newest ping", () => {
  const socket = new SlowSocket();
  answerPings(socket as unknown as WebSocket);
  for (const name of ["one", "two", "three"]) socket.emit("ping", Buffer.from(name));
  expect(socket.pongs).toEqual(["one"]);
  socket.read();
  expect(socket.pongs).toEqual(["one", "three"]);
  socket.read();
  expect(socket.pongs).toEqual(["one", "three"]);
  socket.emit("ping", Buffer.from("four"));
  socket.readyState = 2;
  socket.emit("ping", Buffer.from("five"));
  socket.read();
  expect(socket.pongs).toEqual(["one", "three", "four"]);
});
