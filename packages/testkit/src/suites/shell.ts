/** What the stateful shell must preserve. */
import { expect, it } from "vitest";
import type { FixtureOf } from "../channel-fixture.ts";
import { chunksOf, contentOf, newExecId, run } from "./run-command.ts";

export function shellSuite(fixture: FixtureOf): void {
  it("keeps its directory and variables from one command to the next", async () => {
    const { channel } = fixture();
    await channel.makeDirectory("kept dir");
    await run(channel, "cd 'kept dir'");
    await run(channel, "export KEPT='a value'");
    const { stdout, end } = await run(channel, 'pwd; echo "$KEPT"');
    expect(stdout).toMatch(/\/kept dir\na value\n$/);
    expect(end.cwd).toMatch(/\/kept dir$/);
  });

  it("gives a command its own directory and variables, and restores them", async () => {
    const { channel } = fixture();
    const { path } = await channel.makeDirectory("given");
    await run(channel, "export GIVEN=before");
    const before = (await run(channel, "pwd")).stdout;
    const options = { cwd: "given", env: { GIVEN: "it's one=two", SECRET: "x" } };
    const given = await run(channel, 'pwd; echo "$GIVEN"; printenv SECRET', options);
    expect(given.stdout).toBe(`${path}\nit's one=two\nx\n`);
    expect(`${given.end.cwd ?? ""}\n`).toBe(before);
    const after = await run(channel, 'pwd; echo "$GIVEN <$SECRET>"');
    expect(after.stdout).toBe(`${before}before <>\n`);
  });

  it.each([
    ["true", 0],
    ["false", 1],
    ["false\ntrue", 0],
    ["false && echo never", 1],
    ["no-such-program-anywhere", 127],
  ])("reports the exit code of %j", async (text, exitCode) => {
    const { end, stdout } = await run(fixture().channel, text);
    expect(end).toMatchObject({ reason: "exited", exitCode, shellRestarted: false });
    expect(stdout).toBe("");
  });

  it("treats an unfinished quote as an error of that command, not a hang", async () => {
    const { channel } = fixture();
    const { end, stderr } = await run(channel, "echo 'unfinished");
    expect(end.reason).toBe("exited");
    expect(end.exitCode).not.toBe(0);
    expect(stderr).not.toBe("");
    expect((await run(channel, "echo next")).stdout).toBe("next\n");
  });

  it("ends a command after its timeout, keeps its output, and continues with its state", async () => {
    const { channel } = fixture();
    await run(channel, "export BEFORE=still-here");
    const { end, stdout } = await run(channel, "echo partial; sleep 60; echo never", {
      timeoutMs: 300,
    });
    expect(end).toMatchObject({ reason: "timeout", exitCode: 124 });
    expect(stdout).toBe("partial\n");
    const after = await run(channel, 'echo "$BEFORE"');
    expect(after.stdout).toBe("still-here\n");
    expect(after.end).toMatchObject({ exitCode: 0, shellRestarted: false });
  });

  it("ends a command that is silent for too long", async () => {
    const { end } = await run(fixture().channel, "sleep 60", { idleTimeoutMs: 300 });
    expect(end).toMatchObject({ reason: "idle_timeout", exitCode: 124 });
  });

  it("starts again in the same directory after `exit`, and reports this with that command and the next", async () => {
    const { channel } = fixture();
    const { path } = await channel.makeDirectory("before-exit");
    await run(channel, `cd ${path}; export LOST=yes`);
    expect((await run(channel, "exit 3")).end).toMatchObject({
      reason: "exited",
      exitCode: 3,
      shellRestarted: true,
    });
    const first = await run(channel, 'pwd; echo "<$LOST>"');
    expect(first.stdout).toBe(`${path}\n<>\n`);
    expect(first.end.shellRestarted).toBe(true);
    expect((await run(channel, "true")).end.shellRestarted).toBe(false);
  });

  it("runs its commands one after the other, in their order", async () => {
    const { channel } = fixture();
    const path = (await channel.writeFile("order.log", Buffer.alloc(0))).path;
    await Promise.all([
      run(channel, `sleep 0.3; echo first >> ${path}`),
      run(channel, `echo second >> ${path}`),
      run(channel, `echo third >> ${path}`),
    ]);
    expect((await contentOf(channel, path)).toString()).toBe("first\nsecond\nthird\n");
  });

  it("reads no input unless it was given, and then exactly that", async () => {
    const { channel } = fixture();
    expect((await run(channel, "cat")).stdout).toBe("");
    const exec = await channel.exec(
      { kind: "shell", text: "cat; echo after" },
      { execId: newExecId(), stdin: true },
    );
    await exec.writeStdin(Buffer.from("typed "));
    await exec.writeStdin(Buffer.from("in\n"));
    await exec.closeStdin();
    const chunks = await chunksOf(exec);
    expect(Buffer.concat(chunks.map((c) => c.bytes)).toString()).toBe("typed in\nafter\n");
    expect((await run(channel, "echo next")).stdout).toBe("next\n");
  });

  it("gets input that is complete and closed before the shell reads it", async () => {
    const { channel } = fixture();
    for (let i = 0; i < 20; i++) {
      const exec = await channel.exec(
        { kind: "shell", text: "cat" },
        { execId: newExecId(), stdin: true },
      );
      await exec.writeStdin(Buffer.from("early"));
      await exec.closeStdin();
      const chunks = await chunksOf(exec);
      expect(Buffer.concat(chunks.map((c) => c.bytes)).toString()).toBe("early");
    }
  });

  it("accepts a command text larger than any window", async () => {
    const word = "x".repeat(400_000);
    expect((await run(fixture().channel, `echo ${word}`)).stdout).toBe(`${word}\n`);
  });

  it("does not wait for background processes of a command, whose output can still be followed", async () => {
    const { channel } = fixture();
    const { execId, stdout, end } = await run(channel, "sleep 1 && echo late &\necho prompt");
    expect(stdout).toBe("prompt\n");
    expect(end).toMatchObject({ reason: "exited", outputOpen: true });
    const offset = end.stdoutBytes + end.stderrBytes;
    const rest = await channel.attach(execId, { offset, until: "closed" });
    const chunks = await chunksOf(rest);
    expect(Buffer.concat(chunks.map((c) => c.bytes)).toString()).toBe("late\n");
  });

  it("reports that no more output can arrive for a command without background processes", async () => {
    const { channel } = fixture();
    for (let i = 0; i < 10; i++) {
      expect((await run(channel, "echo out; echo err >&2")).end.outputOpen).toBe(false);
      expect((await run(channel, ["echo", "out"])).end.outputOpen).toBe(false);
    }
  });
}
