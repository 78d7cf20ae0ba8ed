import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Backend } from "../ports/backend.ts";
import type { Channel, OutputChunk } from "../ports/channel.ts";
import type { JournalPage } from "../ports/exec-journal.ts";
import type { OutputPage } from "./services/exec-service.ts";
import { ALICE, CoreFixture, overriding } from "./testing/core-fixture.ts";

let fixture: CoreFixture;
let id: string;
beforeEach(async () => {
  fixture = await CoreFixture.start();
  id = (await fixture.core.sessions.create(ALICE, {})).session.id;
});
afterEach(async () => {
  await fixture[Symbol.asyncDispose]();
});

const LATE = "echo own; sleep 0.1 && echo late &";
/** Holds its output open forever, after printing. */
const SERVICE = "echo up && sleep 100 &";

const textOf = (pages: readonly JournalPage[]): string =>
  Buffer.concat(pages.flatMap(({ chunks }) => chunks.map(({ bytes }) => bytes))).toString("utf8");

async function read(execId: string, offset: number, waitMs?: number): Promise<OutputPage> {
  const options = { offset, maxBytes: 1000, ...(waitMs !== undefined && { waitMs }) };
  return await (await fixture.core.execs.get(ALICE, id, execId)).read(options);
}

/** Reads until a page says that nothing more can arrive. */
async function readToClose(execId: string): Promise<string> {
  const pages: JournalPage[] = [];
  for (let offset = 0; ;) {
    const { page, closed } = await read(execId, offset, 10_000);
    pages.push(page);
    if (closed) return textOf(pages);
    offset = page.nextOffset;
  }
}

async function follow(execId: string, until: "done" | "closed"): Promise<string> {
  const pages = await Array.fromAsync(
    (await fixture.core.execs.get(ALICE, id, execId)).follow({ offset: 0, until }),
  );
  return textOf(pages);
}

async function collected(execId: string): Promise<string> {
  const { output } = await (await fixture.core.execs.get(ALICE, id, execId)).collect();
  return Buffer.from(output).toString();
}

