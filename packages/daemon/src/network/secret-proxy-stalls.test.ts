/** Programs and hosts that cost the gateway as much as they can must not stall what else it does. */
import { afterEach, beforeAll, expect, it } from "vitest";
import { worstTurnMs } from "../testing/worst-turn.ts";
import { ask, closeAll, HOST, makeAuthorities, open, say } from "./testing/secret-site.ts";

const MAX_STALL_MS = 100;
const GET = `GET / HTTP/1.1\r\nHost: ${HOST}\r\n\r\n`;
const LAST = `GET / HTTP/1.1\r\nHost: ${HOST}\r\nConnection: close\r\n\r\n`;

beforeAll(makeAuthorities);
afterEach(closeAll);

it("does not stall when many connections are opened at once", async () => {
  const site = await open();
  await ask(site);
  const answers = Promise.all(Array.from({ length: 100 }, () => ask(site)));
  expect(await worstTurnMs(answers)).toBeLessThan(MAX_STALL_MS);
});

it("answers requests that come ahead, and disconnects a program that sends too many", async () => {
  const prompt = await open();
  expect((await say(prompt, GET.repeat(30) + LAST)).match(/HTTP\/1\.1 200/g)).toHaveLength(31);
  const silent = await open({ answer: () => undefined });
  expect(await say(silent, GET.repeat(1_000))).toBe("");
});
