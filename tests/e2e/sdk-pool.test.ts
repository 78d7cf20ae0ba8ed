/** Pooled sandboxes on a real daemon: which sessions get one, what it is like, and what is left. */
import { readdir, readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { SandboxClient } from "@sandkasten/sdk";
import type { Session } from "@sandkasten/sdk";
import { afterAll, beforeAll, expect, it } from "vitest";
import { daemonTraces, expectTraces } from "../support/oracles/daemon-traces.ts";
import { TestDaemon } from "../support/test-daemon.ts";

const SIZE = 2;

let daemon: TestDaemon;
let client: SandboxClient;
beforeAll(async () => {
  // A daemon without a configured pool.
  daemon = await TestDaemon.start({ settings: { POOL: undefined } });
  client = new SandboxClient({ baseUrl: daemon.url, apiKey: daemon.apiKey });
});
afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
});

/** The daemon's pool size. */
async function pooled(): Promise<number> {
  const text = await (await daemon.fetch("/v1/metrics")).text();
  return Number(/^sandkasten_pooled_sandboxes (\d+)$/mu.exec(text)?.[1]);
}

async function untilFull(): Promise<void> {
  await expect.poll(pooled, { interval: 50 }).toBe(SIZE);
}

const sourceOf = ({ acquireSource }: Session): string => acquireSource;

it("a session gets a ready sandbox, as clean as a new one, and no other session gets it again", async () => {
  await untilFull();
  const first = await client.createSession();
  expect(sourceOf(first)).toBe("pool");
  expect(await first.exec("ls -A /workspace /tmp; pwd; id -u")).toMatchObject({
    exitCode: 0,
    output: "/tmp:\n\n/workspace:\n/workspace\n1000\n",
  });
  await first.exec("touch /workspace/mine /tmp/mine; sleep 3987 & MINE=yes");
  await first.destroy();
  for (let turn = 0; turn < 3; turn++) {
    await untilFull();
    const next = await client.createSession();
    expect(sourceOf(next)).toBe("pool");
    expect(
      await next.exec("ls -A /workspace; echo [$MINE]; cat /proc/*/cmdline | grep -c '[3]987'"),
    ).toMatchObject({ output: "[]\n0\n" });
    await next.destroy();
  }
});

it("a request with special options, or with an empty pool, gets a new sandbox", async () => {
  await untilFull();
  const special = await client.createSession({ env: { NAME: "value" } });
  expect(sourceOf(special)).toBe("cold");
  expect(await special.exec("echo $NAME")).toMatchObject({ output: "value\n" });
  const many = await Promise.all(Array.from({ length: SIZE + 2 }, () => client.createSession()));
  const sources = many.map(sourceOf);
  expect(sources.filter((source) => source === "pool").length).toBeGreaterThanOrEqual(SIZE);
  expect(new Set(sources).difference(new Set(["pool", "cold"]))).toEqual(new Set());
  const said = await Promise.all(many.map((session, n) => session.exec(`echo ${n}`)));
  expect(said.map(({ output }) => output)).toEqual(many.map((_, n) => `${n}\n`));
  for (const session of [special, ...many]) await session.destroy();
});

it("the machine names a sandbox by its session's id, cold or from the pool", async () => {
  await untilFull();
  const sessions = [await client.createSession(), await client.createSession({ env: { A: "1" } })];
  expect(sessions.map(sourceOf)).toEqual(["pool", "cold"]);
  const directory = join(daemon.dataDir, "sandboxes");
  for (const { id } of sessions) {
    const notes = await readFile(join(directory, id, "sandbox.json"), "utf8");
    const { cgroups } = JSON.parse(notes) as { cgroups: Readonly<Record<string, string>> };
    expect(Object.keys(cgroups)).not.toEqual([]);
    expect(new Set(Object.values(cgroups).map((path) => basename(path)))).toEqual(new Set([id]));
  }
  const ids = sessions.map(({ id }) => id);
  for (const session of sessions) await session.destroy();
  expect((await readdir(directory)).filter((name) => ids.includes(name))).toEqual([]);
});

it("a stop destroys unused sandboxes, and a start creates new ones", async () => {
  await untilFull();
  const session = await client.createSession();
  expect(await daemon.kill("SIGTERM")).toBe(0);
  const withOne = await daemonTraces(daemon);
  await daemon.run();
  await untilFull();
  const after = new SandboxClient({ baseUrl: daemon.url, apiKey: daemon.apiKey });
  // The pooled sandbox that was used belongs to the session, and continues.
  expect(await (await after.getSession(session.id)).exec("echo on")).toMatchObject({
    output: "on\n",
  });
  await daemon.kill("SIGTERM");
  await expectTraces(daemon, withOne);
});
