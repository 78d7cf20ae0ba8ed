import { describe, expect, test } from "vitest";
import type { FileSource } from "./file-types.ts";
import {
  bytes,
  cut,
  event,
  events,
  failure,
  json,
  ScriptedServer,
} from "./testing/scripted-server.ts";
import { sessionOf } from "./testing/wire-samples.ts";

const base = "/v1/sessions/ses_1/fs";
const written = json(200, { ok: true, path: "/workspace/a", size: 3, size_bytes: 3 });
const ok = json(200, { ok: true });
const content = new Uint8Array([0, 0xff, 10]);

const entry = {
  path: "/workspace/a",
  name: "a",
  type: "file",
  is_dir: false,
  size: 3,
  size_bytes: 3,
  mode: 0o644,
  mtime_unix: 1_769_860_800.5,
  uid: 1000,
  gid: 1000,
};

async function* pieces(): AsyncGenerator<Uint8Array> {
  yield content.subarray(0, 1);
  yield content.subarray(1);
}

describe("write()", () => {
  test.each<[string, () => FileSource]>([
    ["bytes", () => content],
    ["an ArrayBuffer", () => content.slice().buffer],
    ["a Blob", () => new Blob([content])],
    ["a stream", () => new Blob([content]).stream()],
    ["an iterable", pieces],
    ["a part of a larger buffer", () => new Uint8Array([9, ...content, 9]).subarray(1, 4)],
  ])("sends %s unchanged", async (_, source) => {
    await using server = await ScriptedServer.start(written);
    const answer = await sessionOf(server).write("/workspace/a", source());
    expect(answer).toEqual({ path: "/workspace/a", sizeBytes: 3 });
    expect(server.lines).toEqual([`PUT ${base}/file?path=%2Fworkspace%2Fa`]);
    expect(new Uint8Array(server.requests[0]!.body)).toEqual(content);
    expect(server.requests[0]!.headers["content-type"]).toBe("application/octet-stream");
  });

  test("sends text as UTF-8, and an empty file", async () => {
    await using server = await ScriptedServer.start(written, written, written);
    const session = sessionOf(server);
    await session.write("a", "é\n", { mode: 0o755, overwrite: true });
    await session.write("b", "");
    await session.files.upload("c", new Blob([]));
    expect(server.requests.map(({ body }) => body.toString())).toEqual(["é\n", "", ""]);
    expect(server.lines[0]).toBe(`PUT ${base}/file?path=a&mode=755&overwrite=true`);
  });

  test("writes a mode as octal digits", async () => {
    await using server = await ScriptedServer.start(written, written);
    const { files } = sessionOf(server);
    await files.write("a", "", { mode: 0o4 });
    await files.write("a", "", { mode: 0o1777 });
    expect(server.lines).toEqual([
      `PUT ${base}/file?path=a&mode=004`,
      `PUT ${base}/file?path=a&mode=1777`,
    ]);
  });

  test("is not retried if it must not replace a file: the existing one could be its own", async () => {
    await using server = await ScriptedServer.start(cut);
    const writing = sessionOf(server).write("a", "x", { overwrite: false });
    await expect(writing).rejects.toMatchObject({ code: "CONNECTION_FAILED" });
    expect(server.requests).toHaveLength(1);
  });

  test("fails if its source fails", async () => {
    await using server = await ScriptedServer.start();
    const failing = async function* (): AsyncGenerator<Uint8Array> {
      yield content;
      throw new Error("the disk is gone");
    };
    await expect(sessionOf(server).write("a", failing())).rejects.toMatchObject({
      code: "CONNECTION_FAILED",
    });
    expect(server.requests).toEqual([]);
  });

  test("several files go as a form with their names", async () => {
    const paths = ["/tmp/a.txt", "/tmp/ü.bin"];
    await using server = await ScriptedServer.start(json(200, { ok: true, paths }));
    const files = [new File(["hello"], "a.txt"), new File([content], "ü.bin")];
    expect(await sessionOf(server).files.uploadAll("/tmp", files)).toEqual(paths);
    expect(server.lines).toEqual([`POST ${base}/upload?path=%2Ftmp`]);
    const { headers, body } = server.requests[0]!;
    expect(headers["content-type"]).toMatch(/^multipart\/form-data; boundary=/);
    expect(body.toString()).toContain('name="files"; filename="a.txt"');
    expect(body.toString()).toContain('name="files"; filename="ü.bin"');
    expect(body.includes(Buffer.from([...Buffer.from("\r\n\r\n"), ...content]))).toBe(true);
  });
});

