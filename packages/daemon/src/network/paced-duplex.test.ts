import { once } from "node:events";
import { request } from "node:http";
import { duplexPair } from "node:stream";
import type { Duplex } from "node:stream";
import { buffer, text } from "node:stream/consumers";
import { describe, expect, it } from "vitest";
import { worstTurnMs } from "../testing/worst-turn.ts";
import { PacedDuplex } from "./paced-duplex.ts";

const CHUNKS = 60_000;
const ANSWER = `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${"1\r\nx\r\n".repeat(CHUNKS)}0\r\n\r\n`;

async function bodyOf(connection: Duplex): Promise<string> {
  const asked = request({ createConnection: () => connection });
  return await new Promise((resolve, reject) => {
    asked.once("error", reject);
    asked.once("response", (answer) => void text(answer).then(resolve, reject));
    asked.end();
  });
}

/** What came from the other side in one read. */
function sideWith(bytes: string): Duplex {
  const [side, other] = duplexPair();
  other.resume().write(bytes);
  return side;
}

describe("a paced stream", () => {
  it("does not stall other work when several bring much that is costly to read", async () => {
    const all = Promise.all(
      Array.from({ length: 4 }, () => bodyOf(new PacedDuplex(sideWith(ANSWER)))),
    );
    expect(await worstTurnMs(all)).toBeLessThan(100);
    for (const body of await all) expect(body).toHaveLength(CHUNKS);
  });

  it("carries all bytes both ways, and the ends", async () => {
    const [side, other] = duplexPair();
    const paced = new PacedDuplex(side);
    const bytes = Buffer.from(Array.from({ length: 100_000 }, (_, index) => index % 251));
    other.end(bytes);
    paced.end(bytes);
    expect((await buffer(paced)).equals(bytes)).toBe(true);
    expect((await buffer(other)).equals(bytes)).toBe(true);
  });

  it("fails when the stream below does, and ends it when it is given up", async () => {
    const [broken] = duplexPair();
    const failing = buffer(new PacedDuplex(broken));
    broken.destroy(new Error("cut"));
    await expect(failing).rejects.toThrow("cut");
    const [left] = duplexPair();
    new PacedDuplex(left).destroy();
    expect(left.destroyed).toBe(true);
  });

  it.each<[string, (paced: Duplex) => unknown]>([
    ["its reader pauses", (paced) => once(paced, "readable")],
    ["a write waits", (paced) => paced.write("not accepted")],
    ["it ends", (paced) => paced.end()],
  ])("closes when the stream below is destroyed while %s", async (_when, begin) => {
    const [side, other] = duplexPair();
    other.write(Buffer.alloc(50_000));
    const paced = new PacedDuplex(side);
    await begin(paced);
    const closed = once(paced, "close");
    side.destroy();
    await closed;
  });
});
