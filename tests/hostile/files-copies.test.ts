/** Threats: filling a disk, sparse files and links to the host. Copies and appends of special files, and on full disks. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { aroundCase, warmUp } from "../support/oracles/around-case.ts";
import { runtimeUnderTest } from "../support/runtime-under-test.ts";
import { MIB, SandboxMachine } from "../support/sandbox-machine.ts";
import type { TestSandbox } from "../support/sandbox-machine.ts";
import { installAttack } from "../torture/attacks/install-attack.ts";
import { bytesOf, outcomeOf, readAll } from "../torture/attacks/outcome.ts";

const onGvisor = runtimeUnderTest() === "runsc";

/** More than the disk holds. gVisor reads all of it, because it reports no holes. */
const SPARSE_BYTES = onGvisor ? 256 * MIB : 2 ** 40;

let machine: SandboxMachine;
beforeAll(async () => {
  machine = await SandboxMachine.start({ runtime: runtimeUnderTest() });
  await warmUp(machine);
});
afterAll(() => machine[Symbol.asyncDispose]());

async function namesIn({ channel }: TestSandbox, path: string): Promise<string[]> {
  return (await channel.listDirectory(path)).entries.map(({ name }) => name);
}

test("links are copied as links, and pipes, sockets and devices are skipped without waiting for them", async () => {
  await aroundCase(machine, async ({ sandbox, sentinel }) => {
    const made = await sandbox();
    const { channel, sh } = made;
    await sh(
      `mkdir -p tree/sub; echo content >tree/sub/file; chmod 640 tree/sub/file; cd tree
       ln -s ${sentinel.path} host; ln -s / root; ln -s ../.. up; ln -s loop loop; mkfifo pipe
       python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")'; chmod 550 sub`,
    );
    const copied = await channel.copy("tree", "copy", { recursive: true });
    expect(copied).toMatchObject({ entries: 7, bytes: 8, skipped: 2 });
    sentinel.expectNotIn("the copy", await bytesOf(await channel.createTar("copy")));
    const look = "find . -printf '%P %y %m %l\\n' | sort | grep -v '[ps] [0-9]* $'";
    expect((await sh(`cd /workspace/copy; ${look}`)).stdout).toBe(
      (await sh(`cd /workspace/tree; ${look}`)).stdout.replaceAll(/^(pipe|socket) .*\n/gm, ""),
    );
    for (const path of ["tree/pipe", "tree/socket", "/dev/zero", "/dev/tty", "/dev/pts/ptmx"])
      expect(await outcomeOf(channel.copy(path, "nothing")), `copy ${path}`).toMatch(
        /NOT_A_FILE|PERMISSION_DENIED/u,
      );
    expect(await outcomeOf(channel.copy("tree/loop", "loop"))).toBe("done");
    expect(await outcomeOf(channel.stat("loop", { follow: true }))).toBe("INVALID_REQUEST");
    expect(await outcomeOf(channel.realpath("loop"))).toBe("INVALID_REQUEST");
    expect(await outcomeOf(channel.copy("/", "nothing", { recursive: true }))).toBe(
      "INVALID_REQUEST",
    );
    expect(await namesIn(made, "/workspace")).not.toContain("nothing");
  });
});

test("an append to a pipe, a socket or a device is refused at once, with or without a reader", async () => {
  await aroundCase(machine, async ({ sandbox }) => {
    const { channel, sh } = await sandbox();
    await sh(
      `mkfifo fifo read; ln -s fifo to-fifo; ln -s /dev/full to-full; ln -s loop loop; (cat <>read >/dev/null &)
       python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")'`,
    );
    for (const path of ["fifo", "read", "to-fifo", "to-full", "socket", "/dev/null", "/dev/ptmx"])
      expect(
        await outcomeOf(channel.appendFile(path, Buffer.from("x"))),
        `append to ${path}`,
      ).toMatch(/NOT_A_FILE|PERMISSION_DENIED/u);
    expect(await outcomeOf(channel.appendFile("loop", Buffer.from("x")))).toBe("INVALID_REQUEST");
    expect(await outcomeOf(channel.appendFile("/proc/self/fd/1", Buffer.from("x")))).not.toMatch(
      /done|HANGS/u,
    );
  });
});

