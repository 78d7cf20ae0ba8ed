/** What readers, writers and long-running processes can expect of a command's streams. */
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { MIB, newExecId, SandboxMachine } from "../support/sandbox-machine.ts";
import type { TestSandbox } from "../support/sandbox-machine.ts";

let machine: SandboxMachine;
let sandbox: TestSandbox;
beforeAll(async () => {
  machine = await SandboxMachine.start();
  sandbox = await machine.sandbox();
});
afterAll(() => machine[Symbol.asyncDispose]());

test("a slow reader that leaves, or is disconnected, does not stop the command for the others", async () => {
  for (const how of ["detach", "close"] as const) {
    const execId = newExecId();
    const command = {
      kind: "process",
      argv: ["head", "-c", String(6 * MIB), "/dev/zero"],
    } as const;
    const reading = await sandbox.channel.exec(command, { execId });
    const other = await machine.backend.open(sandbox.id);
    const slow = await other.attach(execId);
    let bytesRead = 0;
    for await (const { bytes } of reading) {
      bytesRead += bytes.length;
      // By now the command waits for the reader that does not read.
      if (bytesRead > MIB / 2 && bytesRead < MIB) {
        if (how === "detach") slow.detach();
        else other.close();
      }
    }
    expect(bytesRead).toBe(6 * MIB);
    other.close();
  }
});

test("a finished command that is requested again is returned, and not run again", async () => {
  const execId = newExecId();
  expect(await sandbox.sh("echo once >>times; echo said", { execId })).toMatchObject({
    stdout: "said\n",
  });
  expect(await sandbox.sh("echo once >>times; echo said", { execId })).toMatchObject({
    exitCode: 0,
    stdoutBytes: 5,
  });
  expect((await sandbox.sh("cat times")).stdout).toBe("once\n");
  await expect(sandbox.channel.attach(execId, { offset: 1_000_000 })).rejects.toMatchObject({
    code: "INVALID_REQUEST",
  });
});

test("commands end while large files are read in parallel", async () => {
  await sandbox.channel.writeFile("large", Buffer.alloc(4 * MIB, 1));
  const reads = Array.from({ length: 24 }, async () => {
    const { body } = await sandbox.channel.readFile("large");
    let bytesRead = 0;
    for await (const chunk of body) bytesRead += chunk.length;
    return bytesRead;
  });
  const commands = Array.from({ length: 12 }, () => sandbox.run(["echo", "hi"]));
  expect((await Promise.all(commands)).map(({ stdout }) => stdout)).toEqual(
    Array.from({ length: 12 }, () => "hi\n"),
  );
  expect(await Promise.all(reads)).toEqual(Array.from({ length: 24 }, () => 4 * MIB));
});

test("a background job continues to print long after its command was forgotten", async () => {
  const execId = newExecId();
  await sandbox.sh("(while :; do echo tick; sleep 0.02; done) & echo $! >job", { execId });
  await sandbox.channel.forgetExec(execId);
  await sandbox.sh("(while :; do echo tick; sleep 0.02; done) & echo $! >>job");
  for (let i = 0; i < 270; i++) await sandbox.sh("true");
  expect((await sandbox.sh("kill -0 $(cat job) && echo alive; kill -9 $(cat job)")).stdout).toBe(
    "alive\n",
  );
});

test("all output of a terminal arrives, and input of any length", async () => {
  const pty = { rows: 24, cols: 80 };
  for (let i = 0; i < 30; i++) {
    const stream = await sandbox.channel.exec(
      { kind: "process", argv: ["head", "-c", "9000", "/dev/zero"], pty },
      { execId: newExecId() },
    );
    let bytesRead = 0;
    for await (const { bytes } of stream) bytesRead += bytes.length;
    expect(bytesRead).toBe(9000);
  }
  const raw = await sandbox.channel.exec(
    {
      kind: "process",
      argv: ["sh", "-c", "stty raw -echo; echo ready; head -c 60000 | wc -c"],
      pty,
    },
    { execId: newExecId(), stdin: true, timeoutMs: 30_000 },
  );
  let text = "";
  for await (const { bytes } of raw) {
    const was = text;
    text += Buffer.from(bytes).toString();
    if (!was.includes("ready") && text.includes("ready"))
      void raw.writeStdin(Buffer.alloc(60_000, "x"));
  }
  expect(text).toContain("60000");
});

test("a shell that cannot be interrupted leaves nothing of what it keeps starting", async () => {
  const { reason } = await sandbox.sh(
    "trap '' INT; while :; do setsid sleep 7777 & sleep 0.05; done",
    { timeoutMs: 300 },
  );
  expect(reason).toBe("timeout");
  expect(
    (await sandbox.sh("grep -lz '^7777$' /proc/[0-9]*/cmdline 2>/dev/null | wc -l")).stdout,
  ).toBe("0\n");
});

test("an invalid status is ignored, and the connection continues", async () => {
  const forged = await sandbox.sh(
    `pipe=$(readlink /proc/self/fd/1); tag=\${pipe##*-}
     printf '%s -77777 /\\0' $tag >/run/sandkasten/report-$tag; exit 4`,
  );
  expect(forged).toMatchObject({ reason: "exited", exitCode: 4 });
  expect((await sandbox.sh("echo on")).stdout).toBe("on\n");
  expect((await sandbox.channel.listExecs()).length).toBeGreaterThan(0);
});

test("a signal of 0 only checks; a waiting command can be cancelled", async () => {
  const first = sandbox.sh("until [ -e called-off ]; do sleep 0.02; done; echo first");
  const [asked, calledOff] = [newExecId(), newExecId()];
  const second = sandbox.sh("echo second", { execId: asked });
  const third = sandbox.sh("echo third", { execId: calledOff });
  await expect
    .poll(async () => (await sandbox.channel.listExecs()).map(({ execId }) => execId))
    .toEqual(expect.arrayContaining([asked, calledOff]));
  expect(await sandbox.channel.signal(asked, 0)).toBe(1);
  await sandbox.channel.signal(calledOff, 15);
  await sandbox.channel.writeFile("called-off", Buffer.from(""));
  expect((await first).stdout).toBe("first\n");
  expect((await second).stdout).toBe("second\n");
  expect(await third).toMatchObject({ reason: "killed", stdout: "" });
});

test("a pause does not use up a command's time", async () => {
  const running = sandbox.sh("sleep 1.5; echo done", { timeoutMs: 3_000 });
  await sleep(300);
  await machine.backend.pause(sandbox.id);
  await sleep(4_000);
  await machine.backend.resume(sandbox.id);
  expect(await running).toMatchObject({ reason: "exited", stdout: "done\n" });
});
