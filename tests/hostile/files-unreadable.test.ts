/**
 * Unreadable entries are reported before an archive begins, or the archive does not end: it is
 * never silently incomplete.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { readTar } from "@sandkasten/testkit";
import { aroundCase, warmUp } from "../support/oracles/around-case.ts";
import { runtimeUnderTest } from "../support/runtime-under-test.ts";
import { MIB, SandboxMachine } from "../support/sandbox-machine.ts";
import { bytesOf, outcomeOf } from "../torture/attacks/outcome.ts";

let machine: SandboxMachine;
beforeAll(async () => {
  machine = await SandboxMachine.start({ runtime: runtimeUnderTest() });
  await warmUp(machine);
});
afterAll(() => machine[Symbol.asyncDispose]());

const MAKE_TREE = `mkdir -p tree/closed tree/listed; echo 1 >tree/a; echo 2 >tree/closed/b; echo 3 >tree/c
  echo 4 >tree/listed/d; echo 5 >tree/z; chmod 000 tree/closed tree/c; chmod 400 tree/listed`;

test("an unreadable directory or file fails an archive and is named, or is omitted and counted", async () => {
  await aroundCase(machine, async ({ sandbox }) => {
    const { channel, sh } = await sandbox();
    await sh(MAKE_TREE);
    await expect(channel.createTar("tree")).rejects.toMatchObject({
      code: "PERMISSION_DENIED",
      message: expect.stringMatching(/^\/workspace\/tree\/(c|closed) cannot be read/u) as string,
    });
    const skipping = await channel.createTar("tree", { onUnreadable: "skip" });
    expect(skipping.unreadable).toBe(3);
    expect(skipping.unreadablePaths.map(({ path }) => path)).toEqual([
      "/workspace/tree/c",
      "/workspace/tree/closed",
      "/workspace/tree/listed",
    ]);
    expect(readTar(await bytesOf(skipping)).map(({ path }) => path)).toEqual(["a", "z"]);
    const excluding = await channel.createTar("tree", { exclude: ["/c", "closed/", "list*"] });
    expect(readTar(await bytesOf(excluding)).map(({ path }) => path)).toEqual(["a", "z"]);
    expect(await outcomeOf(channel.copy("tree", "copy", { recursive: true }))).toBe(
      "PERMISSION_DENIED",
    );
    const { entries } = await channel.listDirectory("tree", { recursive: true });
    expect(entries.filter(({ unreadable }) => unreadable).map(({ name }) => name)).toEqual([
      "closed",
      "listed",
    ]);
    for (const path of ["tree/closed", "tree/listed"])
      expect(await outcomeOf(channel.listDirectory(path)), `list ${path}`).toBe(
        "PERMISSION_DENIED",
      );
    for (const pattern of ["!a", "", "[", "x".repeat(1_025)])
      expect(
        await outcomeOf(channel.createTar("tree", { exclude: [pattern] })),
        `without ${pattern}`,
      ).toBe("INVALID_REQUEST");
    await sh("chmod -R u+rwx tree");
  });
});

test.each(["fail", "skip"] as const)(
  "what becomes unreadable during packing breaks the archive (%s)",
  async (onUnreadable) => {
    await aroundCase(machine, async ({ sandbox }) => {
      const { channel, sh } = await sandbox();
      await sh(`mkdir -p tree/z; head -c ${8 * MIB} /dev/zero >tree/a; echo x >tree/z/x`);
      const archive = await channel.createTar("tree", { onUnreadable });
      expect(archive.unreadable).toBe(0);
      // Nothing is read yet, so the runner waits for credit within the first file.
      await sh("chmod 000 tree/z");
      expect(await outcomeOf(bytesOf(archive))).toMatch(/PERMISSION_DENIED|CONFLICT/u);
      await sh("chmod 700 tree/z");
    });
  },
);
