/** Threats: a killed daemon, interrupted creation, a killed runner or shell and leaks over many sessions. A daemon or its sandboxes killed at every moment leave nothing half done. */
import { once } from "node:events";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { request } from "node:http";
import type { IncomingMessage } from "node:http";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { daemonTraces, expectTraces } from "../support/oracles/daemon-traces.ts";
import { rounds, sliceOf } from "../support/rounds.ts";
import { runnerOf, TestDaemon } from "../support/test-daemon.ts";
import type { Answer } from "../support/test-daemon.ts";

let daemon: TestDaemon;
let empty: readonly string[];
beforeEach(async () => {
  daemon = await TestDaemon.start();
  // What is created once and kept does not count.
  await daemon.call("DELETE", `/v1/sessions/${await daemon.open()}`);
  empty = await daemonTraces(daemon);
});
afterEach(async () => {
  await daemon[Symbol.asyncDispose]();
});

interface Listed {
  readonly id: string;
  readonly status: string;
}

async function sessions(): Promise<readonly Listed[]> {
  return (await daemon.call<Listed[]>("GET", "/v1/sessions?limit=1000")).body;
}

async function destroyAll(): Promise<void> {
  for (const { id, status } of await sessions())
    if (status === "running" || status === "paused")
      await daemon.call("DELETE", `/v1/sessions/${id}`);
}

