/**
 * Agents that make every mistake, against real sandboxes: each gets an error to act on.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { TestDaemon } from "../../../../tests/support/test-daemon.ts";
import { AgentFixture, agent, toolResults } from "../testing/agent-fixture.ts";
import type { ScriptedCall, ScriptedTurn } from "../testing/model-server.ts";

interface Failed {
  readonly error: { readonly code: string; readonly message: string };
}

let daemon: TestDaemon;
let fixture: AgentFixture;
beforeAll(async () => {
  daemon = await TestDaemon.start();
  fixture = await AgentFixture.start({
    daemon,
    agents: {
      coder: agent("sandbox: { mode: code }"),
      computer: agent("sandbox: python"),
      looper: agent("sandbox: { mode: code }\nmax_steps: 5"),
      hasty: agent("sandbox: { mode: code }\ntimeout_seconds: 15"),
    },
  });
});
afterAll(async () => {
  await fixture[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

const call = (name: string, given: object | string, id?: string): ScriptedCall => ({
  name,
  arguments: given,
  ...(id !== undefined && { id }),
});
const turn = (...calls: readonly ScriptedCall[]): ScriptedTurn => ({ calls });

/** The answers that the model got to these calls of one turn. */
async function answersTo(...calls: readonly ScriptedCall[]): Promise<Failed[]> {
  const numbered = calls.map((one, index) => ({ ...one, id: `call_${index}` }));
  const run = await fixture.run("coder", [turn(...numbered), { text: "I see." }]);
  expect(run.status).toBe("succeeded");
  return toolResults(fixture.model) as Failed[];
}

async function livingSessions(): Promise<readonly { readonly key?: string }[]> {
  const path = "/v1/sessions?status=running";
  return (await daemon.call<{ key?: string }[]>("GET", path)).body;
}

describe("errors that a model can act on", () => {
  test("wrong ids, wrong types, unknown fields and both spellings at once", async () => {
    const answers = await answersTo(
      call("sandbox_exec", { sandbox_id: "ses_000000000000000000000000", cmd: "true" }),
      call("sandbox_exec", { sandbox_id: "../../etc", cmd: "true" }),
      call("sandbox_exec", { cmd: 7 }),
      call("sandbox_exec", {}),
      call("sandbox_exec", { cmd: "true", command: "false" }),
      call("sandbox_exec", { cmd: "true", sandbox_id: "a", session_id: "b" }),
      call("sandbox_fs_write", { path: "a", contents: "x", content: "y" }),
      call("sandbox_fs_write", { path: "a", content: "x", overwriet: true }),
      call("sandbox_fs_read", { path: "missing.txt" }),
      call("sandbox_fs_write", { path: "../../../etc/passwd", content: "x" }),
      call("sandbox_exec_read", { exec_id: "exe_none" }),
      call("sandbox_open", { session_key: "agent:another-run:default" }),
      call("sandbox_open", { session_key: "no name" }),
    );
    expect(answers.map(({ error }) => error.code)).toEqual([
      "SANDBOX_NOT_FOUND",
      "SANDBOX_NOT_FOUND",
      "INVALID_INPUT",
      "INVALID_INPUT",
      "INVALID_INPUT",
      "INVALID_INPUT",
      "INVALID_INPUT",
      "INVALID_INPUT",
      "FILE_NOT_FOUND",
      expect.stringMatching(/REFUSED|INVALID_INPUT/),
      expect.stringMatching(/EXEC_NOT_FOUND|SANDBOX_NOT_FOUND/),
      "SANDBOX_NOT_FOUND",
      "SANDBOX_NOT_FOUND",
    ]);
    for (const { error } of answers) expect(error.message.length).toBeGreaterThan(10);
    expect(answers.at(-1)?.error.message).toMatch(/^There is no sandbox "no name" in this run/);
  });

  test("malformed calls, and tools of another mode", async () => {
    const answers = await answersTo(
      call("sandbox_exec", '{"cmd": ["ec'),
      call("sandbox_exec", '["echo"]'),
      call("sandbox_exec", '"echo"'),
      call("sandbox_run", { code: "1" }),
      call("sandbox_exe", { cmd: "true" }),
      call("__proto__", {}),
      call("", {}),
    );
    expect(answers.map(({ error }) => error.code)).toEqual([
      "INVALID_INPUT",
      "INVALID_INPUT",
      "INVALID_INPUT",
      "UNKNOWN_TOOL",
      "UNKNOWN_TOOL",
      "UNKNOWN_TOOL",
      "UNKNOWN_TOOL",
    ]);
    expect(answers[0]?.error.message).toMatch(/not valid JSON.*Send them again/);
    expect(answers[4]?.error.message).toMatch(/Did you mean sandbox_exec\?/);
  });
});

test("ten megabytes of arguments are written or refused by a limit, and not sent back to the model", async () => {
  const big = "x".repeat(10_000_000);
  const run = await fixture.run("coder", [
    { ...turn(call("sandbox_fs_write", { path: "big.txt", content: big })), pieceLength: 65_536 },
    {
      ...turn(
        call("sandbox_fs_write", { path: "more.txt", content: `${big}${big.slice(0, 2_000_000)}` }),
      ),
      pieceLength: 65_536,
    },
    turn(call("sandbox_exec", { command: "wc -c big.txt" })),
    { text: "Large." },
  ]);
  expect(run.status).toBe("succeeded");
  expect(toolResults(fixture.model)).toMatchObject([
    { ok: true, size_bytes: 10_000_000 },
    { error: { code: "LIMIT_EXCEEDED" } },
    { stdout: "10000000 big.txt\n" },
  ]);
  expect(JSON.stringify(fixture.model.requests.at(-1)?.body).length).toBeLessThan(300_000);
  const events = await fixture.eventsOf(run.run_id);
  expect(JSON.stringify(events).length).toBeLessThan(500_000);
});

