/** Several shells in one sandbox, each with separate state, and cancelled commands. */
import { expect, it } from "vitest";
import type { FixtureOf } from "../channel-fixture.ts";
import type { Channel, ExecEnd, ExecStream } from "../ports.ts";
import { chunksOf, newExecId, run, textOf, withCode } from "./run-command.ts";

function start(channel: Channel, text: string, shell?: string): Promise<ExecStream> {
  const command = { kind: "shell", text, ...(shell !== undefined && { shell }) } as const;
  return channel.exec(command, { execId: newExecId() });
}

async function runIn(
  channel: Channel,
  shell: string,
  text: string,
): Promise<{ readonly stdout: string; readonly end: ExecEnd }> {
  const exec = await start(channel, text, shell);
  return { stdout: textOf(await chunksOf(exec), "stdout"), end: await exec.ended };
}

export function namedShellSuite(fixture: FixtureOf): void {
  it("keeps separate directories and variables for each shell", async () => {
    const { channel } = fixture();
    const { path } = await channel.makeDirectory("apart");
    await runIn(channel, "one", `cd ${path}`);
    await runIn(channel, "one", "export WHO=one");
    await runIn(channel, "two", "export WHO=two");
    expect((await runIn(channel, "one", 'pwd; echo "$WHO"')).stdout).toBe(`${path}\none\n`);
    expect((await runIn(channel, "two", 'echo "$WHO"')).stdout).toBe("two\n");
    const other = await run(channel, 'pwd; echo "<$WHO>"');
    expect(other.stdout).toMatch(/\n<>\n$/);
    expect(other.stdout).not.toContain(path);
    expect((await runIn(channel, "default", 'echo "<$WHO>"')).stdout).toBe("<>\n");
  });

  it("runs commands of different shells in parallel", async () => {
    const { channel } = fixture();
    const busy = await start(channel, "sleep 60", "slow");
    expect((await runIn(channel, "quick", "echo done")).stdout).toBe("done\n");
    expect(await channel.cancel(busy.execId)).toBe(true);
    await busy.ended;
  });

  it("lists shells with their directories and running commands", async () => {
    const { channel } = fixture();
    const { path } = await channel.makeDirectory("listed");
    await runIn(channel, "idle-one", `cd ${path}`);
    const busy = await start(channel, "sleep 60", "busy.one");
    const shells = new Map((await channel.shells()).map((shell) => [shell.name, shell]));
    expect(shells.get("default")).toMatchObject({ busy: false });
    expect(shells.get("idle-one")).toMatchObject({ busy: false, cwd: path });
    expect(shells.get("idle-one")?.execId).toBeUndefined();
    expect(shells.get("busy.one")).toMatchObject({ busy: true, execId: busy.execId });
    await channel.closeShell("busy.one");
    await busy.ended;
  });

  it("closes a shell: its command is cancelled, and its name is available for a new one", async () => {
    const { channel } = fixture();
    await runIn(channel, "closed", "export OLD=1");
    const running = await start(channel, "sleep 60", "closed");
    const queued = start(channel, "echo never", "closed");
    await channel.closeShell("closed");
    expect(await running.ended).toMatchObject({ reason: "cancelled" });
    const waited = await queued;
    expect(textOf(await chunksOf(waited))).toBe("");
    expect(await waited.ended).toMatchObject({ reason: "cancelled" });
    const fresh = await runIn(channel, "closed", 'echo "<$OLD>"');
    expect(fresh.stdout).toBe("<>\n");
    expect(fresh.end.shellRestarted).toBe(false);
    await channel.closeShell("closed");
    await expect(channel.closeShell("closed")).rejects.toMatchObject(withCode("SHELL_NOT_FOUND"));
  });

  it("limits the number of shells", async () => {
    const { channel } = fixture();
    const before = new Set((await channel.shells()).map((shell) => shell.name));
    const made: string[] = [];
    const refused = await (async () => {
      for (let i = 0; i < 40; i++) {
        try {
          await runIn(channel, `many-${String(i)}`, "true");
        } catch (error) {
          return error;
        }
        made.push(`many-${String(i)}`);
      }
      return undefined;
    })();
    expect(refused).toMatchObject(withCode("QUOTA_EXCEEDED"));
    expect(before.size + made.length).toBe(16);
    for (const name of made) await channel.closeShell(name);
    expect((await runIn(channel, "after-many", "echo on")).stdout).toBe("on\n");
    await channel.closeShell("after-many");
  });

  it.each(["", "-a", ".a", "a b", "a/b", "x".repeat(65)])(
    "refuses %j as the name of a shell",
    async (shell) => {
      await expect(start(fixture().channel, "true", shell)).rejects.toMatchObject(
        withCode("INVALID_REQUEST"),
      );
    },
  );

  it("cancels a command like a timeout: its output and the shell's state are kept", async () => {
    const { channel } = fixture();
    await run(channel, "export BEFORE=kept");
    const exec = await start(channel, "echo partial; sleep 60; echo never");
    const output = exec[Symbol.asyncIterator]();
    const first = await output.next();
    expect(Buffer.from(first.value?.bytes ?? []).toString()).toBe("partial\n");
    expect(await channel.cancel(exec.execId)).toBe(true);
    // An interrupted shell starts a new line on stderr.
    expect(textOf(await chunksOf(exec), "stdout")).toBe("");
    expect(await exec.ended).toMatchObject({ reason: "cancelled", exitCode: 130 });
    expect(await channel.cancel(exec.execId)).toBe(false);
    const after = await run(channel, 'echo "$BEFORE"');
    expect(after).toMatchObject({ stdout: "kept\n", end: { shellRestarted: false } });
  });

  it("cancels a process", async () => {
    const { channel } = fixture();
    const execId = newExecId();
    const exec = await channel.exec({ kind: "process", argv: ["sleep", "60"] }, { execId });
    expect(await channel.cancel(execId)).toBe(true);
    expect(await exec.ended).toMatchObject({ reason: "cancelled", exitCode: 130 });
  });

  it("never runs a command that was cancelled while it waited", async () => {
    const { channel } = fixture();
    const { path } = await channel.writeFile("cancelled.log", Buffer.alloc(0));
    const busy = await start(channel, "sleep 60");
    const execId = newExecId();
    const queued = run(channel, `echo ran >> ${path}`, { execId });
    await expect
      .poll(async () => (await channel.listExecs()).map((e) => e.execId))
      .toContain(execId);
    expect(await channel.cancel(execId)).toBe(true);
    expect((await queued).end).toMatchObject({ reason: "cancelled" });
    await channel.cancel(busy.execId);
    await busy.ended;
    expect((await run(channel, `cat ${path}`)).stdout).toBe("");
  });

  it("keeps a terminal and its state in a shell that was given one", async () => {
    const { channel } = fixture();
    const command = { kind: "shell", shell: "screen" } as const;
    const first = await channel.exec(
      { ...command, text: "export KEPT=1; tty", pty: { rows: 24, cols: 80 } },
      { execId: newExecId() },
    );
    expect(textOf(await chunksOf(first), "stdout")).toMatch(/^\/dev\/pts\/\d+\r?\n$/u);
    const second = await runIn(channel, "screen", 'tty; echo "$KEPT"; echo err >&2');
    expect(second.stdout.replaceAll("\r", "")).toMatch(/^\/dev\/pts\/\d+\n1\nerr\n$/u);
    expect((await runIn(channel, "other", "tty")).stdout).not.toContain("/dev/");
    await channel.closeShell("screen");
  });

  it("cannot cancel an unknown command", async () => {
    await expect(fixture().channel.cancel("no-such-command")).rejects.toMatchObject(
      withCode("EXEC_NOT_FOUND"),
    );
  });
}