describe("read()", () => {
  test("returns all bytes, even if the connection breaks", async () => {
    await using server = await ScriptedServer.start((response) => {
      response.writeHead(200, { "Content-Length": "3" });
      response.write("x", () => response.destroy());
    }, bytes(content));
    expect(await sessionOf(server).read("/etc/a b")).toEqual(content);
    expect(server.lines[1]).toBe(`GET ${base}/file?path=%2Fetc%2Fa+b`);
  });

  test("returns only the first bytes on request, also of an empty file and none", async () => {
    await using server = await ScriptedServer.start(
      bytes("ab", 206),
      bytes("", 416),
      bytes("a", 206),
    );
    const { files } = sessionOf(server);
    expect(await files.readText("a", { maxBytes: 2 })).toBe("ab");
    expect(await files.readText("a", { maxBytes: 2 })).toBe("");
    expect(await files.readText("a", { maxBytes: 0 })).toBe("");
    expect(server.requests.map(({ headers }) => headers.range)).toEqual([
      "bytes=0-1",
      "bytes=0-1",
      "bytes=0-0",
    ]);
  });

  test("returns the real path of the file, and throws what the listener throws", async () => {
    const answer = bytes(content, 200, { "x-sandkasten-real-path": "/etc/gr%C3%B6%C3%9Fe" });
    await using server = await ScriptedServer.start(answer, answer, bytes(content));
    const { files } = sessionOf(server);
    const seen: string[] = [];
    const onRealPath = (path: string): void => void seen.push(path);
    expect(await files.read("link", { onRealPath })).toEqual(content);
    expect(seen).toEqual(["/etc/größe"]);
    const refuse = (): never => {
      throw new Error("not this one");
    };
    await expect(files.read("link", { onRealPath: refuse })).rejects.toThrow("not this one");
    await files.read("link");
    expect(server.lines).toEqual([
      `GET ${base}/file?path=link&real_path=true`,
      `GET ${base}/file?path=link&real_path=true`,
      `GET ${base}/file?path=link`,
    ]);
  });

  test("returns text unchanged, with its byte order mark", async () => {
    await using server = await ScriptedServer.start(bytes("\uFEFFé"));
    expect(await sessionOf(server).files.readText("a")).toBe("\uFEFFé");
  });

  test("throws the daemon's errors", async () => {
    await using server = await ScriptedServer.start(failure(404, "FILE_NOT_FOUND"));
    await expect(sessionOf(server).read("a")).rejects.toMatchObject({ code: "FILE_NOT_FOUND" });
  });
});

describe("download()", () => {
  test("streams a file, or a part of it", async () => {
    await using server = await ScriptedServer.start(
      bytes(content),
      bytes("b", 206),
      bytes("c", 206),
    );
    const { files } = sessionOf(server);
    const whole = await files.download("a");
    expect(await new Response(whole).bytes()).toEqual(content);
    await files.download("a", { range: { start: 1, end: 3 } });
    await files.download("a", { range: { start: 2 } });
    expect(server.requests.map(({ headers }) => headers.range)).toEqual([
      undefined,
      "bytes=1-2",
      "bytes=2-",
    ]);
  });

  test("fails with a SandboxError if the connection breaks, after the data so far", async () => {
    const cutNow = Promise.withResolvers<void>();
    await using server = await ScriptedServer.start(async (response) => {
      response.writeHead(200, { "Content-Length": "9" }).write("abc");
      await cutNow.promise;
      response.destroy();
    });
    const reader = (await sessionOf(server).files.download("a")).getReader();
    expect((await reader.read()).value).toEqual(new TextEncoder().encode("abc"));
    cutNow.resolve();
    await expect(reader.read()).rejects.toMatchObject({ code: "CONNECTION_FAILED" });
  });

  test("closes the connection when the reader stops", async () => {
    const left = Promise.withResolvers<void>();
    await using server = await ScriptedServer.start((response) => {
      response.once("close", () => left.resolve());
      response.writeHead(200).write("abc");
    });
    const stream = await sessionOf(server).files.download("a");
    await stream.cancel();
    await left.promise;
  });

  test("ends with the signal's reason", async () => {
    const caller = new AbortController();
    await using server = await ScriptedServer.start((response) => {
      response.writeHead(200).write("abc");
    });
    const { signal } = caller;
    const reader = (await sessionOf(server).files.download("a", { signal })).getReader();
    await reader.read();
    const reason = new Error("enough");
    caller.abort(reason);
    await expect(reader.read()).rejects.toBe(reason);
  });
});