test("a file that is a pipe every other moment blocks no copy and no append", async () => {
  await aroundCase(machine, async ({ sandbox }) => {
    const { channel, run, sh } = await sandbox();
    const exchange = await installAttack(channel, "exchange");
    // In memory: gVisor's pipes do not survive an exchange with a file on a disk.
    const tree = "/tmp/tree";
    await sh(`mkdir ${tree}; mkfifo ${tree}/pipe; echo x >${tree}/file`);
    const swapping = run([exchange, "2", `${tree}/file`, `${tree}/pipe`]);
    const outcomes = new Set<string>();
    for (const until = performance.now() + 2_000; performance.now() < until;) {
      for (const [what, attempt] of [
        ["copy", () => channel.copy(`${tree}/file`, "copy", { overwrite: true })],
        ["tree", () => channel.copy(tree, "copied-tree", { recursive: true })],
        ["append", () => channel.appendFile(`${tree}/file`, Buffer.from("x"))],
      ] as const)
        outcomes.add(`${what} ${await outcomeOf(attempt())}`);
      await channel.remove("copied-tree", { recursive: true }).catch(() => undefined);
    }
    await swapping;
    expect([...outcomes].filter((outcome) => outcome.endsWith("HANGS"))).toEqual([]);
    expect([...outcomes]).toEqual(
      expect.arrayContaining(["copy done", "copy NOT_A_FILE", "append done", "append NOT_A_FILE"]),
    );
  });
});

// A disk of an engine's container has no limit to reach.
test.skipIf(runtimeUnderTest() === "docker")(
  "what does not fit on the disk leaves nothing behind, and no partial append",
  async () => {
    await aroundCase(machine, async ({ sandbox }) => {
      const made = await sandbox();
      const { channel, sh } = made;
      await sh(
        `mkdir -p tree/closed; head -c ${40 * MIB} /dev/urandom >tree/closed/one; chmod 500 tree/closed
       cp tree/closed/one tree/two; printf start >log`,
      );
      expect(await outcomeOf(channel.copy("tree", "copy", { recursive: true }))).toBe(
        "STORAGE_FULL",
      );
      expect(await namesIn(made, "/workspace")).toEqual(["log", "tree"]);
      // Together with the temporary copy it is larger than the free space, or only the file itself
      // fits.
      for (const size of [30 * MIB, 20 * MIB, 17 * MIB]) {
        const outcome = await outcomeOf(channel.appendFile("log", Buffer.alloc(size, 1)));
        const expected = outcome === "done" ? 5 + size : 5;
        expect([outcome, (await channel.stat("log")).size]).toEqual([outcome, expected]);
        expect(outcome).toMatch(/done|STORAGE_FULL/u);
        if (size === 30 * MIB) expect(outcome).toBe("STORAGE_FULL");
        await sh("printf start >log");
      }
      expect(await namesIn(made, "/workspace")).toEqual(["log", "tree"]);
      expect(await outcomeOf(channel.copy("tree/two", "two"))).toBe("done");
    });
  },
);

test("a copy keeps holes, supports any depth, and can be aborted without a trace", async () => {
  await aroundCase(machine, async ({ sandbox }) => {
    const made = await sandbox();
    const { channel, sh } = made;
    await sh(
      `mkdir holes; printf a >holes/sparse; truncate -s ${SPARSE_BYTES} holes/sparse; printf z >>holes/sparse`,
    );
    expect(await outcomeOf(channel.copy("holes", "copied", { recursive: true }))).toBe("done");
    expect((await channel.stat("copied/sparse")).size).toBe(SPARSE_BYTES + 1);
    expect(String(await readAll(channel, "copied/sparse", { offset: SPARSE_BYTES }))).toBe("z");
    // gVisor reports a file's size as its blocks; that the copy fits shows the holes.
    if (!onGvisor)
      expect(Number((await sh("du -k copied/sparse | cut -f1")).stdout)).toBeLessThan(64);
    const deep = `python3 -c '
import os
os.mkdir("deep"); os.chdir("deep")
for _ in range(2000): os.mkdir("directory"); os.chdir("directory")
open("end", "w").write("end")'`;
    expect(await sh(deep)).toMatchObject({ exitCode: 0 });
    expect(await channel.copy("deep", "deep-copy", { recursive: true })).toMatchObject({
      entries: 2_002,
      bytes: 3,
    });
    await channel.remove("deep-copy", { recursive: true });
    // Into itself under another name: through a link above it.
    await sh("mkdir -p self/inner; ln -s self/inner other");
    expect(await outcomeOf(channel.copy("self", "other/copy", { recursive: true }))).toBe(
      "INVALID_REQUEST",
    );
    expect(await namesIn(made, "self/inner")).toEqual([]);
  });
});
