/** Commands in real sandboxes. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type TestAgent, ToolFixture } from "../testing/tool-fixture.ts";
import type { OutputPiece } from "../tool.ts";

let fixture: ToolFixture;
let agent: TestAgent;
beforeAll(async () => {
  fixture = await ToolFixture.start();
  agent = fixture.agent({ mode: "code" });
});
afterAll(async () => {
  await fixture[Symbol.asyncDispose]();
});

function range(first: number, last: number): string {
  return Array.from({ length: last - first + 1 }, (_, index) => `${first + index}\n`).join("");
}

/** All output after a number, page by page. */
async function readFrom(one: TestAgent, exec_id: string, from: number) {
  const read = { stdout: "", stderr: "" };
  for (let since_seq = from; ;) {
    const page = await one.call("sandbox_exec_read", { exec_id, since_seq });
    for (const { stream, text } of page.chunks) read[stream] += text;
    since_seq = page.next_seq;
    if (page.done) return read;
  }
}

describe("sandbox_exec", () => {
  it("opens the sandbox automatically, and text runs in a stateful shell", async () => {
    const one = fixture.agent({ mode: "code" });
    await one.call("sandbox_exec", { cmd: "cd /tmp && export GREETING=hello" });
    const result = await one.call("sandbox_exec", { command: 'echo "$GREETING from $PWD"' });
    expect(result).toMatchObject({
      status: "completed",
      exit_code: 0,
      stdout: "hello from /tmp\n",
      stderr: "",
      output: "hello from /tmp\n",
      cwd: "/tmp",
      stdout_bytes: 16,
      stderr_bytes: 0,
      truncated: false,
      timed_out: false,
    });
    expect(result.exec_id).toMatch(/^exe_/);
    expect(one.tool("sandbox_exec").forModel(result)).toEqual({
      exit_code: 0,
      stdout: "hello from /tmp\n",
      cwd: "/tmp",
      duration_ms: result.duration_ms,
    });
    expect(result.next_seq).toBeUndefined();
  });

  it("runs a list as a process, without a shell", async () => {
    const argv = ["printf", "%s|", "a b", "$HOME", "*"];
    const result = await agent.call("sandbox_exec", { cmd: argv });
    expect(result).toMatchObject({ exit_code: 0, stdout: "a b|$HOME|*|" });
  });

  it("respects `stateful`, in both directions", async () => {
    const fresh = { cmd: "cd /tmp; pwd", stateful: false };
    expect((await agent.call("sandbox_exec", fresh)).stdout).toBe("/tmp\n");
    expect((await agent.call("sandbox_exec", { cmd: "pwd" })).stdout).toBe("/workspace\n");
    await agent.call("sandbox_exec", { cmd: ["cd", "/usr"], stateful: true });
    expect((await agent.call("sandbox_exec", { cmd: "pwd" })).stdout).toBe("/usr\n");
    await agent.call("sandbox_exec", { cmd: "cd /workspace" });
  });

  it("accepts every spelling of the sandbox, the command, the directory and the timeout", async () => {
    const { sandbox_id: id } = await agent.call("sandbox_open");
    const alias = (await agent.call("sandbox_open")).session_alias ?? "";
    const key = (await agent.call("sandbox_open")).session_key;
    const inputs = [
      { sandbox_id: id, cmd: ["pwd"], cwd: "/tmp", timeout_seconds: 9 },
      { session_id: id, command: ["pwd"], workdir: "/tmp", timeout_ms: 9000 },
      { id, cmd: "pwd", command: "pwd", cwd: "/tmp", workdir: "/tmp" },
      { sandbox_id: alias, cmd: ["pwd"], cwd: "/tmp", timeout_seconds: null },
      { sandbox_id: alias.replace("agent_", ""), cmd: ["pwd"], cwd: "/tmp" },
      { sandbox_id: key, session_id: null, cmd: ["pwd"], cwd: "/tmp" },
    ];
    for (const input of inputs)
      expect(await agent.call("sandbox_exec", input)).toMatchObject({
        sandbox_id: id,
        session_id: id,
        stdout: "/tmp\n",
      });
  });

  it("ends a command after its timeout, with its output so far", async () => {
    const input = { cmd: "echo begun; echo bad >&2; sleep 1000; echo never", timeout_ms: 700 };
    const result = await agent.call("sandbox_exec", input);
    expect(result).toMatchObject({
      status: "completed",
      exit_code: 124,
      timed_out: true,
      end_reason: "timeout",
      stdout: "begun\n",
      stderr: "bad\n",
    });
    expect(result.error).toMatch(/timeout of 0\.7 s/);
    expect((await agent.call("sandbox_exec", { cmd: "echo shell lives" })).exit_code).toBe(0);
  });

  it("lowers a timeout to the administrator's maximum, and says so", async () => {
    const one = fixture.agent({ mode: "code" }, { policy: { maxTimeoutSeconds: 1 } });
    const result = await one.call("sandbox_exec", { cmd: "sleep 1000", timeout_seconds: 600 });
    expect(result).toMatchObject({ exit_code: 124, timed_out: true, timeout_seconds: 1 });
  });

  it("returns the beginning and end of long output, its size, and where to read the rest", async () => {
    const one = fixture.agent({ mode: "code", max_stdout_bytes: 1000, max_stderr_bytes: 500 });
    const cmd = "seq 1 20000; seq 30000 50000 >&2";
    const result = await one.call("sandbox_exec", { cmd: ["bash", "-c", cmd] });
    const { stdout = "", stderr = "", next_seq: from = 0, exec_id } = result;
    expect(result).toMatchObject({ truncated: true, stdout_bytes: 108_894, stderr_bytes: 120_006 });
    expect(stdout).toMatch(/^1\n2\n3\n/);
    expect(stdout).toMatch(/\[… \d+ bytes omitted …\]/);
    expect(stderr).toMatch(/\n49999\n50000\n$/);
    expect(Buffer.byteLength(stdout)).toBeLessThan(1100);
    expect(Buffer.byteLength(stderr)).toBeLessThan(600);

    // A model is told where to continue, but not what it already knows.
    expect(Object.keys(one.tool("sandbox_exec").forModel(result) as object).toSorted()).toEqual(
      "cwd duration_ms exec_id exit_code next_seq stderr stderr_bytes stdout stdout_bytes truncated".split(
        " ",
      ),
    );
    expect(await readFrom(one, exec_id, from)).toEqual({
      stdout: `${range(1, 20_000)}`,
      stderr: `${range(30_000, 50_000)}`,
    });
  });

  it("continues exactly where the shown beginning of one stream ends", async () => {
    const one = fixture.agent({ mode: "code", max_stdout_bytes: 1000, max_stderr_bytes: 500 });
    const cmd = ["seq", "--separator=é", "1", "20000"];
    const { stdout = "", next_seq: from = 0, exec_id } = await one.call("sandbox_exec", { cmd });
    expect(from).toBeGreaterThan(400);
    const shown = Buffer.from(stdout).subarray(0, from).toString();
    const rest = await readFrom(one, exec_id, from);
    expect(shown + rest.stdout).toBe(range(1, 20_000).trimEnd().replaceAll("\n", "é") + "\n");
  });

  it("streams output while the command runs, and returns the same result", async () => {
    const pieces: OutputPiece[] = [];
    const seen = Promise.withResolvers<void>();
    const running = agent.call(
      "sandbox_exec",
      { cmd: "echo first; until test -e /tmp/go; do sleep 0.05; done; echo second >&2; exit 3" },
      {
        onOutput: (piece) => {
          pieces.push(piece);
          seen.resolve();
        },
      },
    );
    await seen.promise;
    expect(pieces).toEqual([{ stream: "stdout", text: "first\n" }]);
    await agent.call("sandbox_exec", { cmd: ["touch", "/tmp/go"] });
    expect(await running).toMatchObject({
      exit_code: 3,
      stdout: "first\n",
      stderr: "second\n",
      timed_out: false,
    });
    expect(pieces.at(-1)).toEqual({ stream: "stderr", text: "second\n" });
  });

  it("ends a streamed command after its timeout like one without streaming", async () => {
    const input = { cmd: "echo begun; sleep 1000", timeout_ms: 500 };
    const result = await agent.call("sandbox_exec", input, { onOutput: () => {} });
    expect(result).toMatchObject({ exit_code: 124, timed_out: true, stdout: "begun\n" });
  });

  it.each([undefined, () => {}])(
    "cancels the command when the call is aborted",
    async (onOutput) => {
      const abort = new AbortController();
      const marker = `/tmp/started-${crypto.randomUUID()}`;
      const running = agent.call(
        "sandbox_exec",
        { cmd: ["sh", "-c", `echo $$ > ${marker}; sleep 1000`] },
        { signal: abort.signal, onOutput },
      );
      const started = `until test -s ${marker}; do sleep 0.05; done; cat ${marker}`;
      const { stdout: pid = "" } = await agent.call("sandbox_exec", { cmd: ["sh", "-c", started] });
      abort.abort();
      await expect(running).rejects.toMatchObject({ name: "ToolError", code: "CANCELLED" });
      const gone = `for i in $(seq 200); do kill -0 ${pid.trim()} 2>/dev/null || exit 0; sleep 0.05; done; exit 1`;
      expect((await agent.call("sandbox_exec", { cmd: ["sh", "-c", gone] })).exit_code).toBe(0);
    },
  );

  it("reports the kernel's kill at the memory limit, and signals", async () => {
    const hungry = ["python3", "-c", "print('x', flush=True); bytearray(1 << 30)"];
    const result = await agent.call("sandbox_exec", { cmd: hungry });
    expect(result).toMatchObject({ exit_code: 137, end_reason: "oom", stdout: "x\n" });
    expect(result.error).toMatch(/memory limit of 128 MiB/);
    const killed = await agent.call("sandbox_exec", { cmd: ["sh", "-c", "kill -9 $$"] });
    expect(killed).toMatchObject({ exit_code: 137, end_reason: "killed" });
  });

  it("says that the shell is a new one after the old one ended", async () => {
    const one = fixture.agent({ mode: "code" });
    await one.call("sandbox_exec", { cmd: "export KEPT=1" });
    await one.call("sandbox_exec", { cmd: "exit 5" });
    const result = await one.call("sandbox_exec", { cmd: 'echo "[$KEPT]"' });
    expect(result).toMatchObject({ stdout: "[]\n", shell_restarted: true });
  });

  it("runs parallel calls in one sandbox, each to its own result", async () => {
    const one = fixture.agent({ mode: "code" });
    const results = await Promise.all([
      ...Array.from({ length: 8 }, (_, index) =>
        one.call("sandbox_exec", { cmd: ["sh", "-c", `sleep 0.1; echo process ${index}`] }),
      ),
      ...Array.from({ length: 8 }, (_, index) =>
        one.call("sandbox_exec", { cmd: `N=${index}; sleep 0.02; echo "shell $N"` }),
      ),
      ...Array.from({ length: 8 }, (_, index) =>
        one.call("sandbox_fs_write", { path: `${index}.txt`, contents: `file ${index}` }),
      ),
    ]);
    const printed = results.map((result) => ("stdout" in result ? result.stdout : undefined));
    expect(printed.slice(0, 16)).toEqual([
      ...Array.from({ length: 8 }, (_, index) => `process ${index}\n`),
      ...Array.from({ length: 8 }, (_, index) => `shell ${index}\n`),
    ]);
    const { entries } = await one.call("sandbox_fs_list");
    expect(entries.map(({ name }) => name).toSorted()).toEqual(
      Array.from({ length: 8 }, (_, index) => `${index}.txt`),
    );
    expect(
      new Set(results.slice(0, 16).map((one_) => "sandbox_id" in one_ && one_.sandbox_id)).size,
    ).toBe(1);
  });
});

