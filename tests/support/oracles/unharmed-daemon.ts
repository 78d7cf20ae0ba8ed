/** Oracle U: an attack fails nothing in the daemon, delays no other client, and leaves nothing open. */
import { readdir, readFile, readlink } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { TestDaemon } from "../test-daemon.ts";

/** How long another client's request may take; on a slow machine, this much longer than before. */
const MAX_ANSWER_MS = 1_000;
const MAX_SLOWDOWN = 20;
const PAUSE_MS = 10;
const SETTLE_MS = 10_000;
/** The oracle's own connection may be kept alive or not. */
const OWN_CONNECTIONS = 1;

export class UnharmedDaemon {
  readonly #daemon: TestDaemon;
  readonly #baselineMs: number;
  readonly #descriptors: number;
  readonly #logged: number;
  readonly #watching: Promise<void>;
  #slowestMs = 0;
  #isAttacked = true;

  private constructor(daemon: TestDaemon, baselineMs: number, before: number) {
    this.#daemon = daemon;
    this.#baselineMs = baselineMs;
    this.#descriptors = before;
    this.#logged = daemon.log.length;
    this.#watching = this.#watch();
    this.#watching.catch(() => undefined);
  }

  /** Call before the attack. */
  static async watch(daemon: TestDaemon): Promise<UnharmedDaemon> {
    await healthMs(daemon);
    const baselineMs = Math.max(await healthMs(daemon), await healthMs(daemon));
    return new UnharmedDaemon(daemon, baselineMs, await descriptors(daemon));
  }

  /** Call after the attack; throws if it did harm. */
  async check(): Promise<void> {
    this.#isAttacked = false;
    await this.#watching;
    if (this.#slowestMs > Math.max(MAX_ANSWER_MS, MAX_SLOWDOWN * this.#baselineMs))
      throw new Error(
        `another client waited ${this.#slowestMs} ms, ${this.#baselineMs} ms before the attack`,
      );
    const failures = this.#daemon.log.slice(this.#logged).match(/.*"level":(?:50|60).*/g);
    if (failures !== null) throw new Error(`the daemon failed inside:\n${failures.join("\n")}`);
    const deadline = performance.now() + SETTLE_MS;
    for (;;) {
      const open = (await descriptors(this.#daemon)) - this.#descriptors;
      if (open <= OWN_CONNECTIONS) return;
      if (performance.now() > deadline)
        throw new Error(`${open} more descriptors are open than before the attack`);
      await sleep(PAUSE_MS);
    }
  }

  async #watch(): Promise<void> {
    while (this.#isAttacked) {
      this.#slowestMs = Math.max(this.#slowestMs, await healthMs(this.#daemon));
      await sleep(PAUSE_MS);
    }
  }
}

async function healthMs({ url }: TestDaemon): Promise<number> {
  const start = performance.now();
  const { status } = await fetch(`${url}/healthz`);
  if (status !== 200) throw new Error(`/healthz answered ${status}`);
  return performance.now() - start;
}

/** What a runner opens ahead of the next command, and keeps from the last one. */
const KEPT_BY_RUNNERS = /^\/run\/sandkasten\/|\/cgroup\.procs$/u;

/** How many the daemon and its runners have open because of requests. */
async function descriptors({ dataDir, pid }: TestDaemon): Promise<number> {
  const sandboxes = join(dataDir, "sandboxes");
  const pids = (await readdir(sandboxes)).map(async (id) => {
    const notes = await readFile(join(sandboxes, id, "sandbox.json"), "utf8");
    return (JSON.parse(notes) as { readonly pid: number }).pid;
  });
  const open = [pid, ...(await Promise.all(pids))].map(async (each) => {
    const directory = `/proc/${each}/fd`;
    // One that was closed meanwhile has no target any more.
    const targets = (await readdir(directory)).map(
      async (fd) => await readlink(join(directory, fd)).catch(() => undefined),
    );
    return await Promise.all(targets);
  });
  return (await Promise.all(open))
    .flat()
    .filter((target) => target !== undefined && !KEPT_BY_RUNNERS.test(target)).length;
}
