import { describe, expect, it } from "vitest";
import { OutputPattern } from "./output-pattern.ts";

function chunk(text: string | Uint8Array, stream: "stdout" | "stderr" = "stdout") {
  return { stream, seq: 0, offset: 0, timestampMs: 0, bytes: Buffer.from(text) };
}

describe("a pattern in output", () => {
  it("is found in a line, with its groups, however the line arrives", async () => {
    const pattern = new OutputPattern(String.raw`listening on (\w+):(\d+)$`);
    expect(await pattern.find(chunk("starting\nlisten"))).toBeUndefined();
    expect(await pattern.find(chunk("listening on no", "stderr"))).toBeUndefined();
    expect(await pattern.find(chunk("ing on ho"))).toBeUndefined();
    expect(await pattern.find(chunk("st:80\r\nmore"))).toEqual({
      stream: "stdout",
      text: "listening on host:80",
      groups: ["host", "80"],
      line: "listening on host:80",
    });
  });

  it("is found without a newline, in a split character, and in the middle of a long line", async () => {
    expect(await new OutputPattern("Password: $").find(chunk("Password: "))).toMatchObject({
      text: "Password: ",
    });
    const bytes = Buffer.from("größe");
    const cut = new OutputPattern("größe");
    expect(await cut.find(chunk(bytes.subarray(0, 3)))).toBeUndefined();
    expect(await cut.find(chunk(bytes.subarray(3)))).toMatchObject({ text: "größe" });
    const long = `${"x".repeat(4090)}needle${"x".repeat(9000)}`;
    expect(await new OutputPattern("needle").find(chunk(long))).toMatchObject({ text: "needle" });
  });

  it.each(["(", "(?=x)", String.raw`(a)\1`, "(a{1,100}){1,100}", `(${"ab|".repeat(150)}c){99}`])(
    "%s is refused",
    (pattern) => {
      expect(() => new OutputPattern(pattern)).toThrow(
        expect.objectContaining({ code: "INVALID_REQUEST" }),
      );
    },
  );

  it.each(["(a+)+b", "(a|aa)+$b", "(a*)*b", "(.*)(.*)(.*)(.*)b$", "(a?){20}a{20}b", "(x+x+)+y"])(
    "%s does not block the event loop with a hostile text",
    async (text) => {
      const pattern = new OutputPattern(text);
      let longestMs = 0;
      let lastMs = performance.now();
      const ticker = setInterval(() => {
        longestMs = Math.max(longestMs, performance.now() - lastMs);
        lastMs = performance.now();
      }, 1);
      const searching = pattern.find(chunk("a".repeat(65_536)));
      expect(await searching).toBeUndefined();
      clearInterval(ticker);
      // A backtracking engine would practically never finish.
      expect(longestMs).toBeLessThan(1000);
    },
  );

  it.each([1, 10])(
    "does not block other work while %i wait for it in short lines",
    async (clients) => {
      let longestMs = 0;
      const startedMs = performance.now();
      let lastMs = startedMs;
      const ticker = setInterval(() => {
        longestMs = Math.max(longestMs, performance.now() - lastMs);
        lastMs = performance.now();
      }, 1);
      const lines = chunk("abcdefghijklmnop\n".repeat(400_000 / clients));
      const waiting = Array.from({ length: clients }, () => new OutputPattern("(a|b|c)+z"));
      const found = await Promise.all(waiting.map((pattern) => pattern.find(lines)));
      clearInterval(ticker);
      longestMs = Math.max(longestMs, performance.now() - lastMs);
      expect(found.every((match) => match === undefined)).toBe(true);
      // Without turns, it is one block of work.
      expect(longestMs).toBeLessThan((performance.now() - startedMs) / 4);
    },
  );
});