describe("a command started with stream", () => {
  it("can be read from its first chunk, and waited for", async () => {
    const cmd =
      "for i in 1 2 3; do echo out $i; sleep 0.1; echo err $i >&2; sleep 0.1; done; exit 4";
    const started = await agent.call("sandbox_exec", { cmd: ["bash", "-c", cmd], stream: true });
    expect(started).toMatchObject({ status: "running", next_seq: 0 });
    expect(started.exit_code).toBeUndefined();
    const { exec_id } = started;
    expect(await agent.call("sandbox_exec_wait", { exec_id })).toMatchObject({
      done: true,
      status: "completed",
      exit_code: 4,
      timed_out: false,
      stdout_bytes: 18,
      stderr_bytes: 18,
    });
    const all = await agent.call("sandbox_exec_read", { exec_id });
    expect(all.chunks.map(({ stream, text }) => [stream, text])).toEqual([
      ["stdout", "out 1\n"],
      ["stderr", "err 1\n"],
      ["stdout", "out 2\n"],
      ["stderr", "err 2\n"],
      ["stdout", "out 3\n"],
      ["stderr", "err 3\n"],
    ]);
    expect(all).toMatchObject({ done: true, exit_code: 4 });

    // Two at a time, from the omitted beginning on, and from any chunk's own number.
    const first = await agent.call("sandbox_exec_read", { exec_id, max_chunks: 2 });
    expect(first.chunks).toEqual(all.chunks.slice(0, 2));
    expect(first.done).toBe(false);
    const second = await agent.call("sandbox_exec_read", {
      exec_id,
      since_seq: first.next_seq,
      max_chunks: 2,
    });
    expect(second.chunks).toEqual(all.chunks.slice(2, 4));
    const since = second.chunks.at(-1)?.seq;
    const third = await agent.call("sandbox_exec_read", { exec_id, since_seq: since });
    expect(third.chunks).toEqual(all.chunks.slice(4));
    expect(third).toMatchObject({ done: true });
  });

  it("is still running if the wait is shorter, and continues", async () => {
    const started = await agent.call("sandbox_exec", {
      cmd: ["sh", "-c", "until test -e /tmp/enough; do sleep 0.05; done; echo end"],
      stream: true,
    });
    const { exec_id } = started;
    const waited = await agent.call("sandbox_exec_wait", { exec_id, timeout_seconds: 0.2 });
    expect(waited).toMatchObject({ done: false, status: "running" });
    expect(waited.exit_code).toBeUndefined();
    const early = await agent.call("sandbox_exec_read", { exec_id });
    expect(early).toMatchObject({ chunks: [], done: false, status: "running", next_seq: 0 });
    await agent.call("sandbox_exec", { cmd: ["touch", "/tmp/enough"] });
    const late = await agent.call("sandbox_exec_read", { exec_id, wait_seconds: 30 });
    expect(late.chunks.map(({ text }) => text)).toEqual(["end\n"]);
  });

  it("never splits a character between pages", async () => {
    const one = fixture.agent({ mode: "code", max_stdout_bytes: 4, max_stderr_bytes: 3 });
    const text = "aé€😀".repeat(20);
    const { exec_id } = await one.call("sandbox_exec", { cmd: ["printf", "%s", text] });
    const pieces: string[] = [];
    for (let since_seq = 0; ;) {
      const page = await one.call("sandbox_exec_read", { exec_id, since_seq });
      pieces.push(...page.chunks.map((chunk) => chunk.text));
      since_seq = page.next_seq;
      if (page.done) break;
    }
    expect(pieces.length).toBeGreaterThan(10);
    expect(pieces.join("")).toBe(text);
  });

  it("ends when the call that waits for it is aborted", async () => {
    const { exec_id } = await agent.call("sandbox_exec", { cmd: ["sleep", "1000"], stream: true });
    const abort = new AbortController();
    const waiting = agent.call("sandbox_exec_wait", { exec_id }, { signal: abort.signal });
    await agent.call("sandbox_exec", { cmd: ["true"] });
    abort.abort();
    await expect(waiting).rejects.toMatchObject({ code: "CANCELLED" });
    expect(await agent.call("sandbox_exec_wait", { exec_id })).toMatchObject({
      done: true,
      exit_code: 130,
      end_reason: "cancelled",
    });
  });

  it("returns an error if it does not exist", async () => {
    for (const name of ["sandbox_exec_read", "sandbox_exec_wait"] as const)
      await expect(agent.call(name, { exec_id: "exe_nothing" })).rejects.toMatchObject({
        code: "EXEC_NOT_FOUND",
      });
  });
});