describe("kill -9 of the daemon", () => {
  it("during commands loses neither shell, files, output nor the commands", async () => {
    const id = await daemon.open({ metadata: { which: "one" } });
    await daemon.exec(id, "cd /tmp; KEPT=yes; echo file > kept");
    const base = `/v1/sessions/${id}/execs`;
    const start = async (body: object): Promise<string> =>
      String((await daemon.call("POST", base, body)).body["exec_id"]);
    const count = "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done";
    const process_ = await start({
      cmd: ["sh", "-c", `${count}; until [ -e /tmp/go ]; do sleep 0.05; done; echo end`],
    });
    const shell = await start({
      cmd: "echo shell begins; until [ -e /tmp/go ]; do sleep 0.05; done; echo shell ends",
    });
    const queued = await start({ cmd: "echo waited >> /tmp/waited; cat /tmp/waited" });
    await daemon.call("GET", `${base}/${shell}/output?wait_ms=10000`);
    await daemon.kill();
    await daemon.run();
    expect((await daemon.call("GET", `/v1/sessions/${id}`)).body).toMatchObject({
      status: "running",
    });
    await daemon.call("POST", `/v1/sessions/${id}/fs/write`, { path: "/tmp/go", text: "" });
    const lines = Array.from({ length: 2000 }, (_, i) => `line ${i}\n`).join("");
    expect((await daemon.call("POST", `${base}/${process_}/wait`, {})).body).toMatchObject({
      exit_code: 0,
      end_reason: "exited",
      output: `${lines}end\n`,
    });
    expect((await daemon.call("POST", `${base}/${shell}/wait`, {})).body).toMatchObject({
      exit_code: 0,
      output: "shell begins\nshell ends\n",
    });
    // It never reached the sandbox; the next daemon sends it, in its turn.
    expect((await daemon.call("POST", `${base}/${queued}/wait`, {})).body).toMatchObject({
      exit_code: 0,
      output: "waited\n",
    });
    expect(await daemon.exec(id, "echo $KEPT; pwd; cat kept")).toMatchObject({
      output: "yes\n/tmp\nfile\n",
    });
    await destroyAll();
    await expectTraces(daemon, empty);
  });

  it("before a waiting command reached the sandbox lets a repeated request run it, once", async () => {
    const id = await daemon.open();
    const base = `/v1/sessions/${id}`;
    await daemon.call("POST", `${base}/execs`, {
      cmd: "until [ -e /tmp/go ]; do sleep 0.05; done",
    });
    const request = { cmd: "echo ran >> /tmp/ran; cat /tmp/ran" };
    const key = { "idempotency-key": "once" };
    const { body: queued } = await daemon.call("POST", `${base}/execs`, request, key);
    expect(queued).toMatchObject({ status: "queued" });
    await daemon.kill();
    await daemon.run();
    const repeated = daemon.call("POST", `${base}/exec`, request, key);
    await daemon.call("POST", `${base}/fs/write`, { path: "/tmp/go", text: "" });
    const answer = { exec_id: queued["exec_id"], exit_code: 0, output: "ran\n" };
    expect(await repeated).toMatchObject({ status: 200, body: answer });
    expect(await daemon.call("POST", `${base}/exec`, request, key)).toMatchObject({ body: answer });
  });

  it("before a session's first command reached the sandbox starts it, once", async () => {
    const id = await daemon.open();
    const runner = await runnerOf(daemon);
    const request = { cmd: "echo ran >> /tmp/ran; cat /tmp/ran" };
    const key = { "idempotency-key": "first" };
    // A sandbox without a handshake gets no command, however long the daemon tries.
    process.kill(runner, "SIGSTOP");
    const { body: started } = await daemon.call("POST", `/v1/sessions/${id}/execs`, request, key);
    expect(started).toMatchObject({ status: "running" });
    await daemon.kill();
    process.kill(runner, "SIGCONT");
    await daemon.run();
    expect(await daemon.call("POST", `/v1/sessions/${id}/exec`, request, key)).toMatchObject({
      status: 200,
      body: { exec_id: started["exec_id"], exit_code: 0, output: "ran\n" },
    });
  });

  it("while a command is on its way to the sandbox runs it once", async () => {
    const id = await daemon.open();
    await daemon.exec(id, "true");
    const runner = await runnerOf(daemon);
    const request = { cmd: "echo ran >> /tmp/ran; cat /tmp/ran" };
    const key = { "idempotency-key": "on-its-way" };
    // It is unread in the socket when the daemon dies.
    process.kill(runner, "SIGSTOP");
    const { body: started } = await daemon.call("POST", `/v1/sessions/${id}/execs`, request, key);
    await new Promise((resolve) => setTimeout(resolve, 200));
    await daemon.kill();
    process.kill(runner, "SIGCONT");
    await daemon.run();
    expect(await daemon.call("POST", `/v1/sessions/${id}/exec`, request, key)).toMatchObject({
      status: 200,
      body: { exec_id: started["exec_id"], exit_code: 0, output: "ran\n" },
    });
  });

  it("after commands whose ends it did not receive reports their ends and runs none again", async () => {
    const id = await daemon.open();
    await daemon.exec(id, "touch /tmp/go");
    const base = `/v1/sessions/${id}/execs`;
    const start = async (cmd: string | readonly string[]): Promise<string> =>
      `${base}/${String((await daemon.call("POST", base, { cmd })).body["exec_id"])}`;
    const script = (code: number): string =>
      `echo; until [ -s /tmp/go ]; do sleep 0.05; done; echo ${code} >> /tmp/ran; (exit ${code})`;
    const execs = [await start(script(7)), await start(["sh", "-c", script(8)])];
    for (const exec of execs) await daemon.call("GET", `${exec}/output?wait_ms=10000`);
    const tmp = `/proc/${await runnerOf(daemon)}/root/tmp`;
    // The commands end in the sandbox, and only there.
    process.kill(daemon.pid, "SIGSTOP");
    await writeFile(`${tmp}/go`, "go", { flag: "r+" });
    const ran = async (): Promise<string> => await readFile(`${tmp}/ran`, "utf8").catch(() => "");
    await vi.waitUntil(async () => (await ran()).length === 4, { timeout: 60_000, interval: 50 });
    await daemon.kill();
    await daemon.run();
    for (const [at, exec] of execs.entries())
      expect((await daemon.call("POST", `${exec}/wait`, {})).body).toMatchObject({
        end_reason: "exited",
        exit_code: 7 + at,
      });
    expect((await ran()).split("\n").toSorted()).toEqual(["", "7", "8"]);
  });

  it("during a create or a destroy leaves a complete session or none", async () => {
    const typicalMs = await measureLife();
    // The first strikes a create that has just started, the last a destroy that is nearly done.
    const [first, last] = [0, 19];
    const between = Array.from({ length: last - 1 }, (_, point) => point + 1);
    const ends: string[] = [];
    for (const point of [first, ...sliceOf("kill points", between, 6), last]) {
      const what = point % 2 === 1 ? "destroy" : "create";
      await killInTheMiddle(what, ((point >> 1) / 10) * typicalMs[what]);
      await daemon.run();
      const status = await settledStatus();
      ends.push(`${what}: ${status}`);
      if (status === "running") {
        const [newest] = await sessions();
        expect(await daemon.exec(newest!.id, "echo whole")).toMatchObject({ output: "whole\n" });
        await destroyAll();
      }
      await expectTraces(daemon, empty);
    }
    const possible = ["create: failed", "create: running", "destroy: destroyed"];
    expect(ends.filter((end) => !possible.includes(end))).toEqual([]);
    // Not every kill came after the sandbox was complete.
    expect(ends).toContain("create: failed");
  });
});

