import { PassThrough } from "node:stream";
import { SandboxError } from "@sandkasten/sdk";
import type { Exec, ExecInfo } from "@sandkasten/sdk";
import { describe, expect, it } from "vitest";
import type { Cli } from "./cli.ts";
import { streamCommand } from "./stream-command.ts";

/** A command that fails to accept input while its status is still `running`, and then ends. */
async function fed(failure: SandboxError): Promise<ExecInfo> {
  const tried = Promise.withResolvers<void>();
  const end = { status: "done", exitCode: 0 } as ExecInfo;
  const exec = {
    writeStdin: () => {
      setTimeout(tried.resolve, 50);
      return Promise.reject(failure);
    },
    info: () => Promise.resolve({ status: "running" }),
    async *follow() {
      await tried.promise;
      yield* [];
      return end;
    },
  } as unknown as Exec;
  const stdin = new PassThrough();
  stdin.write("unread");
  const cli = {
    host: { stdin },
    interrupts: { signal: new AbortController().signal },
  } as unknown as Cli;
  return await streamCommand(cli, exec, { input: true });
}

describe("streamCommand()", () => {
  it("shows the whole output of a command that ended before it had read its input", async () => {
    const ended = new SandboxError("CONFLICT", "the command has ended and accepts no input");
    expect(await fed(ended)).toMatchObject({ exitCode: 0 });
  });

  it("fails if input is lost while the command runs", async () => {
    const lost = new SandboxError("SANDBOX_UNREACHABLE", "the connection was lost");
    await expect(fed(lost)).rejects.toBe(lost);
  });
});
