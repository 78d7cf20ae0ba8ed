import { readTar, writeTar } from "@sandkasten/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { HttpFixture } from "../../../testing/http-fixture.ts";
import type { Answer, Call } from "../../../testing/http-fixture.ts";
import { readEvents } from "../../../testing/read-events.ts";

let http: HttpFixture;
beforeAll(async () => {
  http = await HttpFixture.start();
});
afterAll(async () => await http[Symbol.asyncDispose]());

/** The same calls for both, one after the other. */
const spaces = {
  session: async (): Promise<string> => `/v1/sessions/${await http.createSession()}`,
  workspace: (): Promise<string> => Promise.resolve(`/v1/workspaces/w${++made}`),
};
let made = 0;

describe.each(["session", "workspace"] as const)("files of a %s", (kind) => {
  let base: string;
  beforeAll(async () => {
    base = await spaces[kind]();
  });

  const fs = async (path: string, call?: Call): Promise<Answer> =>
    await http.call(`${base}/fs${path}`, call);
  const write = async (body: object): Promise<Answer> => await fs("/write", { body });

  it("are written as text or base64, including empty ones, and read back", async () => {
    expect((await write({ path: "a.txt", text: "héllo" })).json).toEqual({
      ok: true,
      path: "/workspace/a.txt",
      size: 6,
      size_bytes: 6,
      etag: expect.any(String) as string,
    });
    const read = await fs("/read?path=a.txt");
    expect(read.json).toEqual({
      path: "/workspace/a.txt",
      content_base64: Buffer.from("héllo").toString("base64"),
      truncated: false,
      size: 6,
      size_bytes: 6,
      etag: expect.any(String) as string,
    });
    const bytes = Buffer.from([0, 255, 1, 254]).toString("base64");
    for (const body of [{ content_base64: bytes }, { contents_b64: bytes }]) {
      await write({ path: "/workspace/deep/er/b", ...body });
      expect((await fs("/read?path=/workspace/deep/er/b")).json.content_base64).toBe(bytes);
    }
    for (const body of [{ text: "" }, { content_base64: "" }, { contents: "" }]) {
      expect((await write({ path: "empty", ...body })).json).toMatchObject({ size: 0 });
      expect((await fs("/read?path=empty")).json).toMatchObject({
        content_base64: "",
        truncated: false,
        size: 0,
      });
    }
  });

  it("are read partially, and the response says so", async () => {
    await write({ path: "long", text: "0123456789" });
    expect((await fs("/read?path=long&max_bytes=4")).json).toMatchObject({
      content_base64: Buffer.from("0123").toString("base64"),
      truncated: true,
      size: 10,
    });
    expect((await fs("/read?path=long&max_bytes=10")).json).toMatchObject({ truncated: false });
    expect((await fs("/read?path=long&max_bytes=0")).json).toMatchObject({ truncated: false });
    expect((await fs("/read?path=long&max_bytes=99999999999")).json).toMatchObject({
      truncated: false,
    });
  });

  it("are refused without, and with too much, content", async () => {
    await write({ path: "kept", text: "old" });
    for (const body of [
      { path: "x" },
      { path: "x", text: "a", content_base64: "YQ==" },
      { path: "x", text: "a", contents: "a" },
      { path: "x", content_base64: "no base64!" },
      { path: "", text: "a" },
      { path: "a\0b", text: "a" },
    ])
      expect(await write(body)).toMatchObject({
        status: 400,
        json: { error_code: "INVALID_REQUEST" },
      });
    expect(await write({ path: "kept", text: "new", overwrite: false })).toMatchObject({
      status: 409,
      json: { error_code: "FILE_EXISTS" },
    });
  });

  it("can be listed, examined, moved and removed", async () => {
    await write({ path: "dir/one", text: "1", mode: 0o640 });
    expect((await fs("/mkdir", { body: { path: "dir/sub/deep" } })).json).toEqual({
      ok: true,
      path: "/workspace/dir/sub/deep",
    });
    expect((await fs("/mkdir", { body: { path: "no/where", parents: false } })).status).toBe(404);
    const list = await fs("?path=dir");
    expect(list.json.path).toBe("/workspace/dir");
    expect(list.json.entries).toMatchObject([
      {
        name: "one",
        path: "/workspace/dir/one",
        type: "file",
        is_dir: false,
        size: 1,
        size_bytes: 1,
        mode: 0o640,
      },
      { name: "sub", type: "dir", is_dir: true },
    ]);
    const page = await fs("?path=dir&recursive=true&limit=2");
    expect(page.json.entries).toHaveLength(2);
    const rest = await fs(
      `?path=dir&recursive=1&cursor=${encodeURIComponent(page.json.next_cursor)}`,
    );
    expect(rest.json.entries).toMatchObject([{ path: "/workspace/dir/sub/deep" }]);
    expect((await fs("/stat?path=dir/one")).json).toMatchObject({ type: "file", size: 1 });
    expect((await fs("/move", { body: { from: "dir/one", to: "dir/two" } })).json).toEqual({
      ok: true,
      path: "/workspace/dir/two",
    });
    expect((await fs("?path=dir", { method: "DELETE" })).json).toMatchObject({
      error_code: "FILE_EXISTS",
    });
    expect((await fs("?path=dir/sub/deep", { method: "DELETE" })).json).toMatchObject({ ok: true });
    expect((await fs("?path=dir&recursive=true", { method: "DELETE" })).json).toEqual({
      ok: true,
      deleted: "/workspace/dir",
      path: "/workspace/dir",
    });
    const entries = (await fs("")).json.entries as { name: string }[];
    expect(entries.map(({ name }) => name)).not.toContain("dir");
  });

  it("can be appended to, copied, resolved and written conditionally", async () => {
    const first = await write({ path: "notes", text: "one\n" });
    const added = await write({ path: "notes", text: "two\n", append: true });
    expect(added.json).toMatchObject({ path: "/workspace/notes", size: 8 });
    expect((await fs("/stat?path=notes&follow=true")).json).toMatchObject({ size: 8 });
    const condition = { if_match: (first.json as { etag: string }).etag };
    expect(await write({ path: "notes", text: "x", ...condition })).toMatchObject({
      status: 412,
      json: { error_code: "FILE_CHANGED" },
    });
    const { etag } = (await fs("/stat?path=notes")).json as { etag: string };
    expect((await write({ path: "notes", text: "new", if_match: `"${etag}"` })).status).toBe(200);
    const copy = async (body: object): Promise<Answer> => await fs("/copy", { body });
    expect((await copy({ from: "notes", to: "notes-2" })).json).toEqual({
      ok: true,
      path: "/workspace/notes-2",
      entries: 1,
      bytes: 3,
      skipped: 0,
    });
    expect((await copy({ from: "notes", to: "notes-2" })).status).toBe(409);
    expect((await copy({ from: "notes" })).json.message).toContain("`to` is missing");
    expect((await fs("/realpath?path=./sub/../notes")).json).toEqual({
      ok: true,
      path: "/workspace/notes",
    });
  });

  it("with names that are not UTF-8 are addressed by their bytes, in all calls", async () => {
    const bytes = Buffer.from("/workspace/raw-\xff/file-\xfe", "latin1");
    const raw = bytes.toString("base64");
    const directory = Buffer.from("raw-\xff", "latin1").toString("base64url");
    const inQuery = `raw_path=${bytes.toString("base64url")}`;
    const named = { path: "/workspace/raw-\ufffd/file-\ufffd", raw_path: raw };
    expect((await write({ raw_path: raw, text: "123" })).json).toMatchObject(named);
    expect((await fs(`/read?${inQuery}`)).json).toMatchObject({ ...named, size: 3 });
    expect((await fs(`/stat?${inQuery}`)).json).toMatchObject({ ...named, size: 3 });
    expect((await fs(`/realpath?${inQuery}`)).json).toMatchObject(named);
    expect((await fs(`/file?${inQuery}`)).text).toBe("123");
    expect((await fs(`/file?${inQuery}`, { method: "HEAD" })).status).toBe(200);
    expect((await fs(`/file?${inQuery}`, { method: "PUT", body: "4" })).json).toMatchObject(named);
    expect((await fs(`?raw_path=${directory}`)).json).toMatchObject({
      path: "/workspace/raw-\ufffd",
      raw_path: Buffer.from("/workspace/raw-\xff", "latin1").toString("base64"),
      entries: [named],
    });
    const form = new FormData();
    form.append("raw_path", directory);
    form.append("file", new Blob(["x"]), "uploaded");
    expect((await fs("/upload", { body: form })).json).toMatchObject({
      paths: ["/workspace/raw-\ufffd/uploaded"],
      raw_paths: [Buffer.from("/workspace/raw-\xff/uploaded", "latin1").toString("base64")],
    });
    expect((await fs(`/tar?raw_path=${directory}`)).status).toBe(200);
    const moved = Buffer.from("moved-\xff", "latin1").toString("base64");
    const copied = Buffer.from("copied-\xff", "latin1").toString("base64");
    const both = { raw_from: raw, raw_to: copied };
    expect((await fs("/copy", { body: both })).json).toMatchObject({ bytes: 1 });
    const move = { raw_from: copied, raw_to: moved };
    expect((await fs("/move", { body: move })).json).toMatchObject({
      path: "/workspace/moved-\ufffd",
      raw_path: Buffer.from("/workspace/moved-\xff", "latin1").toString("base64"),
    });
    expect((await fs("/mkdir", { body: { raw_path: copied } })).status).toBe(200);
    for (const path of [moved, copied, raw])
      expect(
        (await fs(`?raw_path=${encodeURIComponent(path)}`, { method: "DELETE" })).json,
      ).toMatchObject({ ok: true, raw_path: expect.any(String) as string });
    for (const query of [
      "/stat?path=a&raw_path=YQ",
      "/stat?raw_path=",
      "/stat?raw_path=A",
      "/stat?raw_path=AA",
      "/stat?raw_path=%FF",
      "/stat?raw_path=!",
    ])
      expect([query, (await fs(query)).status]).toEqual([query, 400]);
  });

  it("that do not exist are reported as missing", async () => {
    for (const path of [
      "/read?path=none",
      "/stat?path=none",
      "?path=none",
      "/file?path=none",
      "/tar?path=none",
      "/watch?path=none",
    ])
      expect(await fs(path)).toMatchObject({ status: 404, json: { error_code: "FILE_NOT_FOUND" } });
    expect((await fs("?path=none", { method: "DELETE" })).status).toBe(404);
    expect((await fs("/file?path=none", { method: "HEAD" })).status).toBe(404);
    await fs("/mkdir", { body: { path: "d" } });
    for (const path of ["/read?path=d", "/file?path=d"])
      expect(await fs(path)).toMatchObject({ status: 400, json: { error_code: "NOT_A_FILE" } });
    expect((await fs("/read")).json.message).toContain("`path` is missing");
  });

  it("are transferred as archives both ways", async () => {
    const archive = writeTar([
      { path: "in", type: "dir" },
      { path: "in/a", type: "file", bytes: Buffer.from("aaa") },
    ]);
    const packed = await fs("/tar?path=/workspace/box", { method: "PUT", body: archive });
    expect(packed.json).toEqual({ ok: true, entries: 2, bytes: 3 });
    const response = await http.fetch(`${base}/fs/tar?path=box`);
    expect(response.headers.get("content-type")).toBe("application/octet-stream");
    expect(response.headers.get("content-disposition")).toContain('filename="box.tar"');
    const entries = readTar(Buffer.from(await response.arrayBuffer()));
    expect(entries.map(({ path, bytes }) => [path, String(bytes ?? "")])).toContainEqual([
      "in/a",
      "aaa",
    ]);
  });

  it("can be watched", async () => {
    const response = await http.fetch(`${base}/fs/watch?path=/workspace&recursive=true`);
    expect(response.status).toBe(200);
    const events = readEvents(response);
    await write({ path: "seen", text: "x" });
    const { value } = await events.next();
    expect(value).toMatchObject({ event: "change", data: { path: "/workspace/seen" } });
    await events.return(undefined);
  });
});

