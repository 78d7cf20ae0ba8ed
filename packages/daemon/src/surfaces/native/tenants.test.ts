import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { OpenApiDocument } from "./openapi/openapi.ts";
import { BOBS_KEY, HttpFixture } from "../testing/http-fixture.ts";

let http: HttpFixture;
beforeAll(async () => {
  http = await HttpFixture.start();
});
afterAll(async () => await http[Symbol.asyncDispose]());

/** The minimum that each route needs to look up the session. */
const BODIES: Readonly<Record<string, unknown>> = {
  exec: { cmd: "echo stolen" },
  stream: { cmd: "echo stolen" },
  execs: { cmd: "echo stolen" },
  stdin: { text: "x" },
  resize: { rows: 1, cols: 1 },
  write: { path: "stolen", text: "x" },
  mkdir: { path: "stolen" },
  move: { from: "a", to: "b" },
  copy: { from: "a", to: "b" },
  network: { allow: [] },
  commit: { reference: "local/stolen:1" },
};

describe("an administrator", () => {
  it("can list and end the sessions of all owners, and of one", async () => {
    const own = await http.createSession();
    const { json } = await http.call("/v1/sessions", { key: BOBS_KEY, body: {} });
    const bobs = json.id as string;
    expect(json.owner).toBe("bob");
    const ids = async (query = "", key?: string): Promise<string[]> =>
      (await http.call(`/v1/sessions${query}`, key === undefined ? {} : { key })).json.map(
        ({ id }: { id: string }) => id,
      );
    expect(await ids()).toEqual(expect.arrayContaining([own, bobs]));
    expect(await ids("?owner=bob")).toEqual([bobs]);
    expect(await ids("?owner=alice")).not.toContain(bobs);
    expect(await ids("?owner=nobody")).toEqual([]);
    expect(await ids("", BOBS_KEY)).toEqual([bobs]);
    expect(await ids("?owner=bob", BOBS_KEY)).toEqual([bobs]);
    const denied = await http.call("/v1/sessions?owner=alice", { key: BOBS_KEY });
    expect([denied.status, denied.json.error_code]).toEqual([403, "PERMISSION_DENIED"]);

    expect((await http.call(`/v1/sessions/${bobs}`)).json).toMatchObject({ owner: "bob" });
    const destroy = { method: "DELETE", key: BOBS_KEY };
    expect((await http.call(`/v1/sessions/${own}`, destroy)).status).toBe(404);
    expect((await http.call(`/v1/sessions/${bobs}`, { method: "DELETE" })).status).toBe(200);
    const ended = await http.call(`/v1/sessions/${bobs}`, { key: BOBS_KEY });
    expect(ended.json).toMatchObject({ status: "destroyed" });
  });

  it("cannot access another owner's session, nor its content", async () => {
    const { json } = await http.call("/v1/sessions", { key: BOBS_KEY, body: {} });
    const id = json.id as string;
    const ran = await http.call(`/v1/sessions/${id}/exec`, {
      key: BOBS_KEY,
      body: { cmd: "echo secret > a; echo secret" },
    });
    const asks: readonly (readonly [string, string, unknown?])[] = [
      ["POST", "/exec", { cmd: "cat a" }],
      ["POST", "/execs", { cmd: "cat a" }],
      ["GET", "/execs"],
      ["GET", `/execs/${ran.json.exec_id}`],
      ["GET", `/execs/${ran.json.exec_id}/output`],
      ["GET", "/fs?path=."],
      ["GET", "/fs/read?path=a"],
      ["POST", "/fs/write", { path: "b", text: "x" }],
      ["GET", "/ports"],
      ["GET", "/stats"],
      ["GET", "/shells"],
      ["POST", "/pause", {}],
      ["POST", "/renew", {}],
      ["PUT", "/network", { allow: [] }],
    ];
    for (const [method, path, body] of asks) {
      const answer = await http.call(`/v1/sessions/${id}${path}`, {
        method,
        ...(body !== undefined && { body }),
      });
      expect(`${method} ${path} ${answer.status} ${answer.json?.error_code}`).toBe(
        `${method} ${path} 404 SESSION_NOT_FOUND`,
      );
    }
  });
});

describe("another owner's session", () => {
  it("looks on every route like one that never existed", async () => {
    const alices = await http.createSession();
    await http.call(`/v1/sessions/${alices}/fs/write`, { body: { path: "a", text: "secret" } });
    const exec = (await http.call(`/v1/sessions/${alices}/exec`, { body: { cmd: "echo secret" } }))
      .json.exec_id as string;
    const { paths } = (await http.call("/openapi.json")).json as OpenApiDocument;
    const routes = Object.entries(paths)
      .filter(([path]) => path.startsWith("/v1/sessions/{id}"))
      .flatMap(([path, methods]) =>
        Object.keys(methods).map((method) => ({ path, method: method.toUpperCase() })),
      );
    expect(routes.length).toBeGreaterThan(25);
    for (const { path, method } of routes) {
      const ask = async (session: string): Promise<string> => {
        const hasJson = method === "POST" || path.endsWith("/network");
        const body = hasJson ? (BODIES[path.split("/").at(-1) ?? ""] ?? {}) : undefined;
        const form = new FormData();
        form.set("file", new Blob(["x"]), "stolen");
        const query =
          /\/fs(\/(read|file|stat|realpath))?$/.test(path) && method !== "POST" ? "?path=a" : "";
        const values = { id: session, eid: exec, name: "build", port: "8000", path: "page" };
        const filled = Object.entries(values).reduce(
          (text, [name, value]) => text.replace(`{${name}}`, value),
          path,
        );
        const answer = await http.call(`${filled}${query}`, {
          method,
          key: BOBS_KEY,
          headers: { "x-request-id": "same" },
          ...(body !== undefined && { body: path.endsWith("upload") ? form : body }),
          ...(method === "PUT" && !hasJson && { body: "" }),
        });
        return `${answer.status} ${answer.text.replaceAll(session, "ID")}`;
      };
      const [other, none] = [await ask(alices), await ask("ses_000000000000000000000000")];
      expect(`${method} ${path}: ${other}`).toBe(`${method} ${path}: ${none}`);
      // A page requests a socket here; sockets have separate tests.
      if (path.endsWith("/pty") || path.endsWith("/connect")) continue;
      expect(`${method} ${path}: ${none}`).toMatch(
        method === "HEAD" ? /: 404 $/ : /: 404 .*SESSION_NOT_FOUND/,
      );
    }
    const list = await http.call(`/v1/sessions/${alices}/fs`);
    expect(list.json.entries.map((entry: { name: string }) => entry.name)).toEqual(["a"]);
    expect((await http.call(`/v1/sessions/${alices}`)).json).toMatchObject({ status: "running" });
  });

  it("does not share its workspaces with an owner who knows their names", async () => {
    await http.call("/v1/workspaces/shared-name/fs/write", { body: { path: "a", text: "secret" } });
    const bob = { key: BOBS_KEY };
    expect((await http.call("/v1/workspaces", bob)).json).toEqual({ workspaces: [] });
    expect((await http.call("/v1/workspaces/shared-name", bob)).status).toBe(404);
    expect((await http.call("/v1/workspaces/shared-name/fs/read?path=a", bob)).status).toBe(404);
    await http.call("/v1/workspaces/shared-name/fs/write", {
      ...bob,
      body: { path: "b", text: "mine" },
    });
    expect((await http.call("/v1/workspaces/shared-name/fs/read?path=a", bob)).status).toBe(404);
    expect((await http.call("/v1/workspaces/shared-name/fs/read?path=b")).status).toBe(404);
  });
});