describe("output after a command's end", () => {
  it("is read by cursor from the beginning, until nothing more can arrive", async () => {
    const ran = await fixture.run(id, LATE);
    expect(ran).toMatchObject({
      status: "done",
      stdoutBytes: 4,
      background: true,
      output: "own\n",
    });
    expect(await readToClose(ran.id)).toBe("own\nlate\n");
    expect((await fixture.core.execs.get(ALICE, id, ran.id)).row).toMatchObject({
      stdoutBytes: 4,
      background: false,
      backgroundBytes: 5,
    });
  });

  it("does not delay clients that read until the command is done", async () => {
    const ran = await fixture.run(id, SERVICE);
    const page = await read(ran.id, 0, 10_000);
    expect(page).toMatchObject({ done: true, closed: false, exec: { background: true } });
    expect(textOf([page.page])).toBe("up\n");
    const next = await read(ran.id, page.page.nextOffset);
    expect(next).toMatchObject({ done: true, closed: false, page: { chunks: [] } });
  });

  it("is recorded without a reader, for clients that wait or follow later", async () => {
    const ran = await fixture.run(id, LATE);
    await expect.poll(() => collected(ran.id)).toBe("own\nlate\n");
    expect(await follow(ran.id, "done")).toBe("own\nlate\n");
    const waited = await (await fixture.core.execs.get(ALICE, id, ran.id)).wait();
    expect(waited).toMatchObject({ exitCode: 0, background: false, backgroundBytes: 5 });
  });

  it("is followed until its last writer has ended, whenever the following started", async () => {
    const { execs } = fixture.core;
    const started = await execs.start(ALICE, id, { command: { kind: "shell", text: LATE } });
    const beside = follow(started.id, "closed");
    await started.wait();
    expect(await Promise.all([beside, follow(started.id, "closed")])).toEqual([
      "own\nlate\n",
      "own\nlate\n",
    ]);
  });

  it("is followed until the session ends", async () => {
    const ran = await fixture.run(id, SERVICE);
    const following = follow(ran.id, "closed");
    await read(ran.id, 0, 10_000);
    await fixture.core.sessions.destroy(ALICE, id);
    expect(await following).toBe("up\n");
    expect((await fixture.core.execs.get(ALICE, id, ran.id)).row).toMatchObject({
      background: false,
    });
  });

  it("counts as use of the session while it is followed", async () => {
    const { execs, reaper, sessions } = fixture.core;
    const ran = await fixture.run(id, SERVICE);
    const gone = new AbortController();
    const pages = (await execs.get(ALICE, id, ran.id))
      .follow({ offset: 0, until: "closed", signal: gone.signal })
      [Symbol.asyncIterator]();
    await pages.next();
    const waiting = pages.next().catch(() => undefined);
    fixture.clock.pass(30_000);
    const leaseMs = async () => (await sessions.get(ALICE, id)).expiresAtMs - fixture.clock.wallMs;
    await expect.poll(leaseMs).toBe(60_000);
    fixture.clock.pass(60_001);
    await reaper.tick();
    expect((await sessions.get(ALICE, id)).status).toBe("running");
    gone.abort();
    await waiting;
    fixture.clock.pass(60_001);
    await reaper.tick();
    expect((await sessions.get(ALICE, id)).status).toBe("expired");
  });

  it("is found again by the next daemon", async () => {
    const ran = await fixture.run(id, "echo own; sleep 0.3 && echo late &");
    await fixture.restart();
    expect((await fixture.core.execs.get(ALICE, id, ran.id)).row).toMatchObject({
      background: true,
    });
    expect(await readToClose(ran.id)).toBe("own\nlate\n");
    await fixture.restart();
    expect((await fixture.core.execs.get(ALICE, id, ran.id)).row).toMatchObject({
      background: false,
      backgroundBytes: 5,
    });
    expect(await collected(ran.id)).toBe("own\nlate\n");
  });

  it("is available for more commands than are recorded at a time", async () => {
    const ran = [];
    for (let count = 0; count < 20; count++)
      ran.push(await fixture.run(id, `echo ${count}; sleep 0.5 && echo late-${count} &`));
    const texts = await Promise.all(ran.map((exec) => readToClose(exec.id)));
    expect(texts).toEqual(ran.map((_, count) => `${count}\nlate-${count}\n`));
  });

  it("does not make a command without background processes wait for the sandbox", async () => {
    const ran = await fixture.run(id, "echo own");
    const page = await read(ran.id, 4);
    expect(page).toMatchObject({ done: true, closed: true });
    expect(fixture.machine.sandboxes.has(id)).toBe(true);
  });

  it("of a flood is recorded at a pace that does not block the daemon", async () => {
    const chunkBytes = 65_536;
    const left = new AbortController();
    let taken = 0;
    async function* flood(): AsyncGenerator<OutputChunk> {
      for (let seq = 0; !left.signal.aborted; seq++) {
        taken += chunkBytes;
        const bytes = Buffer.alloc(chunkBytes, "x");
        yield { stream: "stdout", seq, offset: seq * chunkBytes, bytes };
        await new Promise((resolve) => setImmediate(resolve));
      }
    }
    const wrap = (backend: Backend): Backend =>
      overriding(backend, {
        open: async (sandbox) => {
          const inner = await backend.open(sandbox);
          const attach: Channel["attach"] = async (...args) => {
            const stream = await inner.attach(...args);
            const detach = (): void => {
              left.abort();
              stream.detach();
            };
            return overriding(stream, { [Symbol.asyncIterator]: flood, detach });
          };
          return overriding(inner, { attach });
        },
      });
    await fixture.restart("keep", { wrap });
    const startedMs = performance.now();
    const ran = await fixture.run(id, "sleep 100 &");
    await expect.poll(() => taken).toBeGreaterThan(2 * 1_048_576);
    const seconds = (performance.now() - startedMs) / 1000;
    expect(taken / seconds).toBeLessThan(2.5 * 1_048_576);
    expect((await fixture.core.execs.get(ALICE, id, ran.id)).row).toMatchObject({
      background: true,
    });
  });
});

describe("one stream of the output", () => {
  const BOTH = "echo 1; cat /missing; echo 2; cat /missing; echo 3";

  it("is read and followed without the other", async () => {
    const ran = await fixture.run(id, BOTH);
    const { execs } = fixture.core;
    for (const [stream, expected] of [
      ["stdout", "1\n2\n3\n"],
      ["stderr", "cat: /missing: No such file or directory\n".repeat(2)],
    ] as const) {
      const page = await (
        await execs.get(ALICE, id, ran.id)
      ).read({ offset: 0, maxBytes: 1000, stream });
      expect(textOf([page.page])).toBe(expected);
      expect(page).toMatchObject({ done: true, closed: true });
      expect(page.page.nextOffset).toBe(ran.stdoutBytes + ran.stderrBytes);
      const pages = await Array.fromAsync(
        (await execs.get(ALICE, id, ran.id)).follow({ offset: 0, stream }),
      );
      expect(textOf(pages)).toBe(expected);
    }
  });

  it("can be waited for while only the other one arrives", async () => {
    const { execs } = fixture.core;
    const command = { kind: "shell", text: "cat /missing; sleep 0.1; echo late" } as const;
    const { id: execId } = await execs.start(ALICE, id, { command });
    const { page } = await (
      await execs.get(ALICE, id, execId)
    ).read({
      offset: 0,
      maxBytes: 10,
      stream: "stdout",
      waitMs: 10_000,
    });
    expect(textOf([page])).toBe("late\n");
  });
});
