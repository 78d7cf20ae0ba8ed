import { describe, expect, it } from "vitest";
import type { PortConnection } from "../../ports/channel.ts";
import { worstTurnMs } from "../../testing/worst-turn.ts";
import { ask } from "./forward-request.ts";
import { PortDuplex } from "./port-duplex.ts";

/** A server that sends these pieces, whatever it is asked. */
function serverOf(...pieces: readonly string[]): PortConnection {
  return {
    readable: ReadableStream.from(pieces.map((piece) => new TextEncoder().encode(piece))),
    writable: new WritableStream(),
  };
}

async function bodyOf(connection: PortConnection): Promise<string> {
  const outgoing = ask(new PortDuplex(connection), "GET", {
    target: "/",
    headers: ["Host", "localhost"],
  });
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  outgoing.once("error", reject);
  outgoing.once("response", (answer) => {
    const pieces: string[] = [];
    answer.setEncoding("utf8").on("data", (text: string) => pieces.push(text));
    answer.once("end", () => resolve(pieces.join(""))).once("error", reject);
  });
  outgoing.end();
  return await promise;
}

const BIG = 400_000;
const CHUNKED = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
const CLOSED = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";

describe("a server inside a sandbox", () => {
  it.each([
    ["a body of tiny chunks", [CHUNKED, "1\r\nx\r\n".repeat(BIG / 6), "0\r\n\r\n"], BIG / 6],
    ["provisional responses", ["HTTP/1.1 103 E\r\n\r\n".repeat(BIG / 18), `${CLOSED}x`], 1],
  ] as const)(
    "does not stall other requests when several send %s",
    async (_name, pieces, length) => {
      const all = Promise.all(Array.from({ length: 4 }, () => bodyOf(serverOf(...pieces))));
      expect(await worstTurnMs(all)).toBeLessThan(100);
      for (const body of await all) expect(body).toHaveLength(Math.floor(length));
    },
  );

  it("is read to its end, and in order", async () => {
    const text = Array.from({ length: 50_000 }, (_, index) => `${index} `).join("");
    expect(await bodyOf(serverOf(CLOSED, text, "", "end"))).toBe(`${text}end`);
  });
});
