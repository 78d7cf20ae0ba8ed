/** Commands of both kinds, and separate processes. */
import { expect, it } from "vitest";
import type { FixtureOf } from "../channel-fixture.ts";
import { chunksOf, contentOf, newExecId, run, textOf, withCode } from "./run-command.ts";

export function execSuite(fixture: FixtureOf): void {
  it("runs a program with its arguments unchanged", async () => {
    const { stdout, end } = await run(fixture().channel, ["echo", "a  b", "$HOME", "*"]);
    expect(stdout).toBe("a  b $HOME *\n");
    expect(end).toMatchObject({ reason: "exited", exitCode: 0 });
    expect(end.cwd).toBeUndefined();
  });

  it("gives a process its directory and variables, and none of the shell's", async () => {
    const { channel } = fixture();
    const { path } = await channel.makeDirectory("elsewhere");
    await run(channel, "export ONLY_SHELL=1; cd elsewhere");
    const workspace = (await run(channel, ["pwd"])).stdout;
    expect(workspace).not.toBe(`${path}\n`);
    expect((await run(channel, ["pwd"], { cwd: path })).stdout).toBe(`${path}\n`);
    expect((await run(channel, ["printenv", "GIVEN"], { env: { GIVEN: "x" } })).stdout).toBe("x\n");
    expect((await run(channel, ["printenv", "ONLY_SHELL"])).end.exitCode).toBe(1);
  });

  it("returns 127 for a program that does not exist", async () => {
    const { end } = await run(fixture().channel, ["no-such-program-anywhere"]);
    expect(end).toMatchObject({ reason: "exited", exitCode: 127 });
  });

  it("never runs a command with the same id twice", async () => {
    const { channel } = fixture();
    const { path } = await channel.writeFile("count.log", Buffer.alloc(0));
    const execId = newExecId();
    const [first, second] = await Promise.all([
      run(channel, `echo ran >> ${path}`, { execId }),
      run(channel, `echo ran >> ${path}`, { execId }),
    ]);
    const third = await run(channel, `echo ran >> ${path}`, { execId });
    expect((await contentOf(channel, path)).toString()).toBe("ran\n");
    for (const { end } of [first, second, third])
      expect(end).toMatchObject({ execId, reason: "exited", exitCode: 0 });
  });

  it("runs processes in parallel with each other and the shell", async () => {
    const { channel } = fixture();
    const execId = newExecId();
    const busy = await channel.exec({ kind: "shell", text: "sleep 60" }, { execId });
    const results = await Promise.all(
      Array.from({ length: 8 }, (_, i) => run(channel, ["echo", String(i)])),
    );
    expect(results.map((r) => r.stdout)).toEqual(
      Array.from({ length: 8 }, (_, i) => `${String(i)}\n`),
    );
    const states = new Map((await channel.listExecs()).map((exec) => [exec.execId, exec.state]));
    expect(states.get(execId)).toBe("running");
    await channel.signal(execId, 9, { tree: true });
    expect((await busy.ended).reason).toBe("killed");
  });

  it("ends a process with a signal and reports it", async () => {
    const { channel } = fixture();
    const execId = newExecId();
    const exec = await channel.exec({ kind: "process", argv: ["sleep", "60"] }, { execId });
    expect(await channel.signal(execId, 15)).toBe(1);
    expect(await exec.ended).toMatchObject({ reason: "killed", exitCode: 143, signal: 15 });
    expect(await channel.signal(execId, 15)).toBe(0);
  });

  it("ends a process after its timeout", async () => {
    const { end } = await run(fixture().channel, ["sleep", "60"], { timeoutMs: 200 });
    expect(end).toMatchObject({ reason: "timeout", exitCode: 124 });
  });

  it("streams stdin to a process while it runs", async () => {
    const exec = await fixture().channel.exec(
      { kind: "process", argv: ["cat"] },
      { execId: newExecId(), stdin: true },
    );
    const output = exec[Symbol.asyncIterator]();
    for (const line of ["one\n", "two\n"]) {
      await exec.writeStdin(Buffer.from(line));
      const next = await output.next();
      expect(next.done === true ? undefined : Buffer.from(next.value.bytes).toString()).toBe(line);
    }
    await exec.closeStdin();
    expect((await output.next()).done).toBe(true);
    expect(await exec.ended).toMatchObject({ exitCode: 0 });
    await expect(exec.writeStdin(Buffer.from("more"))).rejects.toMatchObject(withCode("CONFLICT"));
  });

  it("refuses input for a command that was started without stdin", async () => {
    const exec = await fixture().channel.exec(
      { kind: "process", argv: ["true"] },
      { execId: newExecId() },
    );
    await expect(exec.writeStdin(Buffer.from("x"))).rejects.toMatchObject(withCode("CONFLICT"));
    await exec.ended;
  });

  it("runs a process on a terminal that can be resized", async () => {
    const { channel } = fixture();
    const execId = newExecId();
    const argv = ["sh", "-c", "read line; stty size"];
    const command = { kind: "process", argv, pty: { rows: 24, cols: 80 } } as const;
    const exec = await channel.exec(command, { execId, stdin: true });
    await channel.resize(execId, { rows: 50, cols: 132 });
    await exec.writeStdin(Buffer.from("\n"));
    // A real terminal echoes its input.
    expect(textOf(await chunksOf(exec)).trim()).toBe("50 132");
    const tty = await channel.exec({ ...command, argv: ["tty"] }, { execId: newExecId() });
    expect(textOf(await chunksOf(tty))).toMatch(/^\/dev\//);
    expect((await run(channel, ["tty"])).end.exitCode).toBe(1);
  });

  it("ends the input of a terminal without affecting other commands", async () => {
    const { channel } = fixture();
    const beside = await channel.exec(
      { kind: "process", argv: ["sleep", "1"] },
      { execId: newExecId() },
    );
    for (const typed of ["whole line\n", "part of a line", ""]) {
      const exec = await channel.exec(
        { kind: "process", argv: ["cat"], pty: { rows: 24, cols: 80 } },
        { execId: newExecId(), stdin: true },
      );
      if (typed !== "") await exec.writeStdin(Buffer.from(typed));
      await exec.closeStdin();
      expect(textOf(await chunksOf(exec))).toContain(typed.trimEnd());
      expect(await exec.ended).toMatchObject({ reason: "exited", exitCode: 0 });
    }
    expect(await beside.ended).toMatchObject({ reason: "exited", exitCode: 0 });
  });

  it("lists commands with their results until they are forgotten", async () => {
    const { channel } = fixture();
    const { execId } = await run(channel, ["false"]);
    const listed = (await channel.listExecs()).find((exec) => exec.execId === execId);
    expect(listed).toMatchObject({
      mode: "process",
      state: "done",
      end: { reason: "exited", exitCode: 1 },
    });
    await channel.forgetExec(execId);
    expect((await channel.listExecs()).some((exec) => exec.execId === execId)).toBe(false);
    await expect(channel.attach(execId)).rejects.toMatchObject(withCode("EXEC_NOT_FOUND"));
    await expect(channel.signal(execId, 15)).rejects.toMatchObject(withCode("EXEC_NOT_FOUND"));
    await expect(channel.forgetExec(execId)).rejects.toMatchObject(withCode("EXEC_NOT_FOUND"));
  });

  it("does not forget a running command", async () => {
    const { channel } = fixture();
    const execId = newExecId();
    const exec = await channel.exec({ kind: "process", argv: ["sleep", "60"] }, { execId });
    await expect(channel.forgetExec(execId)).rejects.toMatchObject(withCode("CONFLICT"));
    await channel.signal(execId, 9);
    await exec.ended;
  });

  it("refuses an invalid id", async () => {
    for (const execId of ["", "a b", "../x", "x".repeat(65)]) {
      await expect(
        fixture().channel.exec({ kind: "shell", text: "true" }, { execId }),
      ).rejects.toMatchObject(withCode("INVALID_REQUEST"));
    }
  });
}
