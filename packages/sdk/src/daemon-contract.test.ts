/** The SDK against the daemon's own HTTP layer, with sandboxes in memory. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ALICES_KEY, HttpFixture } from "../../daemon/src/surfaces/testing/http-fixture.ts";
import { SandboxClient } from "./client.ts";
import type { Session } from "./session.ts";

let daemon: HttpFixture;
let client: SandboxClient;
let session: Session;

beforeAll(async () => {
  daemon = await HttpFixture.start();
  client = new SandboxClient({ baseUrl: daemon.url, apiKey: ALICES_KEY });
  session = await client.createSession({ metadata: { my_tag: "x" } });
});

afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
});

describe("sessions", () => {
  test("can be created, found, listed, paused, renewed and destroyed", async () => {
    await using made = await client.createSession({ ttlSeconds: 30, env: { NAME: "value" } });
    expect(made.lastInfo).toMatchObject({ status: "running", ttlSeconds: 30 });
    expect((await client.getSession(made.id)).lastInfo.id).toBe(made.id);
    const found = await client.listSessions({ metadata: { my_tag: "x" } });
    expect(found.map(({ id }) => id)).toEqual([session.id]);
    expect((await made.pause()).status).toBe("paused");
    expect((await made.resume()).status).toBe("running");
    expect((await made.renew({ ttlSeconds: 40 })).ttlSeconds).toBe(40);
    expect((await made.stats()).pidsLimit).toBeGreaterThan(0);
    expect((await made.isolation()).facts).toBeInstanceOf(Array);
    await made.destroy();
    expect((await made.refresh()).status).toBe("destroyed");
    await expect(made.exec("true")).rejects.toMatchObject({ code: "SESSION_NOT_FOUND" });
  });

  test("are listed over several pages", async () => {
    const first = await client.listSessions({ limit: 1 });
    expect(first).toHaveLength(1);
    const all = await Array.fromAsync(client.sessions());
    expect(all.length).toBeGreaterThanOrEqual(2);
    expect(first.nextCursor).toBeTypeOf("string");
  });

  test("are created once for one idempotency key", async () => {
    const [one, other] = await Promise.all([
      client.createSession({ idempotencyKey: "once" }),
      client.createSession({ idempotencyKey: "once" }),
    ]);
    expect(other.id).toBe(one.id);
    await one.destroy();
  });

  test("are refused without the key, with a typed error", async () => {
    const stranger = new SandboxClient({ baseUrl: daemon.url, apiKey: "wrong" });
    await expect(stranger.listSessions()).rejects.toMatchObject({
      code: "UNAUTHORIZED",
      status: 401,
      requestId: expect.any(String),
    });
    expect(await stranger.health()).toEqual({ status: "ok" });
    expect(await client.version()).toMatchObject({ version: "1.2.3", backend: "fake" });
  });
});

describe("commands", () => {
  test("return their result, and the shell keeps its state", async () => {
    expect(await session.exec("echo hi && cd /tmp", { raw: true })).toMatchObject({
      exitCode: 0,
      output: "hi\n",
      stdout: "hi\n",
      cwd: "/tmp",
      truncated: false,
      endReason: "exited",
      rawOutput: new TextEncoder().encode("hi\n"),
    });
    expect((await session.exec("pwd && false")).exitCode).toBe(1);
    expect((await session.exec(["printenv", "A"], { env: { A: "b" } })).output).toBe("b\n");
  });

  test("that exceed their timeout throw, with their output", async () => {
    await expect(session.exec("echo before && sleep 30", { timeoutMs: 50 })).rejects.toMatchObject({
      code: "COMMAND_TIMEOUT",
      status: 504,
      result: { output: "before\n", timedOut: true, endReason: "timeout" },
    });
  });

  test("stream their output and then their result", async () => {
    const stream = session.stream("echo out && echo err >&2");
    const chunks = await Array.fromAsync(stream);
    expect(chunks.map(({ stream: name, text }) => `${name} ${text}`)).toEqual([
      "stdout out\n",
      "stderr err\n",
    ]);
    expect(await stream.result).toMatchObject({ exitCode: 0, stdoutBytes: 4, stderrBytes: 4 });
    const late = session.stream("echo x && sleep 30", { timeoutMs: 50 });
    expect((await Array.fromAsync(late)).map(({ text }) => text)).toEqual(["x\n"]);
    expect(await late.result).toMatchObject({ timedOut: true });
    expect(await session.stream("echo unread").result).toMatchObject({ outputBytes: 7 });
  });

  test("are complete over connections that break", async () => {
    const bytes = new Uint8Array(700_000).map((_, index) => index % 251);
    await session.write("/workspace/large", bytes);
    let connections = 0;
    // Every streaming response breaks after a while, at an arbitrary byte.
    const breaking: typeof fetch = async (input, init) => {
      const response = await fetch(input, init);
      if (response.body === null || !response.url.includes("stream")) return response;
      if (++connections > 3) return response;
      let left = 100_000 * connections;
      const broken = new TransformStream<Uint8Array, Uint8Array>({
        transform(piece, controller) {
          controller.enqueue(piece.subarray(0, left));
          left -= piece.length;
          if (left <= 0) controller.error(new TypeError("the network is gone"));
        },
      });
      return new Response(response.body.pipeThrough(broken), response);
    };
    const options = { baseUrl: daemon.url, apiKey: ALICES_KEY, fetch: breaking, retryDelayMs: 1 };
    const flaky = await new SandboxClient(options).getSession(session.id);
    const before = (await Array.fromAsync(session.execs())).length;
    const chunks = await Array.fromAsync(flaky.stream(["cat", "/workspace/large"]));
    expect(Buffer.concat(chunks.map((chunk) => chunk.bytes)).equals(bytes)).toBe(true);
    expect(connections).toBe(4);
    expect(await Array.fromAsync(session.execs())).toHaveLength(before + 1);
  });

  test("can be started, fed, read by cursor, followed, waited for and signalled", async () => {
    const exec = await session.start(["cat"], { stdinOpen: true });
    await exec.writeStdin("one\n");
    const page = await exec.read({ waitMs: 10_000 });
    expect(page).toMatchObject({ nextCursor: 4, done: false, skippedBytes: 0 });
    expect(page.chunks.map(({ text }) => text).join("")).toBe("one\n");
    await exec.writeStdin(new Uint8Array([0xff]));
    await exec.closeStdin();
    const rest = await Array.fromAsync(exec.follow({ cursor: page.nextCursor }));
    expect(rest.flatMap(({ bytes }) => [...bytes])).toEqual([0xff]);
    expect(await exec.wait()).toMatchObject({ status: "done", exitCode: 0, output: "one\n\uFFFD" });

    const sleeper = await session.start(["sleep", "30"]);
    expect((await sleeper.wait({ timeoutMs: 1 })).status).toBe("running");
    expect(await sleeper.signal("KILL")).toBeGreaterThan(0);
    expect(await sleeper.wait()).toMatchObject({ endReason: "killed" });
    const listed = await Array.fromAsync(session.execs());
    expect(listed.map(({ execId }) => execId)).toContain(sleeper.id);
    await expect(session.getExec("exe_none").info()).rejects.toMatchObject({
      code: "EXEC_NOT_FOUND",
    });
  });

  test("on a terminal accept input, can be left, and can be reattached", async () => {
    const { id: execId } = await session.start(["sh", "-c", "read line; stty size; cat"], {
      stdinOpen: true,
      pty: { rows: 24, cols: 80 },
    });
    const first = await session.pty({ execId });
    expect(first.execId).toBe(execId);
    first.resize({ rows: 10, cols: 40 });
    first.write("one\n");
    expect(Buffer.from((await first[Symbol.asyncIterator]().next()).value!).toString()).toBe(
      "10 40\n",
    );
    first.close();

    const second = await session.pty({ execId, cursor: first.cursor });
    second.write("two\n");
    second.eof();
    expect(Buffer.concat(await Array.fromAsync(second)).toString()).toBe("two\n");
    expect(await second.exited).toMatchObject({ execId, exitCode: 0 });
    await expect(session.pty({ execId: "exe_none" })).rejects.toMatchObject({
      code: "EXEC_NOT_FOUND",
    });
  });
});

describe("files", () => {
  test("can be written, read, listed, moved and removed", async () => {
    const { files } = session;
    const bytes = new Uint8Array([0, 0xff, 10]);
    expect(await files.write("d/a.bin", bytes, { mode: 0o600 })).toEqual({
      path: "/workspace/d/a.bin",
      sizeBytes: 3,
      etag: expect.any(String) as string,
    });
    expect(await session.read("d/a.bin")).toEqual(bytes);
    expect(await session.read("d/a.bin", { maxBytes: 2 })).toEqual(bytes.subarray(0, 2));
    await files.write("d/empty", "");
    expect(await files.read("d/empty", { maxBytes: 5 })).toEqual(new Uint8Array());
    expect(await files.stat("d/a.bin")).toMatchObject({ type: "file", sizeBytes: 3, mode: 0o600 });
    await expect(files.write("d/empty", "x", { overwrite: false })).rejects.toMatchObject({
      code: "FILE_EXISTS",
    });
    await files.move("d/empty", "d/b");
    await files.mkdir("d/e/f");
    const names = (await Array.fromAsync(files.list("d"))).map(({ name }) => name);
    expect(names.toSorted()).toEqual(["a.bin", "b", "e"]);
    await files.remove("d", { recursive: true });
    await expect(files.stat("d")).rejects.toMatchObject({ code: "FILE_NOT_FOUND" });
  });

  test("can be appended to, copied, resolved, and written only if unchanged", async () => {
    const { files } = session;
    const { etag } = await files.writeText("n/log", "one\n");
    expect(await files.append("n/log", "two\n")).toMatchObject({ sizeBytes: 8, size_bytes: 8 });
    await expect(files.write("n/log", "x", { ifMatch: etag })).rejects.toMatchObject({
      code: "FILE_CHANGED",
      status: 412,
    });
    const now = await files.stat("n/log", { follow: true });
    await files.write("n/log", "three", { if_match: now.etag });
    expect(await files.readText("n/log")).toBe("three");
    await expect(files.copy("n", "m")).rejects.toMatchObject({ code: "NOT_A_FILE" });
    expect(await files.copy("n", "m", { recursive: true })).toMatchObject({
      path: "/workspace/m",
      entries: 2,
      bytes: 5,
    });
    expect(await files.realpath("m/../m/log")).toEqual({ path: "/workspace/m/log" });
    await files.remove("m/log");
    await files.remove("m");
    const archive = await files.tar("n", { exclude: ["*.log", "log"] });
    expect((await files.untar("o", archive)).entries).toBe(0);
  });

  test("with names that are not UTF-8 are addressed by their bytes and by their entries", async () => {
    const { files } = session;
    const path = new Uint8Array([0x72, 0x2f, 0xff]);
    const written = await files.write(path, "raw");
    expect(written).toMatchObject({ path: "/workspace/r/\ufffd", rawPath: written.raw_path });
    const [entry] = await Array.fromAsync(files.list("r"));
    expect(await files.readText(entry!)).toBe("raw");
    expect((await files.stat(entry!)).rawPath).toBe(written.rawPath);
    await files.move(entry!, new Uint8Array([0x72, 0x2f, 0xfe]));
    const [moved] = await Array.fromAsync(files.list("r"));
    await files.remove(moved!);
    await files.remove("r");
  });

  test("are streamed both ways, partially, as a form and as an archive", async () => {
    const { files } = session;
    const bytes = new Uint8Array(300_000).map((_, index) => index % 253);
    await files.upload("s/large", new Blob([bytes]).stream());
    const range = { start: 299_990 };
    const part = await new Response(await files.download("s/large", { range })).bytes();
    expect(part).toEqual(bytes.subarray(299_990));
    const form = [new File(["x"], "x.txt"), new File(["y"], "y.txt")];
    expect(await files.uploadAll("s", form)).toEqual(["/workspace/s/x.txt", "/workspace/s/y.txt"]);
    const archive = await files.tar("s");
    expect((await files.untar("t", archive)).entries).toBeGreaterThanOrEqual(3);
    expect(await files.read("t/large")).toEqual(bytes);
  });

  test("can be watched", async () => {
    const { files } = session;
    await files.mkdir("w");
    const caller = new AbortController();
    const changes = files.watch("w", { signal: caller.signal });
    const first = changes.next();
    // The daemon responds once it watches; only writes after that are reported.
    let size = 0;
    const writing = setInterval(() => void files.write("w/seen", "x".repeat(++size)), 20);
    try {
      expect((await first).value).toMatchObject({ path: "/workspace/w/seen" });
    } finally {
      clearInterval(writing);
    }
    caller.abort(new Error("enough"));
    await expect(Array.fromAsync(changes)).rejects.toThrow("enough");
  });

  test("of a workspace outlive its session", async () => {
    {
      await using worker = await client.createSession({ workspaceId: "notes" });
      await worker.write("/workspace/kept", "still here");
    }
    expect((await client.workspaces.list()).map(({ id }) => id)).toContain("notes");
    expect(await client.workspaces.files("notes").readText("kept")).toBe("still here");
    await client.workspaces.delete("notes");
    await expect(client.workspaces.get("notes")).rejects.toMatchObject({ code: "FILE_NOT_FOUND" });
  });
});

test("images can be listed, and errors about them are typed", async () => {
  const listed = await client.images.list();
  expect(listed.map(({ reference }) => reference)).toEqual([...daemon.core.machine.images]);
  expect(listed.length).toBeGreaterThan(0);
  await expect(client.images.pull("alpine:3")).rejects.toMatchObject({ code: "UNSUPPORTED" });
});

describe("ports", () => {
  test("can be listed, linked to and connected to, with bytes both ways and half-closes", async () => {
    await session.start(["echo-server", "9000"]);
    while ((await session.ports()).length === 0) await new Promise(setImmediate);
    expect(await session.ports()).toEqual([
      { port: 9000, address: "127.0.0.1", process: "echo-server" },
    ]);
    const url = new URL(await session.url(9000, { expiresInSeconds: 60 }));
    expect(url.hostname).toBe(`9000-${session.id.replace("_", "-")}.localhost`);
    expect(url.searchParams.get("sandkasten_token")).toMatch(/^\w+\.[\w-]{43}$/);

    using connection = await session.connect(9000);
    // Several times the amount that either side accepts before it has to be acknowledged.
    const sent = Buffer.alloc(5_000_000, "there and back ");
    const writing = (async () => {
      const writer = connection.writable.getWriter();
      await writer.write(sent);
      await writer.close();
    })();
    // Unread data waits at the sender.
    await new Promise((resolve) => setTimeout(resolve, 50));
    const received = Buffer.concat(await Array.fromAsync(connection.readable));
    await writing;
    expect(received.equals(sent)).toBe(true);
  });

  test("fail with the daemon's message", async () => {
    await expect(session.connect(9001)).rejects.toMatchObject({ code: "PORT_REFUSED" });
    await expect(session.connect(0)).rejects.toMatchObject({ code: "INVALID_REQUEST" });
    const gone = await client.createSession();
    await gone.destroy();
    await expect(gone.connect(9000)).rejects.toMatchObject({ code: "SESSION_NOT_FOUND" });
    await expect(gone.url(9000)).rejects.toMatchObject({ code: "SESSION_NOT_FOUND" });
    await expect(session.connect(9000, { signal: AbortSignal.abort("no") })).rejects.toBe("no");
  });

  test("are closed when the connection is closed here", async () => {
    const connection = await session.connect(9000);
    const reading = connection.readable.getReader().read();
    connection.close();
    await expect(reading).rejects.toMatchObject({ code: "CANCELLED" });
    await expect(connection.writable.getWriter().write(new Uint8Array(1))).rejects.toMatchObject({
      code: "CANCELLED",
    });
  });
});
