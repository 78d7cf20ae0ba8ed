import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { SandboxError } from "@sandkasten/protocol";
import type { Backend } from "../ports/backend.ts";
import type { Channel } from "../ports/channel.ts";
import type { JournalPage } from "../ports/exec-journal.ts";
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

const code = (expected: string) => expect.objectContaining({ code: expected });
const shell = (text: string) => ({ kind: "shell", text }) as const;
const textOf = (pages: readonly JournalPage[]): string =>
  Buffer.concat(pages.flatMap(({ chunks }) => chunks.map(({ bytes }) => bytes))).toString("utf8");

async function all(pages: AsyncIterable<JournalPage>): Promise<readonly JournalPage[]> {
  const found: JournalPage[] = [];
  for await (const page of pages) found.push(page);
  return found;
}

describe("start()", () => {
  it("runs commands of the shell one after the other, in order", async () => {
    const { execs } = fixture.core;
    const started = [];
    for (const text of ["cd /tmp", "export X=1", "echo $X > seen", "pwd"])
      started.push(await execs.start(ALICE, id, { command: shell(text) }));
    const ended = await Promise.all(started.map((exec) => execs.wait(ALICE, id, exec.id)));
    expect(ended.map(({ exitCode }) => exitCode)).toEqual([0, 0, 0, 0]);
    const { output } = await execs.collect(ALICE, id, started[3]?.id ?? "");
    expect(Buffer.from(output).toString()).toBe("/tmp\n");
    expect((await fixture.core.sessions.get(ALICE, id)).cwd).toBe("/tmp");
  });

  it("runs processes beside a busy shell", async () => {
    const { execs } = fixture.core;
    const busy = await execs.start(ALICE, id, { command: shell("sleep 100") });
    const beside = await execs.start(ALICE, id, {
      command: { kind: "process", argv: ["echo", "beside"] },
    });
    expect(await execs.wait(ALICE, id, beside.id)).toMatchObject({ exitCode: 0 });
    expect((await execs.get(ALICE, id, busy.id)).status).toBe("running");
    await execs.signal(ALICE, id, busy.id, 9, { tree: true });
    expect(await execs.wait(ALICE, id, busy.id)).toMatchObject({ status: "done" });
  });

  it("runs a repeated request once, and refuses its key for another command", async () => {
    const { execs } = fixture.core;
    const options = { command: shell("echo once >> log"), idempotencyKey: "k" };
    const [first, again] = await Promise.all([
      execs.start(ALICE, id, options),
      execs.start(ALICE, id, options),
    ]);
    expect(again.id).toBe(first.id);
    await execs.wait(ALICE, id, first.id);
    expect((await execs.start(ALICE, id, options)).id).toBe(first.id);
    expect(await fixture.run(id, "cat log")).toMatchObject({ output: "once\n" });
    await expect(
      execs.start(ALICE, id, { command: shell("echo twice"), idempotencyKey: "k" }),
    ).rejects.toThrow(code("CONFLICT"));
  });

  it("answers a repeated request with its command also when the quota is used up", async () => {
    const { execs } = fixture.core;
    const caller = { ...ALICE, maxRunningExecs: 1 };
    const options = { command: shell("sleep 100"), idempotencyKey: "k" };
    const first = await execs.start(caller, id, options);
    expect((await execs.start(caller, id, options)).id).toBe(first.id);
  });

  it("keeps the session in use by a command after a request with a used key was refused", async () => {
    const { execs, reaper, sessions } = fixture.core;
    await execs.start(ALICE, id, { command: shell("true"), idempotencyKey: "k" });
    const other = { command: shell("false"), idempotencyKey: "k" };
    await expect(execs.start(ALICE, id, other)).rejects.toThrow(code("CONFLICT"));
    await execs.start(ALICE, id, { command: shell("sleep 100") });
    fixture.clock.pass(60_001);
    await reaper.tick();
    expect((await sessions.get(ALICE, id)).status).toBe("running");
  });

  it("lets no number of requests at once get past the quota", async () => {
    const caller = { ...ALICE, maxRunningExecs: 2 };
    const tries = await Promise.allSettled(
      Array.from({ length: 5 }, () =>
        fixture.core.execs.start(caller, id, { command: shell("sleep 100") }),
      ),
    );
    expect(
      tries.map(({ status }) => status).filter((status) => status === "fulfilled"),
    ).toHaveLength(2);
    expect(tries[4]).toMatchObject({ reason: { code: "QUOTA_EXCEEDED" } });
  });

  it("refuses commands that are too long or contain a NUL", async () => {
    const start = (text: string) => fixture.core.execs.start(ALICE, id, { command: shell(text) });
    await expect(start("x".repeat(2 ** 20 + 1))).rejects.toThrow(code("PAYLOAD_TOO_LARGE"));
    await expect(start("echo \0")).rejects.toThrow(code("INVALID_REQUEST"));
    expect((await fixture.core.execs.list(ALICE, id, {})).rows).toEqual([]);
  });

  it("gives a command its input", async () => {
    const { execs } = fixture.core;
    const command = { kind: "process", argv: ["cat"] } as const;
    const exec = await execs.start(ALICE, id, { command, stdin: Buffer.from("all of it") });
    await execs.wait(ALICE, id, exec.id);
    expect(Buffer.from((await execs.collect(ALICE, id, exec.id)).output).toString()).toBe(
      "all of it",
    );
  });

  it("says why the sandbox refused a command, to whoever waits for it", async () => {
    let refuse = true;
    const exec: Channel["exec"] = (...args) =>
      refuse
        ? Promise.reject(new SandboxError("NO_SHELL", "there is no shell"))
        : inner.exec(...args);
    let inner: Channel;
    const wrap = (backend: Backend): Backend =>
      overriding(backend, {
        open: async (sandbox) => {
          inner = await backend.open(sandbox);
          return overriding(inner, { exec });
        },
      });
    await fixture.restart("keep", { wrap });
    const { execs } = fixture.core;
    const refused = await execs.start(ALICE, id, { command: shell("true") });
    await expect(execs.wait(ALICE, id, refused.id)).rejects.toThrow(code("NO_SHELL"));
    refuse = false;
    expect(await execs.get(ALICE, id, refused.id)).toMatchObject({
      status: "done",
      endReason: "unknown",
    });
    expect(await fixture.run(id, "echo next")).toMatchObject({ output: "next\n" });
  });

  it("cuts the time asked for to the longest allowed", async () => {
    await fixture[Symbol.asyncDispose]();
    fixture = await CoreFixture.start({ settings: { maxExecTimeoutMs: 50 } });
    id = (await fixture.core.sessions.create(ALICE, {})).session.id;
    for (const timeoutMs of [0, 100_000])
      expect(await fixture.run(id, "sleep 100", { timeoutMs })).toMatchObject({
        endReason: "timeout",
      });
  });

  it("takes a waiting command out of the line when it is signalled", async () => {
    const { execs } = fixture.core;
    const busy = await execs.start(ALICE, id, { command: shell("sleep 100") });
    const waiting = await execs.start(ALICE, id, { command: shell("echo never") });
    expect(await execs.signal(ALICE, id, waiting.id, 15)).toBe(1);
    expect(await execs.wait(ALICE, id, waiting.id)).toMatchObject({ endReason: "killed" });
    await execs.signal(ALICE, id, busy.id, 9, { tree: true });
    expect(await fixture.run(id, "echo next")).toMatchObject({ output: "next\n" });
  });
});

