/** A stopped daemon or a frozen sandbox does not count the time that it could not observe. */
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, inject, it } from "vitest";
import { runnerOf, TestDaemon } from "../support/test-daemon.ts";

let daemon: TestDaemon;
beforeEach(async () => {
  daemon = await TestDaemon.start();
});
afterEach(async () => {
  await daemon[Symbol.asyncDispose]();
});

describe("a daemon that was stopped", () => {
  it("delivers the result of a command that finished in the meantime", async () => {
    const id = await daemon.open();
    const { body } = await daemon.call("POST", `/v1/sessions/${id}/execs`, {
      cmd: "echo begun; sleep 1; echo done",
      timeout_ms: 2_500,
    });
    const exec = `/v1/sessions/${id}/execs/${String(body["exec_id"])}`;
    const begun = await daemon.call("GET", `${exec}/output?wait_ms=10000`);
    expect(begun.body).toMatchObject({ next_cursor: 6, done: false });
    const answer = daemon.call("POST", `${exec}/wait`, {});
    process.kill(daemon.pid, "SIGSTOP");
    // Longer than the command's timeout, and than the tolerance for its end.
    await sleep(14_000);
    process.kill(daemon.pid, "SIGCONT");
    expect(await answer).toMatchObject({
      status: 200,
      body: { end_reason: "exited", exit_code: 0, output: "begun\ndone\n" },
    });
  });

  it("answers waits with what happened in the meantime, even if their time has passed", async () => {
    const id = await daemon.open();
    const start = async (cmd: string): Promise<string> => {
      const { body } = await daemon.call("POST", `/v1/sessions/${id}/execs`, {
        cmd: ["sh", "-c", cmd],
      });
      const exec = `/v1/sessions/${id}/execs/${String(body["exec_id"])}`;
      await daemon.call("GET", `${exec}/output?wait_ms=10000`);
      return exec;
    };
    const [ends, prints, stays] = await Promise.all([
      start("echo begun; sleep 1; echo done"),
      start("echo begun; sleep 1; echo ready; sleep 60"),
      start("echo begun; sleep 60"),
    ]);
    const until = { pattern: "ready" };
    const answers = Promise.all([
      daemon.call("POST", `${ends}/wait`, { wait_ms: 3_000 }),
      daemon.call("POST", `${prints}/wait`, { wait_ms: 3_000, until }),
      daemon.call("GET", `${prints}/output?cursor=6&wait_ms=3000`),
      daemon.call("POST", `${stays}/wait`, { wait_ms: 3_000 }),
    ]);
    await sleep(300);
    process.kill(daemon.pid, "SIGSTOP");
    await sleep(6_000);
    process.kill(daemon.pid, "SIGCONT");
    const [ended, matched, page, stayed] = await answers;
    expect(ended.body).toMatchObject({ status: "done", output: "begun\ndone\n" });
    expect(matched.body).toMatchObject({ status: "running", matched: true });
    expect(page.body).toMatchObject({ next_cursor: 12 });
    expect(stayed.body).toMatchObject({ status: "running", output: "begun\n" });
  });
});

describe("a sandbox that is paused", () => {
  it("does not hold up the stop of a daemon that took it over", async () => {
    const id = await daemon.open();
    const { body } = await daemon.call("POST", `/v1/sessions/${id}/execs`, { cmd: "sleep 1000" });
    await daemon.call("POST", `/v1/sessions/${id}/pause`);
    await daemon.kill();
    await daemon.run();
    const exec = `/v1/sessions/${id}/execs/${String(body["exec_id"])}`;
    expect((await daemon.call("GET", exec)).body).toMatchObject({ status: "running" });
    expect(await daemon.kill("SIGTERM")).toBe(0);
    await daemon.run();
    expect((await daemon.call("POST", `/v1/sessions/${id}/resume`)).status).toBe(200);
    expect((await daemon.call("GET", exec)).body).toMatchObject({ status: "running" });
  });
});

describe("a sandbox that was frozen", () => {
  it.runIf(inject("isTorture"))(
    "continues its commands, for the same daemon and for the next",
    async () => {
      const id = await daemon.open();
      const start = async (seconds: number): Promise<string> => {
        const cmd = ["sh", "-c", `echo begun; sleep ${seconds}; echo done`];
        const { body } = await daemon.call("POST", `/v1/sessions/${id}/execs`, { cmd });
        const exec = `/v1/sessions/${id}/execs/${String(body["exec_id"])}`;
        await daemon.call("GET", `${exec}/output?wait_ms=10000`);
        return exec;
      };
      const result = { end_reason: "exited", exit_code: 0, output: "begun\ndone\n" };
      const first = await start(5);
      const runner = await runnerOf(daemon);
      process.kill(runner, "SIGSTOP");
      // The keepalive, its answer and the first attempts to reconnect all fail.
      await sleep(50_000);
      process.kill(runner, "SIGCONT");
      expect((await daemon.call("POST", `${first}/wait`, {})).body).toMatchObject(result);
      const second = await start(2);
      process.kill(runner, "SIGSTOP");
      await daemon.kill();
      await daemon.run();
      const waiting = daemon.call("POST", `${second}/wait`, {});
      await sleep(20_000);
      process.kill(runner, "SIGCONT");
      expect((await waiting).body).toMatchObject(result);
    },
  );
});