describe("a session", () => {
  it("also has files outside its workspace", async () => {
    const base = `/v1/sessions/${await http.createSession()}/fs`;
    const written = await http.call(`${base}/write`, { body: { path: "/tmp/x", text: "x" } });
    expect(written.json).toMatchObject({ path: "/tmp/x" });
    expect((await http.call(`${base}/stat?path=../tmp/x`)).status).toBe(200);
  });
});

describe("a workspace", () => {
  it("has no files but its own, and is not created by a refused call", async () => {
    await using own = await HttpFixture.start();
    const fs = "/v1/workspaces/mine/fs";
    const form = (): FormData => {
      const made = new FormData();
      made.append("path", "../tmp");
      made.append("file", new Blob(["x"]), "x");
      return made;
    };
    const outside: readonly (readonly [string, Call?])[] = [
      ["/write", { body: { path: "../tmp/x", text: "x" } }],
      ["/write", { body: { path: "/workspace/../x", text: "x" } }],
      ["/mkdir", { body: { path: "/workspace/.." } }],
      ["/move", { body: { from: "a", to: "../tmp/a" } }],
      ["/copy", { body: { from: "a", to: "/work/../a" } }],
      [
        "/copy",
        { body: { raw_from: Buffer.from("../etc/\xff", "latin1").toString("base64"), to: "a" } },
      ],
      [`/stat?raw_path=${Buffer.from("../\xff", "latin1").toString("base64url")}`],
      ["/realpath?path=../etc"],
      ["/move", { body: { from: "../etc/passwd", to: "a" } }],
      ["/file?path=../tmp/x", { method: "PUT", body: "x" }],
      ["/tar?path=../tmp", { method: "PUT", body: writeTar([]) }],
      ["/upload?path=../tmp", { body: new FormData() }],
      ["/upload", { body: form() }],
      ["/read?path=../etc/passwd"],
      ["/stat?path=../etc"],
      ["/file?path=../etc/passwd"],
      ["/tar?path=../etc"],
      ["/watch?path=../tmp"],
      ["?path=.."],
      ["?path=../tmp/x", { method: "DELETE" }],
    ];
    for (const [call, options] of outside)
      expect([call, await own.call(`${fs}${call}`, options)]).toMatchObject([
        call,
        {
          status: 400,
          json: {
            error_code: "INVALID_REQUEST",
            message: expect.stringContaining("use a path below /workspace") as string,
          },
        },
      ]);
    expect((await own.call(`${fs}/file?path=../etc/passwd`, { method: "HEAD" })).status).toBe(400);
    expect((await own.call("/v1/workspaces")).json).toEqual({ workspaces: [] });
    for (const path of ["/workspace", "/workspace/sub/..", "/work/", "."])
      expect((await own.call(`${fs}?path=${path}`)).status).toBe(404);
  });

  it("is created by writing, not by reading, and outlives sessions", async () => {
    await using own = await HttpFixture.start();
    for (const path of ["/v1/workspaces/new-one", "/v1/workspaces/new-one/fs"])
      expect(await own.call(path)).toMatchObject({
        status: 404,
        json: { error_code: "FILE_NOT_FOUND" },
      });
    expect((await own.call("/v1/workspaces")).json).toEqual({ workspaces: [] });
    await own.call("/v1/workspaces/new-one/fs/write", { body: { path: "a", text: "b" } });
    expect((await own.call("/v1/workspaces")).json).toMatchObject({
      workspaces: [{ id: "new-one", sessions: [] }],
    });
    const session = await own.createSession({ workspace_id: "new-one" });
    const run = await own.call(`/v1/sessions/${session}/exec`, { body: { cmd: "cat a" } });
    expect(run.json.output).toBe("b");
    expect((await own.call("/v1/workspaces/new-one")).json).toMatchObject({ sessions: [session] });
    const removal = { method: "DELETE" };
    expect((await own.call("/v1/workspaces/new-one", removal)).status).toBe(409);
    await own.call(`/v1/sessions/${session}`, removal);
    expect((await own.call("/v1/workspaces/new-one", removal)).json).toEqual({ ok: true });
    expect(await own.call("/v1/workspaces/new-one", removal)).toMatchObject({
      status: 200,
      json: { ok: true },
    });
    expect((await own.call("/v1/workspaces/Bad_Name", removal)).status).toBe(400);
  });
});

