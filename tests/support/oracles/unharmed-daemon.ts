/** Oracle U: an attack fails nothing in the daemon, delays no other client, and leaves nothing open. */
import { readdir, readFile, readlink } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { TestDaemon } from "../test-daemon.ts";
import { BlockedTime } from "./blocked-time.ts";

/** How long the daemon may be busy with other work before it responds to another client. */
const MAX_BUSY_MS = 100;
/** How long it may stand still meanwhile: on the disk, a lock, or a child. */
const MAX_BLOCKED_MS = 250;
/** How long that client may wait in all, which also depends on the load of the machine. */
const MAX_ANSWER_MS = 30_000;
const PAUSE_MS = 10;
const SETTLE_MS = 10_000;
/** The oracle's own connection may be kept alive or not. */
const OWN_CONNECTIONS = 1;

export class UnharmedDaemon {
  readonly #daemon: TestDaemon;
  readonly #descriptors: number;
  readonly #logged: number;
  readonly #watching: Promise<void>;
  readonly #blocked: BlockedTime;
  #longest: Wait = { answerMs: 0, busyMs: 0, blockedMs: 0 };
  #isAttacked = true;

  private constructor(daemon: TestDaemon, before: number, blocked: BlockedTime) {
    this.#daemon = daemon;
    this.#descriptors = before;
    this.#logged = daemon.log.length;
    this.#blocked = blocked;
    this.#watching = this.#watch();
    this.#watching.catch(() => undefined);
  }

  /** Call before the attack. */
  static async watch(daemon: TestDaemon): Promise<UnharmedDaemon> {
    await answered(daemon);
    const blocked = await BlockedTime.watch(daemon.pid);
    return new UnharmedDaemon(daemon, await descriptors(daemon), blocked);
  }

  /** Call after the attack; throws if it did harm. */
  async check(): Promise<void> {
    this.#isAttacked = false;
    await using _ = this.#blocked;
    await this.#watching;
    const { answerMs, busyMs, blockedMs } = this.#longest;
    if (busyMs > MAX_BUSY_MS || blockedMs > MAX_BLOCKED_MS || answerMs > MAX_ANSWER_MS)
      throw new Error(
        `another client waited up to ${answerMs} ms, for ${busyMs} ms of the daemon's processor ` +
          `time, and for ${blockedMs} ms in which the daemon was blocked`,
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
      const { answerMs, busyMs, blockedMs } = await this.#waitForAnswer();
      this.#longest = {
        answerMs: Math.max(this.#longest.answerMs, answerMs),
        busyMs: Math.max(this.#longest.busyMs, busyMs),
        blockedMs: Math.max(this.#longest.blockedMs, blockedMs),
      };
      await sleep(PAUSE_MS);
    }
  }

  async #waitForAnswer(): Promise<Wait> {
    const { pid } = this.#daemon;
    const [start, busy] = [performance.now(), await mainThreadMs(pid)];
    const blocked = this.#blocked.ms;
    await answered(this.#daemon);
    return {
      answerMs: performance.now() - start,
      busyMs: (await mainThreadMs(pid)) - busy,
      blockedMs: this.#blocked.ms - blocked,
    };
  }
}

interface Wait {
  readonly answerMs: number;
  /** Processor time of the daemon's main thread meanwhile. */
  readonly busyMs: number;
  /** How long that thread slept outside its event loop meanwhile. */
  readonly blockedMs: number;
}

async function answered({ url }: TestDaemon): Promise<void> {
  const { status } = await fetch(`${url}/healthz`);
  if (status !== 200) throw new Error(`/healthz answered ${status}`);
}

async function mainThreadMs(pid: number): Promise<number> {
  const [nanoseconds] = (await readFile(`/proc/${pid}/task/${pid}/schedstat`, "utf8")).split(" ");
  return Number(nanoseconds) / 1e6;
}

/** What a runner opens ahead of the next command, and keeps from the last one. */
const KEPT_BY_RUNNERS = /^\/run\/sandkasten\/|\/cgroup\.procs$/u;

/** How many descriptors the daemon and its runners have open because of requests. */
async function descriptors({ dataDir, pid }: TestDaemon): Promise<number> {
  const sandboxes = join(dataDir, "sandboxes");
  const pids = (await readdir(sandboxes)).map(async (id) => {
    const notes = await readFile(join(sandboxes, id, "sandbox.json"), "utf8");
    return (JSON.parse(notes) as { readonly pid: number }).pid;
  });
  const open = [pid, ...(await Promise.all(pids))].map(async (each) => {
    const directory = `/proc/${each}/fd`;
    // A descriptor closed meanwhile has no target any more.
    const targets = (await readdir(directory)).map(
      async (fd) => await readlink(join(directory, fd)).catch(() => undefined),
    );
    return await Promise.all(targets);
  });
  return (await Promise.all(open))
    .flat()
    .filter((target) => target !== undefined && !KEPT_BY_RUNNERS.test(target)).length;
}