/** The state of the newest session once the daemon has completed its take-over. */
async function settledStatus(): Promise<string> {
  const newest = async (): Promise<string> => (await sessions())[0]?.status ?? "none";
  await expect.poll(newest).not.toMatch(/^(creating|destroying)$/u);
  return await newest();
}

/** The current duration of a create and a destroy. */
async function measureLife(): Promise<Readonly<Record<"create" | "destroy", number>>> {
  const began = performance.now();
  const id = await daemon.open();
  const made = performance.now();
  await daemon.call("DELETE", `/v1/sessions/${id}`);
  return { create: made - began, destroy: performance.now() - made };
}

/**
 * Kills the daemon this long after it started, and earlier if that was too late: the store has the
 * start, and the request is never answered.
 */
async function killInTheMiddle(what: "create" | "destroy", delayMs: number): Promise<void> {
  for (let attempt = 0; attempt < 20; attempt++) {
    const id = what === "destroy" ? await daemon.open() : undefined;
    let answer: number | "none" | undefined;
    const request =
      id === undefined
        ? daemon.call("POST", "/v1/sessions", {})
        : daemon.call("DELETE", `/v1/sessions/${id}`);
    const answered = request.then(
      ({ status }) => (answer = status),
      () => (answer = "none"),
    );
    const begun = what === "create" ? "creating" : "destroying";
    const hasBegun = async (): Promise<boolean> =>
      (await sessions()).some(({ status }) => status === begun);
    while (answer === undefined && !(await hasBegun()));
    await new Promise((resolve) => setTimeout(resolve, delayMs * 0.7 ** attempt));
    if (answer === undefined) await daemon.kill();
    if ((await answered) === "none") return;
    // It was quicker, so its response must be true.
    if (daemon.pid === 0) await daemon.run();
    const living = (await sessions()).filter(({ status }) => status === "running");
    expect(living).toHaveLength(what === "create" ? 1 : 0);
    await destroyAll();
  }
  throw new Error(`the kill never came before the end of a ${what}`);
}

describe("a sandbox killed from outside", () => {
  it("makes its session crashed, its commands sandbox_gone, and nothing hangs", async () => {
    const id = await daemon.open();
    const { body } = await daemon.call("POST", `/v1/sessions/${id}/execs`, {
      cmd: "echo begun; sleep 1000",
    });
    const exec = `/v1/sessions/${id}/execs/${String(body["exec_id"])}`;
    await daemon.call("GET", `${exec}/output?wait_ms=10000`);
    const waiting = daemon.call("POST", `${exec}/wait`, {});
    process.kill(await runnerOf(daemon), "SIGKILL");
    expect((await waiting).body).toMatchObject({ end_reason: "sandbox_gone", exit_code: null });
    expect(await daemon.call("POST", `/v1/sessions/${id}/exec`, { cmd: "true" })).toMatchObject({
      status: 409,
      body: { error_code: "CONFLICT" },
    });
    expect((await daemon.call("GET", `/v1/sessions/${id}`)).body).toMatchObject({
      status: "crashed",
    });
    await expectTraces(daemon, empty);
  });
});

