/** Threats: sparse files and links to the host. Pipes, devices, sockets, and files with false metadata. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { aroundCase, warmUp } from "../support/oracles/around-case.ts";
import { runtimeUnderTest } from "../support/runtime-under-test.ts";
import { newExecId, SandboxMachine } from "../support/sandbox-machine.ts";
import { installAttack } from "../torture/attacks/install-attack.ts";
import { bytesOf, outcomeOf, readAll } from "../torture/attacks/outcome.ts";

let machine: SandboxMachine;
beforeAll(async () => {
  machine = await SandboxMachine.start({ runtime: runtimeUnderTest() });
  await warmUp(machine);
});
afterAll(() => machine[Symbol.asyncDispose]());

test("a pipe, a socket or a device is refused at once, for reads and writes, without waiting", async () => {
  await aroundCase(machine, async ({ sandbox }) => {
    const { channel, sh } = await sandbox();
    await sh(
      `mkfifo fifo; ln -s fifo to-fifo
       python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")'`,
    );
    // The runner has a pipe for the output of a command.
    const command = { kind: "shell", text: "readlink /proc/self/fd/1; exec sleep 1000" } as const;
    const running = await channel.exec(command, { execId: "running" });
    let output = "";
    for await (const { bytes } of running) {
      output += Buffer.from(bytes).toString();
      if (output.endsWith("\n")) break;
    }
    expect(output).toMatch(/^\/run\/sandkasten\/out-/u);
    const devices = ["null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts/ptmx"];
    for (const path of [
      "fifo",
      "to-fifo",
      "socket",
      output.trim(),
      ...devices.map((name) => `/dev/${name}`),
    ]) {
      expect(await outcomeOf(readAll(channel, path)), `read ${path}`).toMatch(
        /NOT_A_FILE|PERMISSION_DENIED/u,
      );
      expect(await outcomeOf(channel.writeFile(path, Buffer.from("x"))), `write ${path}`).toMatch(
        /NOT_A_FILE|PERMISSION_DENIED/u,
      );
      expect(await outcomeOf(channel.listDirectory(path)), `list ${path}`).toMatch(
        /NOT_A_DIRECTORY|PERMISSION_DENIED/u,
      );
    }
    await channel.cancel("running");
    await running.ended;
    expect(await outcomeOf(channel.extractTar("fifo", Buffer.alloc(1024)))).not.toBe("HANGS");
    // They are left out of archives.
    expect(String(await bytesOf(await channel.createTar("/workspace")))).not.toContain("socket");
    // A pipe that is moved to another file system is not opened either.
    expect(await outcomeOf(channel.move("fifo", "/tmp/fifo"))).toBe("UNSUPPORTED");
    await channel.remove("fifo");
    expect(await outcomeOf(channel.stat("fifo"))).toBe("FILE_NOT_FOUND");
  });
});

test("a file that becomes a pipe while it is moved to another file system blocks nothing", async () => {
  await aroundCase(machine, async ({ sandbox }) => {
    const { channel, run, sh } = await sandbox();
    const exchange = await installAttack(channel, "exchange");
    // From memory: gVisor's pipes do not survive an exchange with a file on a disk.
    const place = "cd /tmp; rm -f moving pipe; mkfifo pipe; echo x >moving";
    await sh(place);
    const swapping = run([exchange, "2", "/tmp/moving", "/tmp/pipe"]);
    const outcomes = new Set<string>();
    for (const until = performance.now() + 2_000; performance.now() < until;) {
      const outcome = await outcomeOf(channel.move("/tmp/moving", "moved", { overwrite: true }));
      outcomes.add(outcome);
      if (outcome === "HANGS") break;
      // Whichever of the two it was, it is gone now.
      if (outcome === "done") await sh(place);
    }
    expect([...outcomes]).not.toContain("HANGS");
    expect([...outcomes]).toEqual(expect.arrayContaining(["done", "UNSUPPORTED"]));
    await swapping;
    expect(await outcomeOf(channel.stat("/workspace"))).toBe("done");
  });
});

test("absurd sizes and times are reported without ending other work", async () => {
  await aroundCase(machine, async ({ sandbox }) => {
    const { channel, sh } = await sandbox();
    await sh(
      `truncate -s 7E /tmp/huge
       touch -d @9999999999999999 /tmp/late
       touch -d @-9999999999999999 /tmp/early`,
    );
    const beside = await channel.exec(
      { kind: "process", argv: ["sleep", "2"] },
      { execId: newExecId() },
    );
    expect.soft(await outcomeOf(channel.stat("/tmp/huge"))).toBe("done");
    expect.soft(await outcomeOf(channel.stat("/tmp/late"))).toBe("done");
    expect.soft(await outcomeOf(channel.stat("/tmp/early"))).toBe("done");
    expect.soft(await outcomeOf(channel.listDirectory("/tmp"))).toBe("done");
    expect
      .soft(await outcomeOf(readAll(channel, "/tmp/huge", { offset: 2 ** 40, length: 10 })))
      .toBe("done");
    expect.soft(await outcomeOf(channel.createTar("/tmp").then(bytesOf))).toBe("PAYLOAD_TOO_LARGE");
    expect(await beside.ended).toMatchObject({ reason: "exited", exitCode: 0 });
  });
});

test("downloads without a reader do not delay other file operations", async () => {
  await aroundCase(machine, async ({ sandbox }) => {
    const { channel } = await sandbox();
    await channel.writeFile("large", Buffer.alloc(1024 * 1024, 1));
    const opened = await Promise.all(
      Array.from({ length: 8 }, async () => await channel.readFile("large")),
    );
    try {
      expect(await outcomeOf(channel.stat("large"))).toBe("done");
      expect(await outcomeOf(channel.writeFile("small", Buffer.from("x")))).toBe("done");
    } finally {
      for (const { body } of opened) await body.cancel();
    }
    expect(await outcomeOf(channel.stat("large"))).toBe("done");
  });
});
