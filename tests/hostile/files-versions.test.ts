/** Threat: renames during an upload. Conditional writes, between sandboxes that share files and with interfering code. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { aroundCase, warmUp } from "../support/oracles/around-case.ts";
import { runtimeUnderTest } from "../support/runtime-under-test.ts";
import { MIB, newExecId, SandboxMachine } from "../support/sandbox-machine.ts";
import type { TestSandbox } from "../support/sandbox-machine.ts";
import { outcomeOf, readAll } from "../torture/attacks/outcome.ts";

const WORKSPACE = { id: "wsp_sharedcounter", diskBytes: 32 * MIB, diskInodes: 1_024 };

let machine: SandboxMachine;
beforeAll(async () => {
  machine = await SandboxMachine.start({ runtime: runtimeUnderTest() });
  await warmUp(machine);
});
afterAll(() => machine[Symbol.asyncDispose]());

/** Four concurrent counters, with a condition on each step; some steps must be refused. */
async function expectNoStepLost(sandboxes: readonly [TestSandbox, TestSandbox]): Promise<void> {
  await sandboxes[0].channel.writeFile("count", Buffer.from("000"));
  let refused = 0;
  const count = async ({ channel }: TestSandbox): Promise<void> => {
    for (let done = 0; done < 40;) {
      const { version, body } = await channel.readFile("count");
      const next = Number(Buffer.concat(await Array.fromAsync(body)).toString()) + 1;
      const content = Buffer.from(String(next).padStart(3, "0"));
      const outcome = await outcomeOf(channel.writeFile("count", content, { ifVersion: version }));
      expect(outcome).toMatch(/^(done|FILE_CHANGED)$/u);
      if (outcome === "done") done++;
      else refused++;
    }
  };
  await Promise.all([...sandboxes, ...sandboxes].map(count));
  expect(String(await readAll(sandboxes[1].channel, "count"))).toBe("160");
  expect(refused).toBeGreaterThan(0);
}

test("clients that count in one sandbox lose no step", async () => {
  await aroundCase(machine, async ({ sandbox }) => {
    const made = await sandbox();
    await expectNoStepLost([made, made]);
  });
});

test("two sandboxes that count in one workspace lose no step", async (context) => {
  if (runtimeUnderTest() === "runsc")
    context.skip("gVisor keeps file locks to itself, so that its sandboxes share none");
  await aroundCase(machine, async () => {
    const both = [
      await machine.sandbox({ workspace: WORKSPACE }),
      await machine.sandbox({ workspace: WORKSPACE }),
    ] as const;
    await expectNoStepLost(both);
    for (const { id } of both) await machine.destroy(id);
    await machine.backend.destroyWorkspace(WORKSPACE.id);
  });
});

test("code that holds the directory's lock makes a conditional write fail, and blocks no other", async () => {
  await aroundCase(machine, async ({ sandbox }) => {
    const { channel, sh } = await sandbox();
    const { version } = await channel.writeFile("file", Buffer.from("old"));
    const holder = await channel.exec(
      { kind: "process", argv: ["flock", "/workspace", "sh", "-c", "touch held; sleep 30"] },
      { execId: newExecId() },
    );
    while ((await outcomeOf(channel.stat("held"))) !== "done");
    const conditional = (): Promise<unknown> =>
      channel.writeFile("file", Buffer.from("new"), { ifVersion: version });
    expect(await outcomeOf(conditional())).toBe("CONFLICT");
    expect(await outcomeOf(channel.writeFile("other", Buffer.from("x")))).toBe("done");
    expect(await outcomeOf(channel.appendFile("other", Buffer.from("x")))).toBe("done");
    await channel.signal(holder.execId, 9, { tree: true });
    await holder.ended;
    expect(await outcomeOf(conditional())).toBe("done");
    expect((await sh("cat file")).stdout).toBe("new");
  });
});

test("a change by code changes the file's version, in place or by replacement", async () => {
  await aroundCase(machine, async ({ sandbox }) => {
    const { channel, sh } = await sandbox();
    const { version } = await channel.writeFile("file", Buffer.from("aaaa"));
    const refused = async (change: string): Promise<void> => {
      expect(await sh(change)).toMatchObject({ exitCode: 0 });
      expect(
        await outcomeOf(channel.writeFile("file", Buffer.from("mine"), { ifVersion: version })),
        `after ${change}`,
      ).toBe("FILE_CHANGED");
    };
    await refused("printf bbbb 1<>file");
    await refused("printf cccc >new; mv new file");
    await refused("rm file; printf dddd >other; ln -s other file");
    await sh("rm file");
    expect(
      await outcomeOf(channel.writeFile("file", Buffer.from("mine"), { ifVersion: version })),
    ).toBe("FILE_CHANGED");
  });
});
