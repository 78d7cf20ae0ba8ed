/** The stats of a sandbox that cannot respond. */
import { SandboxError } from "@sandkasten/protocol";
import { expect, test } from "vitest";
import type { Channel } from "../../ports/channel.ts";
import type { AskSandbox } from "../container/container-driver.ts";
import type { Engine } from "./engine.ts";
import { type DockerContainer, SandboxUsage } from "./sandbox-usage.ts";

const usage = { memoryBytes: 1, memoryLimitBytes: 2, cpuMicros: 3, pids: 100, pidsLimit: 100 };
const engine = {
  usage: () => Promise.resolve(usage),
  countMemoryKills: () => Promise.resolve(0),
} as unknown as Engine;
const container = {
  handle: { id: "sbx_1" },
  outOfMemory: false,
  notes: { profile: "restricted", limits: { diskBytes: 1_000 }, createdAtMs: 0 },
} as unknown as DockerContainer;

function channelThat(exec: () => Promise<unknown>): Channel {
  return { exec, forgetExec: () => Promise.resolve() } as unknown as Channel;
}

async function* counted(): AsyncGenerator<object> {
  yield await Promise.resolve({ stream: "stdout", bytes: Buffer.from("345\n") });
}

const askBy =
  (channel: Channel): AskSandbox =>
  (question) =>
    question(channel);

test("a sandbox without a free process keeps the size that was measured before", async () => {
  const of = new SandboxUsage(engine);
  const asked = Object.assign(counted(), { detach: () => undefined });
  const before = await of.of(container, askBy(channelThat(() => Promise.resolve(asked))), "p1");
  expect(before).toMatchObject({ pids: 100, diskBytes: 345 });
  const full = new SandboxError("SANDBOX_UNREACHABLE", "no process can be started");
  const later = await of.of(container, askBy(channelThat(() => Promise.reject(full))), "p2");
  expect(later).toMatchObject({ pids: 100, diskBytes: 345 });
});

test("our own mistake does not count as a busy sandbox", async () => {
  const broken = askBy(channelThat(() => Promise.reject(new TypeError("a mistake"))));
  await expect(new SandboxUsage(engine).of(container, broken, "p1")).rejects.toThrow("a mistake");
});