describe("output", () => {
  it("can be read by cursor, before the end and after the sandbox is gone", async () => {
    const { execs, sessions } = fixture.core;
    const command = { kind: "process", argv: ["cat"] } as const;
    const exec = await execs.start(ALICE, id, { command, stdin: "open" });
    await execs.writeStdin(ALICE, id, exec.id, Buffer.from("first "));
    const early = await execs.read(ALICE, id, exec.id, {
      offset: 0,
      maxBytes: 100,
      waitMs: 10_000,
    });
    expect(textOf([early.page])).toBe("first ");
    expect(early.done).toBe(false);
    await execs.writeStdin(ALICE, id, exec.id, Buffer.from("second"));
    await execs.closeStdin(ALICE, id, exec.id);
    await execs.wait(ALICE, id, exec.id);
    await sessions.destroy(ALICE, id);
    await fixture.crash();
    const late = await fixture.core.execs.read(ALICE, id, exec.id, { offset: 6, maxBytes: 100 });
    expect(textOf([late.page])).toBe("second");
    expect(late.done).toBe(true);
    const { output } = await fixture.core.execs.collect(ALICE, id, exec.id);
    expect(Buffer.from(output).toString()).toBe("first second");
  });

  it("is followed as it comes, to the end", async () => {
    const { execs } = fixture.core;
    const command = { kind: "process", argv: ["cat"] } as const;
    const exec = await execs.start(ALICE, id, { command, stdin: "open" });
    const seen: string[] = [];
    const following = (async () => {
      for await (const page of execs.follow(ALICE, id, exec.id, 0)) {
        seen.push(textOf([page]));
        if (seen.length === 1) await execs.writeStdin(ALICE, id, exec.id, Buffer.from("two"));
        else await execs.closeStdin(ALICE, id, exec.id);
      }
    })();
    await execs.writeStdin(ALICE, id, exec.id, Buffer.from("one"));
    await following;
    expect(seen).toEqual(["one", "two"]);
  });

  it("of a flood keeps head and tail for the answer and tells what was dropped", async () => {
    const { execs, sessions } = fixture.core;
    using visit = await sessions.enter(ALICE, id);
    await visit.channel.writeFile("big", Buffer.alloc(6 * 1024 * 1024, "x"));
    const ran = await fixture.run(id, "cat big");
    expect(ran).toMatchObject({ exitCode: 0, stdoutBytes: 6 * 1024 * 1024 });
    expect(ran.droppedBytes).toBeGreaterThan(0);
    expect(ran.output.length).toBeLessThan(66_000);
    const skipped = (await all(execs.follow(ALICE, id, ran.id, 0)))
      .map(({ skippedBytes }) => skippedBytes)
      .reduce((sum, bytes) => sum + bytes, 0);
    expect(skipped).toBe(ran.droppedBytes);
  });

  it("of a flood is complete for whoever follows, however slowly", async () => {
    const { execs, sessions } = fixture.core;
    using visit = await sessions.enter(ALICE, id);
    await visit.channel.writeFile("big", Buffer.alloc(6 * 1024 * 1024, "x"));
    const exec = await execs.start(ALICE, id, { command: shell("cat big") });
    let bytes = 0;
    for await (const page of execs.follow(ALICE, id, exec.id, 0)) {
      expect(page.skippedBytes).toBe(0);
      bytes += page.chunks.reduce((sum, chunk) => sum + chunk.bytes.length, 0);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    expect(bytes).toBe(6 * 1024 * 1024);
  });

  it("stops being followed when the caller goes", async () => {
    const { execs } = fixture.core;
    const exec = await execs.start(ALICE, id, { command: shell("sleep 100") });
    const gone = new AbortController();
    const following = all(execs.follow(ALICE, id, exec.id, 0, gone.signal));
    const waiting = execs.wait(ALICE, id, exec.id, 60_000, gone.signal);
    gone.abort();
    const cancelled = { status: "rejected", reason: code("CANCELLED") };
    expect(await Promise.allSettled([following, waiting])).toEqual([cancelled, cancelled]);
    expect((await execs.get(ALICE, id, exec.id)).status).toBe("running");
  });

  it("that comes after the end, from the background, can be read too", async () => {
    const ran = await fixture.run(id, "sleep 0.1 && echo late &");
    const read = (waitMs: number) =>
      fixture.core.execs.read(ALICE, id, ran.id, {
        offset: ran.stdoutBytes + ran.stderrBytes,
        maxBytes: 100,
        waitMs,
      });
    expect(textOf([(await read(10_000)).page])).toBe("late\n");
  });

  it("of an unknown command is not found", async () => {
    const { execs } = fixture.core;
    await expect(execs.get(ALICE, id, "exe_nothing")).rejects.toThrow(code("EXEC_NOT_FOUND"));
    await expect(execs.wait(ALICE, id, "exe_nothing")).rejects.toThrow(code("EXEC_NOT_FOUND"));
  });
});

describe("a terminal", () => {
  it("keeps its session while somebody sits at it, and not for ever afterwards", async () => {
    const { execs, reaper, sessions } = fixture.core;
    const command = { kind: "process", argv: ["cat"], pty: { rows: 24, cols: 80 } } as const;
    const exec = await execs.start(ALICE, id, { command, stdin: "open" });
    const gone = new AbortController();
    const sitting = all(execs.follow(ALICE, id, exec.id, 0, gone.signal)).catch(() => undefined);
    fixture.clock.pass(60_001);
    await reaper.tick();
    const { expiresAtMs, status } = await sessions.get(ALICE, id);
    expect({ expiresAtMs, status }).toEqual({
      expiresAtMs: fixture.clock.wallMs + 60_000,
      status: "running",
    });
    gone.abort();
    await sitting;
    fixture.clock.pass(59_000);
    await reaper.tick();
    expect((await sessions.get(ALICE, id)).status).toBe("running");
    fixture.clock.pass(1001);
    await reaper.tick();
    expect((await sessions.get(ALICE, id)).status).toBe("expired");
  });
});

describe("after a restart", () => {
  it("a running command goes on and nothing of its output is lost", async () => {
    const { execs } = fixture.core;
    const command = { kind: "process", argv: ["cat"] } as const;
    const exec = await execs.start(ALICE, id, { command, stdin: "open" });
    await execs.writeStdin(ALICE, id, exec.id, Buffer.from("before "));
    await execs.read(ALICE, id, exec.id, { offset: 0, maxBytes: 100, waitMs: 10_000 });
    const waiting = execs.wait(ALICE, id, exec.id);
    waiting.catch(() => undefined);
    await fixture.restart();
    await expect(waiting).rejects.toThrow(code("SANDBOX_UNREACHABLE"));
    const { execs: next } = fixture.core;
    await next.writeStdin(ALICE, id, exec.id, Buffer.from("after"));
    await next.closeStdin(ALICE, id, exec.id);
    expect(await next.wait(ALICE, id, exec.id)).toMatchObject({ exitCode: 0, endReason: "exited" });
    const { output } = await next.collect(ALICE, id, exec.id);
    expect(Buffer.from(output).toString()).toBe("before after");
  });

  it("the shell still knows where it was and what it was told", async () => {
    await fixture.run(id, "cd /tmp && export X=kept");
    await fixture.restart();
    expect(await fixture.run(id, "echo $X; pwd")).toMatchObject({ output: "kept\n/tmp\n" });
  });

  it("a command whose sandbox is gone says so", async () => {
    const exec = await fixture.core.execs.start(ALICE, id, { command: shell("sleep 100") });
    fixture.machine.sandboxes.get((await fixture.core.sessions.get(ALICE, id)).sandboxId ?? "");
    await fixture.stop("keep");
    fixture.machine.sandboxes.clear();
    await fixture.crash();
    expect(await fixture.core.execs.get(ALICE, id, exec.id)).toMatchObject({
      status: "done",
      endReason: "sandbox_gone",
    });
    expect((await fixture.core.sessions.get(ALICE, id)).status).toBe("crashed");
  });
});