describe("a stop", () => {
  it("keeps sandboxes and their running commands for the next daemon", async () => {
    const id = await daemon.open();
    await daemon.exec(id, "KEPT=yes");
    const { body } = await daemon.call("POST", `/v1/sessions/${id}/execs`, {
      cmd: ["sh", "-c", "echo before; until [ -e /tmp/go ]; do sleep 0.05; done; echo after"],
    });
    const exec = `/v1/sessions/${id}/execs/${String(body["exec_id"])}`;
    await daemon.call("GET", `${exec}/output?wait_ms=10000`);
    const waiting = await begin(daemon, `${exec}/wait`);
    expect(await daemon.kill("SIGTERM")).toBe(0);
    expect(await waiting.answer).toMatchObject({
      status: 503,
      body: { error_code: "SANDBOX_UNREACHABLE" },
    });
    await daemon.run();
    await daemon.call("POST", `/v1/sessions/${id}/fs/write`, { path: "/tmp/go", text: "" });
    expect((await daemon.call("POST", `${exec}/wait`, {})).body).toMatchObject({
      output: "before\nafter\n",
    });
    expect(await daemon.exec(id, "echo $KEPT")).toMatchObject({ output: "yes\n" });
  });

  it("destroys them if configured", async () => {
    await daemon.kill("SIGTERM");
    await daemon.run({ SHUTDOWN: "destroy" });
    await daemon.open();
    expect(await daemon.kill("SIGTERM")).toBe(0);
    await expectTraces(daemon, empty);
  });
});

describe("commands that were just answered", () => {
  const COMMANDS = 20;
  const RAN = Array.from({ length: COMMANDS }, (_, code) => `${code}\n`).join("");
  let id: string;
  let execs: string[];
  beforeEach(async () => {
    id = await daemon.open();
    execs = [];
    for (let code = 0; code < COMMANDS; code++) {
      const { exec_id: exec } = await daemon.exec(id, `echo ${code} >> /tmp/ran; (exit ${code})`);
      execs.push(`/v1/sessions/${id}/execs/${String(exec)}`);
    }
  });

  const expectEnds = async (ask: (exec: string) => Promise<Answer>): Promise<void> => {
    for (const [code, exec] of execs.entries())
      expect((await ask(exec)).body).toMatchObject({ end_reason: "exited", exit_code: code });
  };
  const get = async (exec: string): Promise<Answer> => await daemon.call("GET", exec);

  it("are requested again after kill -9, and none runs again", async () => {
    await daemon.kill();
    await daemon.run();
    await expectEnds(async (exec) => await daemon.call("POST", `${exec}/wait`, {}));
    expect(await daemon.exec(id, "cat /tmp/ran")).toMatchObject({ output: RAN });
  });

  it("are in the store when the daemon has stopped", async () => {
    await daemon.kill("SIGTERM");
    await daemon.run();
    await expectEnds(get);
    expect(await daemon.exec(id, "cat /tmp/ran")).toMatchObject({ output: RAN });
  });

  it("are in the store when their session has been destroyed", async () => {
    await daemon.call("DELETE", `/v1/sessions/${id}`);
    await daemon.kill();
    await daemon.run();
    await expectEnds(get);
  });
});

describe("many sessions", () => {
  it("can be created and destroyed and leave nothing behind", async () => {
    const cycles = rounds({ slice: 60, torture: 1_000 });
    const descriptors = await openFiles(daemon);
    let left = cycles;
    const worker = async (): Promise<void> => {
      while (left-- > 0) {
        const id = await daemon.open();
        expect(await daemon.exec(id, "echo here")).toMatchObject({ output: "here\n" });
        await daemon.call("DELETE", `/v1/sessions/${id}`);
      }
    };
    await Promise.all(Array.from({ length: 4 }, worker));
    await expectTraces(daemon, empty);
    // This test's own connections are kept alive; sandboxes have none left.
    expect(await openFiles(daemon)).toBeLessThanOrEqual(descriptors + 8);
  });
});

/** Sends a request and resolves when the daemon has begun to serve it, as its 100 Continue shows. */
async function begin({ url, apiKey }: TestDaemon, path: string) {
  const sent = request(`${url}${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${apiKey}`, expect: "100-continue", "content-length": 2 },
  });
  const answer = once(sent, "response").then(async ([response]: IncomingMessage[]) => {
    const body = response === undefined ? "" : await text(response);
    return { status: response?.statusCode, body: JSON.parse(body) as unknown };
  });
  sent.flushHeaders();
  await once(sent, "continue");
  sent.end("{}");
  return { answer };
}

async function openFiles({ pid }: TestDaemon): Promise<number> {
  return (await readdir(`/proc/${pid}/fd`)).length;
}