describe("directories", () => {
  test("stat() and list() return entries in camelCase, page by page", async () => {
    const link = { ...entry, name: "l", type: "symlink", target: "a" };
    await using server = await ScriptedServer.start(
      json(200, entry),
      json(200, { path: "/workspace", entries: [entry], next_cursor: "c/1" }),
      json(200, { path: "/workspace", entries: [link] }),
    );
    const { files } = sessionOf(server);
    expect(await files.stat("a")).toEqual({
      path: "/workspace/a",
      name: "a",
      type: "file",
      isDir: false,
      sizeBytes: 3,
      mode: 0o644,
      mtimeUnix: 1_769_860_800.5,
      uid: 1000,
      gid: 1000,
    });
    const all = await Array.fromAsync(files.list("/workspace", { recursive: true }));
    expect(all.map(({ name, target }) => [name, target])).toEqual([
      ["a", undefined],
      ["l", "a"],
    ]);
    expect(server.lines).toEqual([
      `GET ${base}/stat?path=a`,
      `GET ${base}?path=%2Fworkspace&recursive=true`,
      `GET ${base}?path=%2Fworkspace&recursive=true&cursor=c%2F1`,
    ]);
  });

  test("mkdir(), move() and remove() send the right requests", async () => {
    await using server = await ScriptedServer.start(ok, ok, ok);
    const { files } = sessionOf(server);
    await files.mkdir("d", { mode: 0o700, parents: false });
    await files.move("d", "e", { overwrite: true });
    await files.remove("e", { recursive: true });
    expect(server.lines).toEqual([
      `POST ${base}/mkdir`,
      `POST ${base}/move`,
      `DELETE ${base}?path=e&recursive=true`,
    ]);
    expect([server.json(0), server.json(1)]).toEqual([
      { path: "d", mode: 0o700, parents: false },
      { from: "d", to: "e", overwrite: true },
    ]);
  });

  test("a file that is missing when a lost removal is repeated was removed", async () => {
    const gone = failure(404, "FILE_NOT_FOUND");
    await using server = await ScriptedServer.start(cut, gone, gone);
    const { files } = sessionOf(server);
    await files.remove("a");
    await expect(files.remove("a")).rejects.toMatchObject({ code: "FILE_NOT_FOUND" });
  });

  test("tar() and untar() stream archives", async () => {
    await using server = await ScriptedServer.start(
      bytes(content),
      json(200, { ok: true, entries: 2, bytes: 3 }),
    );
    const { files } = sessionOf(server);
    const archive = await files.tar("/workspace");
    expect(await files.untar("/tmp", archive)).toEqual({ entries: 2, bytes: 3 });
    expect(server.lines).toEqual([
      `GET ${base}/tar?path=%2Fworkspace`,
      `PUT ${base}/tar?path=%2Ftmp`,
    ]);
    expect(new Uint8Array(server.requests[1]!.body)).toEqual(content);
  });
});

describe("watch()", () => {
  const change = (kind: string, path: string): string => event("change", { kind, path });

  test("delivers changes, and an overflow if the connection broke", async () => {
    await using server = await ScriptedServer.start(
      events([change("create", "/workspace/a")], "cut"),
      events([change("remove", "/workspace/a")], "stay"),
    );
    const seen: string[] = [];
    const watching = sessionOf(server).files.watch("/workspace", { recursive: true });
    for await (const { kind, path } of watching) {
      seen.push(`${kind} ${path}`);
      if (kind === "remove") break;
    }
    expect(seen).toEqual(["create /workspace/a", "overflow /workspace", "remove /workspace/a"]);
    expect(server.lines[0]).toBe(`GET ${base}/watch?path=%2Fworkspace&recursive=true`);
  });

  test("ends with the daemon's error, and with the signal's reason", async () => {
    await using server = await ScriptedServer.start(
      events([event("error", { error: "gone", error_code: "SESSION_EXPIRED" })]),
      events([change("create", "/workspace/a")], "stay"),
    );
    const { files } = sessionOf(server);
    await expect(Array.fromAsync(files.watch())).rejects.toMatchObject({ code: "SESSION_EXPIRED" });
    const caller = new AbortController();
    const reason = new Error("enough");
    const watching = (async () => {
      for await (const _ of files.watch("a", { signal: caller.signal })) caller.abort(reason);
    })();
    await expect(watching).rejects.toBe(reason);
  });
});