describe("a workspace for clients that know no sandbox", () => {
  it("has its own root, and its id can have the storage prefix", async () => {
    await using own = await HttpFixture.start();
    const fs = "/v1/workspaces/sandkasten-ws-notes/fs";
    const written = await own.call(`${fs}/write`, { body: { path: "/src/code.py", text: "x" } });
    expect(written).toMatchObject({ status: 200, json: { path: "/workspace/src/code.py" } });
    expect((await own.call("/v1/workspaces")).json).toMatchObject({
      workspaces: [{ id: "notes" }],
    });
    const plain = "/v1/workspaces/notes/fs";
    for (const path of ["/src/code.py", "src/code.py", "//src/./code.py", "/workspace/src/code.py"])
      expect((await own.call(`${plain}/read?path=${path}`)).json.content_base64).toBe("eA==");
    for (const path of ["/", "", "//"])
      expect((await own.call(`${plain}?path=${path}`)).json.entries).toMatchObject([
        { name: "src", is_dir: true },
      ]);
    const moved = await own.call(`${plain}/move`, { body: { from: "/src", to: "/lib" } });
    expect(moved.json).toMatchObject({ path: "/workspace/lib" });
    // A path of the sandbox outside the workspace reaches nothing.
    expect((await own.call(`${plain}/read?path=/etc/passwd`)).status).toBe(404);
  });

  it.each(["", "/", "/up", "/up/", "up/", "/workspace/up//"])(
    "uploads files into the directory %j",
    async (directory) => {
      await using own = await HttpFixture.start();
      const form = new FormData();
      form.append("path", directory);
      form.append("file", new Blob(["x"]), "a");
      form.append("colour", "red");
      const answer = await own.call("/v1/workspaces/notes/fs/upload", { body: form });
      expect(answer.status).toBe(200);
      expect(answer.headers.get("x-sandkasten-ignored")).toBe("colour");
      const expected = directory.includes("up") ? "/workspace/up/a" : "/workspace/a";
      expect(answer.json.paths).toEqual([expected]);
    },
  );
});

describe("file calls of a session", () => {
  it.each<[string, (base: string) => Promise<Answer>]>([
    ["a write", (base) => http.call(`${base}/fs/write`, { body: { path: "a", text: "" } })],
    ["a list", (base) => http.call(`${base}/fs`)],
    ["a stat", (base) => http.call(`${base}/fs/stat?path=.`)],
  ])("renew its lease: %s", async (_, use) => {
    const base = await spaces.session();
    const expiresAt = async (): Promise<number> =>
      Date.parse(String((await http.call(base)).json.expires_at));
    const before = await expiresAt();
    http.core.clock.pass(40_000);
    expect(await expiresAt()).toBe(before);
    expect((await use(base)).status).toBe(200);
    expect(await expiresAt()).toBe(before + 40_000);
    http.core.clock.pass(40_000);
    await http.core.core.reaper.tick();
    expect((await http.call(base)).json.status).toBe("running");
  });
});