test("a command that floods its output does not fill events or the model's context", async () => {
  const flood = "head -c 50000000 /dev/zero | tr '\\0' x; echo; echo done";
  const run = await fixture.run("coder", [
    turn(call("sandbox_exec", { command: flood })),
    { text: "Wet." },
  ]);
  expect(run.status).toBe("succeeded");
  const [result] = toolResults(fixture.model) as { stdout: string; stdout_bytes: number }[];
  expect(result).toMatchObject({ truncated: true, stdout_bytes: 50_000_006 });
  expect(result?.stdout).toMatch(/done\n$/);
  const events = await fixture.eventsOf(run.run_id);
  expect(JSON.stringify(events).length).toBeLessThan(600_000);
  expect(events.filter((event) => event["truncated"] === true)).toMatchObject([
    { type: "tool_output" },
  ]);
});

test("tool loops end at max_steps, and the sandbox with them", async () => {
  const run = await fixture.run("looper", [turn(call("sandbox_exec", { command: "echo again" }))]);
  expect(run).toMatchObject({ status: "failed", steps: 5, error: { code: "MAX_STEPS_EXCEEDED" } });
  expect(await livingSessions()).toEqual([]);
});

test("parallel calls in one turn share one sandbox, even if it does not exist yet", async () => {
  const names = Array.from({ length: 12 }, (_, index) => `f${index}`);
  const calls = names.map((name) =>
    call("sandbox_exec", { cmd: ["sh", "-c", `echo ${name} > ${name}`] }, name),
  );
  await fixture.run("coder", [
    turn(...calls),
    turn(call("sandbox_exec", { command: "ls | wc -l" })),
    { text: "All there." },
  ]);
  const results = toolResults(fixture.model) as { sandbox_id: string; stdout: string }[];
  expect(new Set(results.map(({ sandbox_id: id }) => id)).size).toBe(1);
  expect(results.at(-1)?.stdout.trim()).toBe("12");
});

test("another run's sandbox is reported exactly like one that does not exist", async () => {
  const owner = await AgentFixture.start({
    daemon,
    agents: { coder: agent("sandbox: { mode: code }") },
  });
  try {
    owner.model.play([turn(call("sandbox_open", {})), { text: "waiting", hang: true }]);
    const ownersRun = await owner.client.execute("coder", { task: "x" });
    const { output } = await owner.until(ownersRun, "tool_result");
    const theirs = (output as { sandbox_id: string }).sandbox_id;
    const none = "ses_ffffffffffffffffffffffff";
    const [stolen, unknown] = await answersTo(
      call("sandbox_exec", { sandbox_id: theirs, cmd: "id" }),
      call("sandbox_exec", { sandbox_id: none, cmd: "id" }),
    );
    expect(stolen?.error.code).toBe("SANDBOX_NOT_FOUND");
    expect(stolen?.error.message.replaceAll(theirs, "ID")).toBe(
      unknown?.error.message.replaceAll(none, "ID"),
    );
  } finally {
    await owner[Symbol.asyncDispose]();
  }
});

describe("time", () => {
  test("spent in the sandbox does not count towards the run's timeout", async () => {
    const run = await fixture.run("hasty", [
      turn(call("sandbox_exec", { command: "sleep 16; echo slept" })),
      { text: "Rested." },
    ]);
    expect(run).toMatchObject({ status: "succeeded", text: "Rested." });
  });

  test("of a command is limited by the call, which returns what it printed", async () => {
    await fixture.run("coder", [
      turn(call("sandbox_exec", { command: "echo early; sleep 60", timeout_seconds: 1 })),
      { text: "Too slow." },
    ]);
    expect(toolResults(fixture.model)).toMatchObject([
      { timed_out: true, exit_code: 124, stdout: "early\n" },
    ]);
  });
});

test("cancelling ends the command in the sandbox and the sandbox itself", async () => {
  fixture.model.play([turn(call("sandbox_exec", { command: "echo started; sleep 600" }))]);
  const id = await fixture.client.execute("coder", { task: "x" });
  await fixture.until(id, "tool_output");
  expect((await livingSessions()).map(({ key }) => key)).toEqual([`agent:${id}:default`]);
  await fixture.client.cancel(id);
  expect((await fixture.eventsOf(id)).at(-1)).toMatchObject({ status: "cancelled" });
  expect(await livingSessions()).toEqual([]);
});

test("a run whose sandboxes stop responding tells the model no addresses, paths or stacks", async () => {
  const fragile = await TestDaemon.start();
  const other = await AgentFixture.start({
    daemon: fragile,
    agents: { coder: agent("sandbox: { mode: code }") },
  });
  try {
    let turns = 0;
    other.model.play(({ messages }) => {
      turns += 1;
      if (turns === 1) return turn(call("sandbox_exec", { command: "true" }));
      if (turns === 2) {
        void fragile.kill();
        return turn(call("sandbox_exec", { command: "true" }, "again"));
      }
      return { text: messages.at(-1)?.content ?? "" };
    });
    const run = await other.client.executeAndWait("coder", { task: "x" });
    expect(run.text).toMatch(/cannot be reached/);
    for (const text of [run.text, JSON.stringify(other.model.requests.at(-1)?.body.messages)])
      expect(text).not.toMatch(/127\.0\.0\.1|https?:|ECONN|node_modules|packages\/|\.ts\b|\/tmp\//);
  } finally {
    await other[Symbol.asyncDispose]();
    await fragile[Symbol.asyncDispose]();
  }
});
