import { readTar, writeTar } from "@sandkasten/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { HttpFixture } from "../testing/http-fixture.ts";
import type { Answer, Call } from "../testing/http-fixture.ts";
import { readEvents } from "../testing/read-events.ts";

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

  it("are written as text or base64, also empty, and read back", async () => {
    expect((await write({ path: "a.txt", text: "héllo" })).json).toEqual({
      ok: true,
      path: "/workspace/a.txt",
      size: 6,
      size_bytes: 6,
    });
    const read = await fs("/read?path=a.txt");
    expect(read.json).toEqual({
      path: "/workspace/a.txt",
      content_base64: Buffer.from("héllo").toString("base64"),
      truncated: false,
      size: 6,
      size_bytes: 6,
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

  it("are read in part, and that is said", async () => {
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

  it("are listed, looked at, moved and removed", async () => {
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
      error_code: "NOT_A_FILE",
    });
    expect((await fs("?path=dir&recursive=true", { method: "DELETE" })).json).toEqual({
      ok: true,
      deleted: "/workspace/dir",
      path: "/workspace/dir",
    });
    const entries = (await fs("")).json.entries as { name: string }[];
    expect(entries.map(({ name }) => name)).not.toContain("dir");
  });

  it("that are not there are said to be missing", async () => {
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

  it("go in and out as archives", async () => {
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

  it("are watched", async () => {
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
  it("has files outside of its workspace, too", async () => {
    const base = `/v1/sessions/${await http.createSession()}/fs`;
    const written = await http.call(`${base}/write`, { body: { path: "/tmp/x", text: "x" } });
    expect(written.json).toMatchObject({ path: "/tmp/x" });
    expect((await http.call(`${base}/stat?path=../tmp/x`)).status).toBe(200);
  });
});

describe("a workspace", () => {
  it("has no files but its own, and is not made by a call that is refused", async () => {
    await using own = await HttpFixture.start();
    const fs = "/v1/workspaces/mine/fs";
    const form = (): FormData => {
      const made = new FormData();
      made.append("path", "/tmp");
      made.append("file", new Blob(["x"]), "x");
      return made;
    };
    const outside: readonly (readonly [string, Call?])[] = [
      ["/write", { body: { path: "/tmp/x", text: "x" } }],
      ["/write", { body: { path: "../tmp/x", text: "x" } }],
      ["/write", { body: { path: "/workspace/../x", text: "x" } }],
      ["/write", { body: { path: "/workspaces/x", text: "x" } }],
      ["/mkdir", { body: { path: "/" } }],
      ["/move", { body: { from: "a", to: "/tmp/a" } }],
      ["/move", { body: { from: "/etc/passwd", to: "a" } }],
      ["/file?path=/tmp/x", { method: "PUT", body: "x" }],
      ["/tar?path=/tmp", { method: "PUT", body: writeTar([]) }],
      ["/upload?path=/tmp", { body: new FormData() }],
      ["/upload", { body: form() }],
      ["/read?path=/etc/passwd"],
      ["/stat?path=/etc"],
      ["/file?path=/etc/passwd"],
      ["/tar?path=/etc"],
      ["/watch?path=/tmp"],
      ["?path=/"],
      ["?path=/tmp/x", { method: "DELETE" }],
    ];
    for (const [call, options] of outside)
      expect([call, await own.call(`${fs}${call}`, options)]).toMatchObject([
        call,
        {
          status: 400,
          json: {
            error_code: "INVALID_REQUEST",
            message: expect.stringContaining("name a path below /workspace") as string,
          },
        },
      ]);
    expect((await own.call(`${fs}/file?path=/etc/passwd`, { method: "HEAD" })).status).toBe(400);
    expect((await own.call("/v1/workspaces")).json).toEqual({ workspaces: [] });
    for (const path of ["/workspace", "/workspace/sub/..", "/work/", "."])
      expect((await own.call(`${fs}?path=${path}`)).status).toBe(404);
  });

  it("is made by writing, not by reading, and outlives sessions", async () => {
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
    expect((await own.call("/v1/workspaces/new-one", removal)).status).toBe(404);
    expect((await own.call("/v1/workspaces/Bad_Name", removal)).status).toBe(400);
  });
});
