/** Threats 60, 61, 62, 68: a daemon or its sandboxes killed at every moment leave nothing half done. */
import { once } from "node:events";
import { readFile, readdir } from "node:fs/promises";
import { request } from "node:http";
import type { IncomingMessage } from "node:http";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { daemonTraces, expectTraces } from "../support/oracles/daemon-traces.ts";
import { TestDaemon } from "../support/test-daemon.ts";

let daemon: TestDaemon;
let empty: readonly string[];
beforeEach(async () => {
  daemon = await TestDaemon.start();
  // What is made once and kept shall not count.
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
  it("in the middle of commands loses neither shell, files, output nor the commands", async () => {
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
    const queued = await start({ cmd: "echo never ran" });
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
    // It never got to the sandbox: it did not run, and nobody says that it did.
    expect((await daemon.call("GET", `${base}/${queued}`)).body).toMatchObject({
      status: "done",
      exit_code: null,
      end_reason: "unknown",
    });
    expect(await daemon.exec(id, "echo $KEPT; pwd; cat kept")).toMatchObject({
      output: "yes\n/tmp\nfile\n",
    });
    await destroyAll();
    await expectTraces(daemon, empty);
  });

  it("at any moment of a create or a destroy leaves a whole session or none", async () => {
    const outcomes: string[] = [];
    for (let point = 0; point < 12; point++) {
      const destroying = point % 2 === 1;
      const id = destroying ? await daemon.open() : undefined;
      const request = destroying
        ? daemon.call("DELETE", `/v1/sessions/${id}`)
        : daemon.call("POST", "/v1/sessions", {});
      const answered = request.then(
        ({ status }) => status,
        () => "cut off",
      );
      // Spread over what a create, or a destroy, takes here.
      await new Promise((resolve) => setTimeout(resolve, (point >> 1) * (destroying ? 4 : 12)));
      await daemon.kill();
      const answer = await answered;
      await daemon.run();
      const living = (await sessions()).filter(({ status }) => status === "running");
      for (const session of living)
        expect(await daemon.exec(session.id, "echo whole")).toMatchObject({ output: "whole\n" });
      // Whatever was acknowledged is so.
      if (answer === 201) expect(living).toHaveLength(1);
      if (answer === 200) expect(living).toHaveLength(0);
      outcomes.push(`${destroying ? "destroy" : "create"} ${answer} ${living.length}`);
      await destroyAll();
      await expectTraces(daemon, empty);
    }
    expect(new Set(outcomes).size).toBeGreaterThan(1);
  });
});

describe("a sandbox killed from outside", () => {
  it("makes its session crashed, its commands gone, and nothing hangs", async () => {
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
  it("keeps sandboxes, and with them running commands, for the next daemon", async () => {
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

  it("destroys them when that is configured", async () => {
    await daemon.kill("SIGTERM");
    await daemon.run({ SHUTDOWN: "destroy" });
    await daemon.open();
    expect(await daemon.kill("SIGTERM")).toBe(0);
    await expectTraces(daemon, empty);
  });
});

describe("many sessions", () => {
  it("made and destroyed leave nothing behind", async () => {
    const cycles = Number(process.env["SANDKASTEN_TEST_CYCLES"] ?? 100);
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
    // Connections of this test's own are kept alive; sandboxes have none left.
    expect(await openFiles(daemon)).toBeLessThanOrEqual(descriptors + 8);
  });
});

/** Sends a request and resolves when the daemon has begun to serve it, which its 100 Continue says. */
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

/** The host's id of the one sandbox's PID 1. */
async function runnerOf({ dataDir }: TestDaemon): Promise<number> {
  const [sandbox] = await readdir(join(dataDir, "sandboxes"));
  const notes = await readFile(join(dataDir, "sandboxes", sandbox ?? "", "sandbox.json"), "utf8");
  return (JSON.parse(notes) as { pid: number }).pid;
}
