/** The SDK against a real daemon with real sandboxes, including restarts of the daemon. */
import { SandboxClient, SandboxError } from "@sandkasten/sdk";
import type { Session } from "@sandkasten/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TestDaemon } from "../support/test-daemon.ts";

let daemon: TestDaemon;
let client: SandboxClient;
let session: Session;
beforeAll(async () => {
  daemon = await TestDaemon.start({ settings: { API_KEYS: "alice=key-of-alice,bob=key-of-bob" } });
  client = new SandboxClient({ baseUrl: daemon.url, apiKey: "key-of-alice" });
  session = await client.createSession({ metadata: { test: "sdk" } });
});
afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
});

describe("the SDK", () => {
  it("runs commands in a stateful shell, and destroys the session at the end of a scope", async () => {
    let id: string;
    {
      await using scoped = await client.createSession({ image: "host", ttlSeconds: 60 });
      id = scoped.id;
      await scoped.exec("cd /tmp && export GREETING=hello");
      const result = await scoped.exec('echo "$GREETING from $PWD"; echo oops >&2; exit 3');
      expect(result).toMatchObject({
        exitCode: 3,
        stdout: "hello from /tmp\n",
        stderr: "oops\n",
        truncated: false,
        endReason: "exited",
      });
    }
    expect((await client.getSession(id)).status).toBe("destroyed");
  });

  it("streams output while the command runs", async () => {
    const stream = session.stream("echo one; until [ -e go ]; do sleep 0.01; done; echo two >&2");
    const seen: string[] = [];
    for await (const { stream: name, text } of stream) {
      seen.push(`${name}: ${text}`);
      if (seen.length === 1) await session.write("go", "");
    }
    expect(seen).toEqual(["stdout: one\n", "stderr: two\n"]);
    expect(await stream.result).toMatchObject({ exitCode: 0 });
  });

  it("throws the daemon's errors, with their code and the command's output", async () => {
    const failure = await session.exec("echo partial; sleep 1000", { timeoutMs: 1_500 }).then(
      () => undefined,
      (error: unknown) => error,
    );
    expect(failure).toBeInstanceOf(SandboxError);
    expect(failure).toMatchObject({
      code: "COMMAND_TIMEOUT",
      status: 504,
      result: { output: "partial\n", timedOut: true },
    });
    await expect(session.read("nowhere")).rejects.toMatchObject({ code: "FILE_NOT_FOUND" });
    await expect(client.createSession({ image: "no/such:image" })).rejects.toMatchObject({
      code: "INVALID_IMAGE",
    });
    const nobody = new SandboxClient({ baseUrl: daemon.url, apiKey: "wrong-key" });
    await expect(nobody.createSession()).rejects.toMatchObject({ code: "UNAUTHORIZED" });
  });

  it("aborts a request when its signal fires, and the command continues", async () => {
    const gone = new AbortController();
    const script = "touch begun; until [ -e enough ]; do sleep 0.01; done; echo went on";
    const waiting = session.exec(["sh", "-c", script], { signal: gone.signal });
    await expect.poll(() => session.files.stat("begun").catch(() => undefined)).toBeDefined();
    gone.abort(new Error("given up"));
    await expect(waiting).rejects.toThrow("given up");
    const running = (await Array.fromAsync(session.execs())).filter(
      ({ status }) => status === "running",
    );
    expect(running).toHaveLength(1);
    await session.write("enough", "");
    expect(await session.getExec(running[0]!.execId).wait()).toMatchObject({
      endReason: "exited",
      exitCode: 0,
      output: "went on\n",
    });
  });

  it("supports all file operations", async () => {
    const { files } = session;
    await files.mkdir("project/src");
    await files.write("project/src/a.txt", "text");
    await files.write("project/b.bin", new Uint8Array([0, 255, 128]));
    await files.move("project/b.bin", "project/src/b.bin");
    const names: string[] = [];
    for await (const { path } of files.list("project", { recursive: true })) names.push(path);
    expect(names.toSorted()).toEqual([
      "/workspace/project/src",
      "/workspace/project/src/a.txt",
      "/workspace/project/src/b.bin",
    ]);
    expect([...(await files.read("project/src/b.bin"))]).toEqual([0, 255, 128]);
    await files.mkdir("copy");
    await files.untar("copy", await files.tar("project"));
    expect(await session.exec("find copy -name a.txt | xargs cat")).toMatchObject({
      output: "text",
    });
    await files.remove("project", { recursive: true });
    await expect(files.stat("project")).rejects.toMatchObject({ code: "FILE_NOT_FOUND" });
  });

  it("watches files for changes", async () => {
    const stop = new AbortController();
    const changes = session.files.watch("/workspace", { signal: stop.signal });
    const seen = (async () => {
      for await (const { path } of changes) if (path === "/workspace/watched") return path;
      return "no change of it";
    })();
    // The SDK does not report when the watch is active, so change the file until a change is seen.
    let size = 0;
    let writing: Promise<unknown> = Promise.resolve();
    const timer = setInterval(() => {
      writing = writing.then(() => session.write("watched", "x".repeat(++size)));
    }, 50);
    try {
      expect(await seen).toBe("/workspace/watched");
    } finally {
      clearInterval(timer);
      stop.abort();
      await writing;
    }
  });

  it("opens a real terminal that can be resized, detached and reattached", async () => {
    const pty = await session.pty({ rows: 24, cols: 80 });
    pty.resize({ rows: 40, cols: 132 });
    pty.write("stty size; tty; KEPT='still here'; echo le\"\"ft\r");
    const decoder = new TextDecoder();
    let screen = "";
    for await (const bytes of pty) {
      screen += decoder.decode(bytes, { stream: true });
      if (screen.includes("left\r\n")) break;
    }
    expect(screen).toContain("40 132");
    expect(screen).toContain("/dev/pts/");
    pty.close();

    const again = await session.pty({ execId: pty.execId, cursor: pty.cursor });
    again.write('echo "[$KEPT]"; exit 5\r');
    const rest = Buffer.concat(await Array.fromAsync(again)).toString();
    expect(rest).toContain("[still here]");
    // Output that was read before does not arrive again.
    expect(rest).not.toContain("/dev/pts/");
    expect(await again.exited).toMatchObject({ exitCode: 5 });
  });

  it("isolates owners", async () => {
    const bob = new SandboxClient({ baseUrl: daemon.url, apiKey: "key-of-bob" });
    await expect(bob.getSession(session.id)).rejects.toMatchObject({ code: "SESSION_NOT_FOUND" });
    expect(await bob.listSessions()).toHaveLength(0);
  });

  it("pauses, resumes, renews and measures", async () => {
    await session.pause();
    await expect(session.exec("true")).rejects.toMatchObject({ code: "CONFLICT" });
    await session.resume();
    expect(await session.exec("echo on")).toMatchObject({ output: "on\n" });
    expect((await session.renew({ ttlSeconds: 7200 })).ttlSeconds).toBe(7200);
    expect((await session.stats()).memoryBytes).toBeGreaterThan(0);
    expect(await session.isolation()).toMatchObject({ tier: "standard" });
  });

  it("continues streaming through a restart of the daemon, byte for byte", async () => {
    const { port } = new URL(daemon.url);
    const script =
      "i=0; while [ $i -lt 500 ]; do echo line $i; i=$((i+1)); [ $i = 100 ] && until [ -e again ]; do sleep 0.02; done; done; echo end";
    // Enough retries for a restart on a busy machine.
    const patient = new SandboxClient({
      baseUrl: daemon.url,
      apiKey: "key-of-alice",
      maxRetries: 12,
    });
    const stream = (await patient.getSession(session.id)).stream(["sh", "-c", script]);
    let text = "";
    let restarted: Promise<void> | undefined;
    for await (const chunk of stream) {
      text += chunk.text;
      if (text.includes("line 99\n"))
        restarted ??= (async () => {
          await daemon.kill("SIGKILL");
          await daemon.run({ LISTEN: `127.0.0.1:${port}` });
          await session.write("again", "");
        })();
    }
    await restarted;
    expect(text).toBe(`${Array.from({ length: 500 }, (_, i) => `line ${i}\n`).join("")}end\n`);
    expect(await stream.result).toMatchObject({ exitCode: 0 });
  });
});
