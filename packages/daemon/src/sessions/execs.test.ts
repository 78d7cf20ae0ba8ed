import { setTimeout as sleep } from "node:timers/promises";
import { MANY } from "@sandkasten/testkit";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { SandboxError } from "@sandkasten/protocol";
import type { Backend } from "../ports/backend.ts";
import type { Channel } from "../ports/channel.ts";
import type { JournalPage } from "../ports/exec-journal.ts";
import type { ExecRow } from "../ports/session-store.ts";
import { FileExecJournal } from "../journal/file-exec-journal.ts";
import type { StartExecOptions } from "./services/exec-service.ts";
import { hashOf } from "./session-plan.ts";
import { storedRequest } from "./stored-request.ts";
import { ALICE, BOB, CoreFixture, overriding } from "./testing/core-fixture.ts";

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
    const ended = await Promise.all(started.map((exec) => exec.wait()));
    expect(ended.map(({ exitCode }) => exitCode)).toEqual([0, 0, 0, 0]);
    const { output } = await started[3]!.collect();
    expect(Buffer.from(output).toString()).toBe("/tmp\n");
    expect((await fixture.core.sessions.get(ALICE, id)).cwd).toBe("/tmp");
  });

  it("starts the next command of a shell before the store has the end of the previous one", async () => {
    const { execs } = fixture.core;
    const stored = Promise.withResolvers<void>();
    const { store } = fixture;
    const update = store.updateExec.bind(store);
    const slow = vi.spyOn(store, "updateExec").mockImplementation(async (...args) => {
      await stored.promise;
      await update(...args);
    });
    const first = await execs.start(ALICE, id, { command: shell("cd /tmp") });
    await first.wait();
    const second = await execs.start(ALICE, id, { command: shell("pwd") });
    expect(second.row.status).toBe("running");
    expect(await second.wait()).toMatchObject({ exitCode: 0 });
    expect(slow).toHaveBeenCalled();
    expect(await store.getExec(id, first.id)).toMatchObject({ status: "running" });
    stored.resolve();
    await expect.poll(() => store.getExec(id, second.id)).toMatchObject({ status: "done" });
    expect(await store.getExec(id, first.id)).toMatchObject({ status: "done" });
  });

  it("stores the end of a command before its session ends", async () => {
    const { execs, sessions } = fixture.core;
    const { store } = fixture;
    const update = store.updateExec.bind(store);
    const stored = Promise.withResolvers<void>();
    const statuses: (string | undefined)[] = [];
    vi.spyOn(store, "updateExec").mockImplementation(async (...args) => {
      await stored.promise;
      statuses.push((await store.getSession(id))?.status);
      await update(...args);
    });
    const exec = await execs.start(ALICE, id, { command: shell("true") });
    await exec.wait();
    const destroyed = sessions.destroy(ALICE, id);
    await expect.poll(() => fixture.machine.sandboxes.size).toBe(0);
    // Enough time to end the session without the command's end.
    await sleep(50);
    stored.resolve();
    await destroyed;
    expect(statuses).toEqual(["destroying"]);
    expect(await store.getExec(id, exec.id)).toMatchObject({ endReason: "exited" });
  });

  it("runs processes in parallel with a busy shell", async () => {
    const { execs } = fixture.core;
    const busy = await execs.start(ALICE, id, { command: shell("sleep 100") });
    const beside = await execs.start(ALICE, id, {
      command: { kind: "process", argv: ["echo", "beside"] },
    });
    expect(await beside.wait()).toMatchObject({ exitCode: 0 });
    expect(busy.row.status).toBe("running");
    await busy.signal(9, { tree: true });
    expect(await busy.wait()).toMatchObject({ status: "done" });
  });

  it("runs a repeated request once, and refuses its key for another command", async () => {
    const { execs } = fixture.core;
    const options = { command: shell("echo once >> log"), idempotencyKey: "k" };
    const [first, again] = await Promise.all([
      execs.start(ALICE, id, options),
      execs.start(ALICE, id, options),
    ]);
    expect(again.id).toBe(first.id);
    await (await execs.get(ALICE, id, first.id)).wait();
    expect((await execs.start(ALICE, id, options)).id).toBe(first.id);
    expect(await fixture.run(id, "cat log")).toMatchObject({ output: "once\n" });
    await expect(
      execs.start(ALICE, id, { command: shell("echo twice"), idempotencyKey: "k" }),
    ).rejects.toThrow(code("CONFLICT"));
  });

  it("returns the command of a repeated request even if the quota is used up", async () => {
    const { execs } = fixture.core;
    const caller = { ...ALICE, maxRunningExecs: 1 };
    const options = { command: shell("sleep 100"), idempotencyKey: "k" };
    const first = await execs.start(caller, id, options);
    expect((await execs.start(caller, id, options)).id).toBe(first.id);
  });

  it("returns the command of a repeated request even if the disk is full", async () => {
    const { execs } = fixture.core;
    const { store } = fixture;
    const options = { command: shell("true"), idempotencyKey: "k" };
    const first = await execs.start(ALICE, id, options);
    const full = new SandboxError("STORAGE_FULL", "no space left");
    const insert = vi.spyOn(store, "insertExec").mockRejectedValue(full);
    expect((await execs.start(ALICE, id, options)).id).toBe(first.id);
    expect(insert).toHaveBeenCalledOnce();
    await expect(execs.start(ALICE, id, { ...options, idempotencyKey: "other" })).rejects.toThrow(
      code("STORAGE_FULL"),
    );
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

  it("enforces the quota for concurrent requests", async () => {
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

  it("frees the quota when a command has ended, before its end is stored", async () => {
    const { execs } = fixture.core;
    const { store } = fixture;
    const caller = { ...ALICE, maxRunningExecs: 1 };
    const stored = Promise.withResolvers<void>();
    const update = store.updateExec.bind(store);
    vi.spyOn(store, "updateExec").mockImplementation(async (...change) => {
      await stored.promise;
      await update(...change);
    });
    const insert = vi.spyOn(store, "insertExec");
    await (await execs.start(caller, id, { command: shell("true") })).wait();
    const next = execs.start(caller, id, { command: shell("echo next") });
    await vi.waitUntil(() => insert.mock.calls.length === 2);
    stored.resolve();
    expect(await (await next).wait()).toMatchObject({ exitCode: 0 });
  });

  it("refuses commands that are too long or contain a NUL", async () => {
    const start = (text: string) => fixture.core.execs.start(ALICE, id, { command: shell(text) });
    await expect(start("x".repeat(2 ** 20 + 1))).rejects.toThrow(code("PAYLOAD_TOO_LARGE"));
    await expect(start("echo \0")).rejects.toThrow(code("INVALID_REQUEST"));
    expect((await fixture.core.execs.list(ALICE, id, {})).rows).toEqual([]);
  });

  it("passes input to a command", async () => {
    const { execs } = fixture.core;
    const command = { kind: "process", argv: ["cat"] } as const;
    const exec = await execs.start(ALICE, id, { command, stdin: Buffer.from("all of it") });
    await exec.wait();
    expect(Buffer.from((await exec.collect()).output).toString()).toBe("all of it");
  });

  it("returns the sandbox's reason for a refused command to clients that wait for it", async () => {
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
    await expect(refused.wait()).rejects.toThrow(code("NO_SHELL"));
    refuse = false;
    expect(refused.row).toMatchObject({
      status: "done",
      endReason: "not_started",
    });
    expect(await fixture.run(id, "echo next")).toMatchObject({ output: "next\n" });
  });

  it("lowers a timeout to the maximum, and says so", async () => {
    await fixture[Symbol.asyncDispose]();
    fixture = await CoreFixture.start({ settings: { maxExecTimeoutMs: 50 } });
    id = (await fixture.core.sessions.create(ALICE, {})).session.id;
    for (const [timeoutMs, effectiveMs, timeoutClamped] of [
      [0, 50, false],
      [20, 20, false],
      [100_000, 50, true],
    ] as const) {
      const ran = await fixture.run(id, "sleep 100", { timeoutMs });
      const expected = { endReason: "timeout", timeoutMs: effectiveMs, timeoutClamped };
      expect(ran).toMatchObject(expected);
      await fixture.restart();
      expect((await fixture.core.execs.get(ALICE, id, ran.id)).row).toMatchObject(expected);
    }
  });

  it("gives a terminal no timeout unless it is requested", async () => {
    const command = { kind: "process", argv: ["cat"], pty: { rows: 24, cols: 80 } } as const;
    const { execs } = fixture.core;
    const open = await execs.start(ALICE, id, { command, stdin: "open" });
    expect(open.row.timeoutMs).toBeUndefined();
    const bounded = await execs.start(ALICE, id, { command, stdin: "open", timeoutMs: 20 });
    expect(await bounded.wait()).toMatchObject({ endReason: "timeout" });
  });

  it.each([10, 12, 18, 28, 64])(
    "keeps a waiting command in the queue if no process can get signal %i",
    async (signal) => {
      const { execs } = fixture.core;
      const busy = await execs.start(ALICE, id, { command: shell("sleep 100") });
      const waiting = await execs.start(ALICE, id, { command: shell("echo ran") });
      expect(await waiting.signal(signal)).toBe(0);
      expect(waiting.row.status).toBe("queued");
      await busy.signal(9, { tree: true });
      expect(await waiting.wait()).toMatchObject({ endReason: "exited", exitCode: 0 });
    },
  );

  it("removes a waiting command from the queue when it is signalled", async () => {
    const { execs } = fixture.core;
    const busy = await execs.start(ALICE, id, { command: shell("sleep 100") });
    const waiting = await execs.start(ALICE, id, { command: shell("echo never") });
    expect(await waiting.signal(0)).toBe(1);
    expect(waiting.row.status).toBe("queued");
    expect(await waiting.signal(15)).toBe(1);
    expect(await waiting.wait()).toMatchObject({ endReason: "killed" });
    await busy.signal(9, { tree: true });
    expect(await fixture.run(id, "echo next")).toMatchObject({ output: "next\n" });
  });
});

describe("a command's handle", () => {
  it("responds without checking whether the backend is reachable", async () => {
    let asked = 0;
    await fixture[Symbol.asyncDispose]();
    fixture = await CoreFixture.start({
      wrap: (backend) =>
        overriding(backend, {
          reachable: () => {
            asked += 1;
            return Promise.resolve(true);
          },
        }),
    });
    const { id: session } = (await fixture.core.sessions.create(ALICE, {})).session;
    asked = 0;
    const command = { kind: "process", argv: ["true"] } as const;
    const exec = await fixture.core.execs.start(ALICE, session, { command });
    await exec.wait();
    expect(exec.row.cwd).toBeUndefined();
    expect(await exec.shellCwd()).toBe("/workspace");
    await exec.collect();
    expect(asked).toBe(0);
  });

  it("still returns the command's output after its session has ended", async () => {
    const { execs, sessions } = fixture.core;
    const exec = await execs.start(ALICE, id, { command: shell("echo kept") });
    await exec.wait();
    await sessions.destroy(ALICE, id);
    expect(Buffer.from((await exec.collect(10_000)).output).toString()).toBe("kept\n");
    expect(await exec.shellCwd()).toBe("/workspace");
    expect(await exec.cancel()).toBe(false);
    await expect(exec.signal(9)).rejects.toThrow(code("SESSION_NOT_FOUND"));
    await expect(exec.writeStdin(Buffer.from("x"))).rejects.toThrow(code("SESSION_NOT_FOUND"));
  });

  it("of a repeated request is that of the running command", async () => {
    const { execs } = fixture.core;
    const options = { command: shell("cat"), stdin: "open", idempotencyKey: "twice" } as const;
    const first = await execs.start(ALICE, id, options);
    const again = await execs.start(ALICE, id, options);
    await again.writeStdin(Buffer.from("typed by the second"));
    await again.closeStdin();
    expect(await first.wait()).toMatchObject({ status: "done", exitCode: 0 });
    const { output } = await first.collect();
    expect(Buffer.from(output).toString()).toBe("typed by the second");
  });
});

describe("shells", () => {
  const inShell = (name: string, text: string) => ({ kind: "shell", text, shell: name }) as const;

  it("with different names run in parallel with separate state; commands of one wait for each other", async () => {
    const { execs, sessions, shells } = fixture.core;
    const start = (name: string, text: string) =>
      execs.start(ALICE, id, { command: inShell(name, text) });
    const busy = await start("build", "cd /tmp && sleep 100");
    const waiting = await start("build", "pwd");
    expect([busy.row.status, waiting.row.status]).toEqual(["running", "queued"]);
    expect(await fixture.run(id, "pwd")).toMatchObject({
      output: "/workspace\n",
      shell: "default",
    });
    expect(await shells.list(ALICE, id)).toMatchObject([
      { name: "default", busy: false, queued: 0 },
      { name: "build", busy: true, execId: busy.id, queued: 1 },
    ]);
    expect(await busy.cancel()).toBe(true);
    expect(await busy.wait()).toMatchObject({
      endReason: "cancelled",
    });
    expect(await waiting.wait()).toMatchObject({
      cwd: "/tmp",
      shell: "build",
    });
    // The session's directory is that of its default shell.
    expect((await sessions.get(ALICE, id)).cwd).toBe("/workspace");
  });

  it("that are closed cancel what runs and waits in them, and nothing else", async () => {
    const { execs, shells } = fixture.core;
    const options = (text: string) => ({ command: inShell("build", text) });
    const busy = await execs.start(ALICE, id, options("sleep 100"));
    const waiting = await execs.start(ALICE, id, options("echo never"));
    const other = await execs.start(ALICE, id, { command: shell("sleep 0.1; echo on") });
    await shells.close(ALICE, id, "build");
    for (const exec of [busy, waiting])
      expect(await exec.wait()).toMatchObject({
        endReason: "cancelled",
      });
    expect(await other.wait()).toMatchObject({ endReason: "exited" });
    await expect(shells.close(ALICE, id, "build")).rejects.toThrow(code("SHELL_NOT_FOUND"));
    await execs.start(ALICE, id, options("true"));
  });

  it("keep separate queues through a restart", async () => {
    const { execs } = fixture.core;
    const command = { ...inShell("build", "cat"), kind: "shell" } as const;
    const busy = await execs.start(ALICE, id, { command, stdin: "open" });
    const waiting = await execs.start(ALICE, id, { command: inShell("build", "echo after") });
    await fixture.restart();
    const { execs: next } = fixture.core;
    expect(await fixture.run(id, "echo beside")).toMatchObject({ output: "beside\n" });
    expect((await next.get(ALICE, id, waiting.id)).row).toMatchObject({ status: "queued" });
    await (await next.get(ALICE, id, busy.id)).closeStdin();
    expect(await (await next.get(ALICE, id, waiting.id)).wait()).toMatchObject({
      exitCode: 0,
      shell: "build",
    });
  });
});

describe("cancel()", () => {
  it("removes a waiting command from the queue, and does not affect an ended one", async () => {
    const { execs } = fixture.core;
    const busy = await execs.start(ALICE, id, { command: shell("sleep 100") });
    const waiting = await execs.start(ALICE, id, { command: shell("echo never") });
    expect(await waiting.cancel()).toBe(true);
    expect(await waiting.wait()).toMatchObject({ endReason: "cancelled" });
    expect(await busy.cancel()).toBe(true);
    await busy.wait();
    expect(await busy.cancel()).toBe(false);
    expect(await fixture.run(id, "echo next")).toMatchObject({ output: "next\n" });
    await expect(execs.get(ALICE, id, "exe_nothing")).rejects.toThrow(code("EXEC_NOT_FOUND"));
    await expect(execs.get(BOB, id, busy.id)).rejects.toThrow(code("SESSION_NOT_FOUND"));
  });
});

describe("output", () => {
  it("can be read by cursor, before the end and after the sandbox is gone", async () => {
    const { execs, sessions } = fixture.core;
    const command = { kind: "process", argv: ["cat"] } as const;
    const exec = await execs.start(ALICE, id, { command, stdin: "open" });
    await exec.writeStdin(Buffer.from("first "));
    const early = await exec.read({
      offset: 0,
      maxBytes: 100,
      waitMs: 10_000,
    });
    expect(textOf([early.page])).toBe("first ");
    expect(early.done).toBe(false);
    await exec.writeStdin(Buffer.from("second"));
    await exec.closeStdin();
    await exec.wait();
    await sessions.destroy(ALICE, id);
    await fixture.crash();
    const late = await (
      await fixture.core.execs.get(ALICE, id, exec.id)
    ).read({ offset: 6, maxBytes: 100 });
    expect(textOf([late.page])).toBe("second");
    expect(late.done).toBe(true);
    const { output } = await (await fixture.core.execs.get(ALICE, id, exec.id)).collect();
    expect(Buffer.from(output).toString()).toBe("first second");
  });

  it("can be followed live, until the end", async () => {
    const { execs } = fixture.core;
    const command = { kind: "process", argv: ["cat"] } as const;
    const exec = await execs.start(ALICE, id, { command, stdin: "open" });
    const seen: string[] = [];
    const following = (async () => {
      for await (const page of exec.follow({ offset: 0 })) {
        seen.push(textOf([page]));
        if (seen.length === 1) await exec.writeStdin(Buffer.from("two"));
        else await exec.closeStdin();
      }
    })();
    await exec.writeStdin(Buffer.from("one"));
    await following;
    expect(seen).toEqual(["one", "two"]);
  });

  it("of a flood keeps its beginning and end for the response and reports what was dropped", async () => {
    const { execs, sessions } = fixture.core;
    using visit = await sessions.enter(ALICE, id);
    await visit.channel.writeFile("big", Buffer.alloc(6 * 1024 * 1024, "x"));
    const ran = await fixture.run(id, "cat big");
    expect(ran).toMatchObject({ exitCode: 0, stdoutBytes: 6 * 1024 * 1024 });
    expect(ran.droppedBytes).toBeGreaterThan(0);
    expect(ran.output.length).toBeLessThan(66_000);
    const skipped = (await all((await execs.get(ALICE, id, ran.id)).follow({ offset: 0 })))
      .map(({ skippedBytes }) => skippedBytes)
      .reduce((sum, bytes) => sum + bytes, 0);
    expect(skipped).toBe(ran.droppedBytes);
  });

  it("of a flood is complete for a follower, however slow", async () => {
    const { execs, sessions } = fixture.core;
    using visit = await sessions.enter(ALICE, id);
    await visit.channel.writeFile("big", Buffer.alloc(6 * 1024 * 1024, "x"));
    const exec = await execs.start(ALICE, id, { command: shell("cat big") });
    let bytes = 0;
    for await (const page of exec.follow({ offset: 0 })) {
      expect(page.skippedBytes).toBe(0);
      bytes += page.chunks.reduce((sum, chunk) => sum + chunk.bytes.length, 0);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    expect(bytes).toBe(6 * 1024 * 1024);
  });

  it.each(["the end of its session", "a stop of the daemon"])(
    "of a flood whose follower stops reading does not block %s",
    async (what) => {
      const { execs, sessions } = fixture.core;
      const write = Reflect.get(FileExecJournal.prototype, "write");
      const waiting = Promise.withResolvers<void>();
      using _ = vi.spyOn(FileExecJournal.prototype, "write").mockImplementation(async function (
        this: FileExecJournal,
        session,
        exec,
        read,
      ) {
        const noted = async (offset: number): Promise<void> => {
          waiting.resolve();
          await read?.(offset);
        };
        return await write.call(this, session, exec, noted);
      });
      const access = await sessions.enter(ALICE, id);
      await access.channel.writeFile("big", Buffer.alloc(6 * 1024 * 1024, "x"));
      access[Symbol.dispose]();
      const exec = await execs.start(ALICE, id, { command: shell("cat big") });
      const follower = exec.follow({ offset: 0 })[Symbol.asyncIterator]();
      await follower.next();
      await waiting.promise;
      if (what === "a stop of the daemon") await fixture.core.stop("keep");
      else await sessions.destroy(ALICE, id);
      await follower.return?.();
    },
  );

  it("is no longer followed when the caller leaves", async () => {
    const { execs } = fixture.core;
    const exec = await execs.start(ALICE, id, { command: shell("sleep 100") });
    const gone = new AbortController();
    const following = all(exec.follow({ offset: 0, signal: gone.signal }));
    const waiting = exec.wait(60_000, gone.signal);
    gone.abort();
    const cancelled = { status: "rejected", reason: code("CANCELLED") };
    expect(await Promise.allSettled([following, waiting])).toEqual([cancelled, cancelled]);
    expect(exec.row.status).toBe("running");
  });

  it("of an unknown command is not found", async () => {
    const { execs } = fixture.core;
    await expect(execs.get(ALICE, id, "exe_nothing")).rejects.toThrow(code("EXEC_NOT_FOUND"));
  });
});

describe("a terminal", () => {
  it("keeps its session while it is connected, and not forever afterwards", async () => {
    const { execs, reaper, sessions } = fixture.core;
    const command = { kind: "process", argv: ["cat"], pty: { rows: 24, cols: 80 } } as const;
    const exec = await execs.start(ALICE, id, { command, stdin: "open" });
    const gone = new AbortController();
    const sitting = all(exec.follow({ offset: 0, signal: gone.signal })).catch(() => undefined);
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

/** The row of a command whose daemon died just before it passed the command on. */
async function lostOnTheWay(options: StartExecOptions): Promise<ExecRow> {
  const request = storedRequest(options);
  const row: ExecRow = {
    id: "exe_lost",
    sessionId: id,
    owner: ALICE.owner,
    status: "running",
    mode: options.command.kind,
    command: "",
    startedAtMs: fixture.clock.wallMs,
    stdoutBytes: 0,
    stderrBytes: 0,
    droppedBytes: 0,
    shellRestarted: false,
    background: false,
    backgroundBytes: 0,
    timeoutClamped: false,
    ...(options.idempotencyKey !== undefined && {
      idempotencyKey: options.idempotencyKey,
      requestHash: hashOf(options),
    }),
  };
  const complete = { ...row, ...(request !== undefined && { request }) };
  await fixture.store.insertExec(complete, fixture.core.membership.fence, MANY);
  return row;
}

describe("after a restart", () => {
  it("a running command continues and none of its output is lost", async () => {
    const { execs } = fixture.core;
    const command = { kind: "process", argv: ["cat"] } as const;
    const exec = await execs.start(ALICE, id, { command, stdin: "open" });
    await exec.writeStdin(Buffer.from("before "));
    await exec.read({ offset: 0, maxBytes: 100, waitMs: 10_000 });
    const waiting = exec.wait();
    waiting.catch(() => undefined);
    await fixture.restart();
    await expect(waiting).rejects.toThrow(code("SANDBOX_UNREACHABLE"));
    const { execs: next } = fixture.core;
    await (await next.get(ALICE, id, exec.id)).writeStdin(Buffer.from("after"));
    await (await next.get(ALICE, id, exec.id)).closeStdin();
    expect(await (await next.get(ALICE, id, exec.id)).wait()).toMatchObject({
      exitCode: 0,
      endReason: "exited",
    });
    const { output } = await (await next.get(ALICE, id, exec.id)).collect();
    expect(Buffer.from(output).toString()).toBe("before after");
  });

  it("the shell keeps its directory and variables", async () => {
    await fixture.run(id, "cd /tmp && export X=kept");
    await fixture.restart();
    expect(await fixture.run(id, "echo $X; pwd")).toMatchObject({ output: "kept\n/tmp\n" });
  });

  it("a command that waited for the shell is started once", async () => {
    const { execs } = fixture.core;
    const first = await execs.start(ALICE, id, {
      command: { kind: "shell", text: "cat" },
      stdin: "open",
    });
    const options = {
      command: shell("echo ran >> log; cat log; echo $WHO"),
      env: { WHO: "me" },
      idempotencyKey: "again",
    };
    const waiting = await execs.start(ALICE, id, options);
    expect(waiting.row.status).toBe("queued");
    await fixture.restart();
    const { execs: next } = fixture.core;
    expect((await next.start(ALICE, id, options)).id).toBe(waiting.id);
    await (await next.get(ALICE, id, first.id)).closeStdin();
    expect(await (await next.get(ALICE, id, waiting.id)).wait()).toMatchObject({ exitCode: 0 });
    const { output } = await (await next.get(ALICE, id, waiting.id)).collect();
    expect(Buffer.from(output).toString()).toBe("ran\nme\n");
  });

  it("a command whose sandbox is frozen continues when it thaws", async () => {
    const { execs } = fixture.core;
    const command = { kind: "process", argv: ["cat"] } as const;
    const exec = await execs.start(ALICE, id, { command, stdin: "open" });
    let attempts = 0;
    const wrap = (backend: Backend): Backend =>
      overriding(backend, {
        open: async (sandbox) => {
          const inner = await backend.open(sandbox);
          const attach: Channel["attach"] = async (...args) => {
            if (++attempts < 3)
              throw new SandboxError("SANDBOX_UNREACHABLE", "no greeting", {
                details: { reason: "unresponsive" },
              });
            return await inner.attach(...args);
          };
          return overriding(inner, { attach });
        },
      });
    await fixture.restart("keep", { wrap });
    await (await fixture.core.execs.get(ALICE, id, exec.id)).closeStdin();
    expect(await (await fixture.core.execs.get(ALICE, id, exec.id)).wait()).toMatchObject({
      exitCode: 0,
    });
    expect(attempts).toBe(3);
  });

  it("a stored command that never reached the sandbox is started with its input", async () => {
    const bytes = Buffer.from([0xff, 0x00, 0x41]);
    const command = { kind: "process", argv: ["cat"] } as const;
    const { id: execId } = await lostOnTheWay({ command, stdin: bytes });
    await fixture.restart();
    const { execs } = fixture.core;
    expect(await (await execs.get(ALICE, id, execId)).wait()).toMatchObject({
      endReason: "exited",
    });
    expect(Buffer.from((await (await execs.get(ALICE, id, execId)).collect()).output)).toEqual(
      bytes,
    );
  });

  it("a command that cannot be started again is not_started, and its key can be used again", async () => {
    const command = shell(`true ${"x".repeat(100_000)}`);
    const lost = await lostOnTheWay({ command, idempotencyKey: "k" });
    await fixture.restart();
    const { execs } = fixture.core;
    expect(await (await execs.get(ALICE, id, lost.id)).wait()).toMatchObject({
      status: "done",
      endReason: "not_started",
    });
    const again = await execs.start(ALICE, id, { command, idempotencyKey: "k" });
    expect(again.id).not.toBe(lost.id);
    expect(await again.wait()).toMatchObject({ exitCode: 0 });
  });

  it("a command that the sandbox might have run and forgotten is unknown, and does not run again", async () => {
    const lost = await lostOnTheWay({ command: shell("echo twice >> log") });
    for (let i = 0; i < 256; i++)
      await fixture.store.insertExec(
        { ...lost, id: `exe_z${i}`, status: "done" },
        fixture.core.membership.fence,
        MANY,
      );
    await fixture.restart();
    const { execs } = fixture.core;
    expect(await (await execs.get(ALICE, id, lost.id)).wait()).toMatchObject({
      endReason: "unknown",
    });
    expect((await fixture.run(id, "cat log")).exitCode).not.toBe(0);
  });

  it("the stored request is removed once a command has ended, however it ended", async () => {
    const { execs } = fixture.core;
    const env = { SECRET: "x" };
    const exited = await execs.start(ALICE, id, { command: shell("true"), env });
    await exited.wait();
    const lost = await lostOnTheWay({ command: shell("true"), env });
    expect((await fixture.store.getExec(id, lost.id))?.request).toContain("SECRET");
    await fixture.stop("keep");
    fixture.machine.sandboxes.clear();
    await fixture.crash();
    for (const execId of [exited.id, lost.id]) {
      const row = await fixture.store.getExec(id, execId);
      expect(row?.status).toBe("done");
      expect(row).not.toHaveProperty("request");
    }
  });

  it("a command whose sandbox is gone reports this", async () => {
    const exec = await fixture.core.execs.start(ALICE, id, { command: shell("sleep 100") });
    await fixture.stop("keep");
    fixture.machine.sandboxes.clear();
    await fixture.crash();
    expect((await fixture.core.execs.get(ALICE, id, exec.id)).row).toMatchObject({
      status: "done",
      endReason: "sandbox_gone",
    });
    expect((await fixture.core.sessions.get(ALICE, id)).status).toBe("crashed");
  });
});
