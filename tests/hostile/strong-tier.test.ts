import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { whyNoGvisor } from "../support/gvisor.ts";
import { MIB, SandboxMachine } from "../support/sandbox-machine.ts";
import type { Ran, TestSandbox } from "../support/sandbox-machine.ts";
import { readAll } from "../torture/attacks/outcome.ts";

const PIDS = 128;
const MEMORY_BYTES = 256 * MIB;

/** Outside, gVisor is one process with limits: code that reached them would end the sandbox. */
describe("code that reaches the limits of a sandbox with gVisor", () => {
  let machine: SandboxMachine;
  let sandbox: TestSandbox;

  beforeEach((context) => {
    context.skip(whyNoGvisor() !== undefined, whyNoGvisor());
  });
  beforeAll(async () => {
    if (whyNoGvisor() !== undefined) return;
    machine = await SandboxMachine.start();
    sandbox = await machine.sandbox({
      isolation: "strong",
      limits: {
        memoryBytes: MEMORY_BYTES,
        cpuMillicores: 2000,
        pids: PIDS,
        diskBytes: 64 * MIB,
        diskInodes: 8192,
      },
    });
    await sandbox.sh("KEPT=yes");
  });
  afterAll(async () => {
    await machine?.[Symbol.asyncDispose]();
  });

  /** The same shell as before responds. */
  async function expectSurvived(): Promise<void> {
    expect(await sandbox.sh("echo $KEPT", { timeoutMs: 60_000 })).toMatchObject({
      stdout: "yes\n",
      shellRestarted: false,
    });
  }

  async function python(program: string): Promise<Ran> {
    await sandbox.channel.writeFile("program.py", Buffer.from(program));
    return await sandbox.run(["python3", "program.py"]);
  }

  test("a fork bomb is refused processes, ends with its timeout, and the shell continues", async () => {
    const bomb = await sandbox.sh(":(){ :|:& };: ; sleep 100", { timeoutMs: 3000 });
    expect(bomb).toMatchObject({ reason: "timeout" });
    expect(bomb.stderr).toContain("Resource temporarily unavailable");
    await expectSurvived();
    expect((await sandbox.channel.ping()).pids).toBeLessThan(PIDS / 2);
  });

  test("processes at the limit block no command", async () => {
    await sandbox.sh("echo text > file");
    const hold = "while sleep 600 & do :; done 2>/dev/null; sleep 600";
    const held = await sandbox.channel.exec(
      { kind: "process", argv: ["bash", "-c", hold] },
      { execId: "hold", timeoutMs: 60_000 },
    );
    await expect
      .poll(async () => (await machine.backend.stats(sandbox.id)).pids, { timeout: 30_000 })
      .toBe(PIDS);
    // Each is a separate connection.
    for (let round = 0; round < 5; round += 1) {
      const channel = await machine.backend.open(sandbox.id);
      expect(await channel.ping()).toMatchObject({ pids: PIDS });
      expect(String(await readAll(channel, "file"))).toBe("text\n");
      channel.close();
    }
    // The daemon starts code here, too.
    await expect(sandbox.run(["true"])).resolves.toMatchObject({ exitCode: 126 });
    expect(await sandbox.channel.signal("hold", 9, { tree: true })).toBeGreaterThan(PIDS / 2);
    await held.ended;
    await expectSurvived();
  });

  test("threads count like processes", async () => {
    const { stdout } = await python(`
import threading, time
started = 0
try:
    for _ in range(1000):
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
        started += 1
except RuntimeError as error:
    print(started, error)
`);
    expect(stdout).toMatch(/^\d+ can't start new thread\n$/u);
    expect(Number.parseInt(stdout, 10)).toBeLessThan(PIDS);
    await expectSurvived();
  });

  test("a single process that uses all memory is killed, which is reported", async () => {
    expect(await python("held = bytearray(b'x') * (3 << 30)")).toMatchObject({
      reason: "oom",
      exitCode: 137,
    });
    await expectSurvived();
    expect((await machine.backend.stats(sandbox.id)).oomKills).toBeGreaterThan(0);
  });

  test("the shell that started such a process continues", async () => {
    for (let round = 0; round < 3; round += 1) {
      const { stdout } = await sandbox.sh(
        "python3 -c \"held = bytearray(b'x') * (3 << 30)\"; echo $?",
      );
      expect(stdout).toBe("137\n");
      await expectSurvived();
    }
  });

  test("many processes that grow at once are limited, too", async () => {
    const before = (await sandbox.channel.ping()).oomKills ?? 0;
    const grown = await sandbox.sh(
      `for i in 1 2 3 4 5 6 7 8; do python3 -c 'import time; b = bytearray(b"x") * (100 << 20); time.sleep(2)' & done; wait; echo done`,
    );
    expect(grown.stdout).toBe("done\n");
    expect((await sandbox.channel.ping()).oomKills).toBeGreaterThan(before);
    await expectSurvived();
  });

  test("so is what the kernel keeps for a process: buffers of sockets and pipes", async () => {
    const before = (await sandbox.channel.ping()).oomKills ?? 0;
    const flood = await python(`
import os, socket, time
kept = []
def fill(pair, send):
    kept.append(pair)
    try:
        while send(b"x" * 65536): pass
    except BlockingIOError: pass
for _ in range(8):
    if os.fork() == 0:
        for _ in range(300):
            a, b = socket.socketpair()
            a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16 << 20)
            a.setblocking(False)
            fill((a, b), a.send)
        while True:
            r, w = os.pipe()
            os.set_blocking(w, False)
            fill((r, w), lambda data: os.write(w, data))
for _ in range(8): os.wait()
`);
    expect(flood.reason).not.toBe("sandbox_gone");
    expect((await sandbox.channel.ping()).oomKills).toBeGreaterThan(before);
    await expectSurvived();
  });

  test("so are files in memory", async () => {
    const filled = await sandbox.sh(
      "dd if=/dev/zero of=/tmp/f bs=1M count=500; dd if=/dev/zero of=/dev/shm/f bs=1M count=500",
    );
    expect(filled.stderr.match(/No space left on device/gu)).toHaveLength(2);
    expect(await python("held = bytearray(b'x') * (3 << 30)")).toMatchObject({ reason: "oom" });
    await sandbox.sh("rm /tmp/f /dev/shm/f");
    await expectSurvived();
  });

  test("stats report the usage of code, not of gVisor", async () => {
    const stats = await machine.backend.stats(sandbox.id);
    expect(stats).toMatchObject({ memoryLimitBytes: MEMORY_BYTES, pidsLimit: PIDS });
    expect(stats.pids).toBeLessThan(16);
    expect(stats.memoryBytes).toBeLessThan(64 * MIB);
  });
});
