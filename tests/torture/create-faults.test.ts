/**
 * Threat: interrupted creation. A create that fails, or is killed, after any of its steps leaves a complete sandbox or
 * nothing, and its workspace unchanged.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { fileURLToPath } from "node:url";
import { Launcher } from "../../packages/daemon/src/backends/oci/launcher.ts";
import type { LauncherCreate } from "../../packages/daemon/src/backends/oci/launcher.ts";
import { warmUp } from "../support/oracles/around-case.ts";
import { HostSnapshot } from "../support/oracles/no-leak.ts";
import { runtimeUnderTest } from "../support/runtime-under-test.ts";
import { MIB, newSandboxId, SandboxMachine } from "../support/sandbox-machine.ts";

const launcher = new Launcher(fileURLToPath(new URL("../../native/bin/launcher", import.meta.url)));

interface Fault extends Pick<LauncherCreate, "fail_after" | "die_after"> {
  readonly onRequest?: (request: LauncherCreate) => void;
}

const workspace = { id: "wsp_faults", diskBytes: 32 * MIB, diskInodes: 1_024 };

let asked: LauncherCreate | undefined;
let machine: SandboxMachine;
let fault: Fault;
beforeAll(async () => {
  fault = {};
  machine = await SandboxMachine.start({
    runtime: runtimeUnderTest(),
    adjustCreate: (request) => {
      const { onRequest, ...hooks } = fault;
      const adjusted = { ...request, ...hooks };
      onRequest?.(adjusted);
      return adjusted;
    },
  });
  await warmUp(machine);
  const { id, channel } = await machine.sandbox({ workspace });
  await channel.writeFile("kept", Buffer.from("kept"));
  await machine.destroy(id);
});
afterAll(() => machine[Symbol.asyncDispose]());

describe.each(await launcher.steps())("after the step %s", (step) => {
  test("a failure of create leaves nothing", async () => {
    fault = {};
    const before = await HostSnapshot.take(machine);
    fault = { fail_after: step };
    await expect(machine.sandbox({ workspace })).rejects.toThrow(step);
    await before.expectUnchanged();
  });

  test("a death of the launcher leaves nothing that destroy does not remove", async () => {
    fault = {};
    const before = await HostSnapshot.take(machine);
    const id = newSandboxId();
    // The backend itself cleans up at once. Called without it, the launcher leaves its traces.
    fault = { die_after: step, onRequest: (request) => void (asked = request) };
    await expect(machine.sandbox({ id, workspace })).rejects.toThrow();
    await before.expectUnchanged();
    if (asked === undefined) throw new Error("the launcher was not asked");
    await expect(launcher.create(asked)).rejects.toThrow("without an answer");
    const left = (await machine.backend.list()).filter((listed) => listed.id === id);
    expect(left).toHaveLength(1);
    // Leftovers are found again, also by another process.
    const other = await SandboxMachine.start({
      runtime: runtimeUnderTest(),
      dataDir: machine.dataDir,
    });
    expect((await other.backend.list()).filter((listed) => listed.id === id)).toEqual(left);
    await other.backend.destroy(id);
    await before.expectUnchanged();
    // It can be destroyed again, and recreated.
    await machine.backend.destroy(id);
    fault = {};
    const { sh } = await machine.sandbox({ id, workspace });
    expect(await sh("echo whole; cat kept")).toMatchObject({ stdout: "whole\nkept" });
    await machine.destroy(id);
    await before.expectUnchanged();
  });
});
