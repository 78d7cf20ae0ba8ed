import { once } from "node:events";
import { setImmediate as nextTurn } from "node:timers/promises";
import { SandboxError } from "@sandkasten/protocol";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ALICES_KEY, BOBS_KEY, HttpFixture } from "../testing/http-fixture.ts";
import type { Answer } from "../testing/http-fixture.ts";

const manyNames = (count: number): string =>
  Array.from({ length: count }, (_, index) => `,"a${index}":"1"`).join("");

let http: HttpFixture;
let id: string;
beforeAll(async () => {
  http = await HttpFixture.start({
    replace: {
      workspaces: {
        list: () => Promise.reject(new Error("secret: /etc/shadow")),
        get: () => Promise.reject(new SandboxError("INTERNAL_ERROR", "secret: /etc/shadow")),
      },
    },
  });
  id = await http.createSession();
});
afterAll(async () => await http[Symbol.asyncDispose]());

describe("a JSON body", () => {
  it.each([
    "application/json",
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data",
    "garbage",
    "a/b; c",
    "",
  ])("is read whatever its type is: %j", async (type) => {
    const answer = await http.call(`/v1/sessions/${id}/exec`, {
      body: JSON.stringify({ cmd: "echo hi" }),
      headers: { "content-type": type },
    });
    expect(answer).toMatchObject({ status: 200, json: { output: "hi\n" } });
  });

  it("can be missing if every field is optional", async () => {
    const answer = await http.call("/v1/sessions", { method: "POST" });
    expect(answer.status).toBe(201);
    const typed = { "content-type": "application/json" };
    expect((await http.call("/v1/sessions", { method: "POST", headers: typed })).status).toBe(201);
    expect((await http.call(`/v1/sessions/${answer.json.id}`, { headers: typed })).status).toBe(
      200,
    );
    const removal = { method: "DELETE", headers: typed };
    expect((await http.call(`/v1/sessions/${answer.json.id}`, removal)).status).toBe(200);
    const repeated = { ...removal, body: "null" };
    expect((await http.call(`/v1/sessions/${answer.json.id}`, repeated)).status).toBe(200);
  });

  it.each([
    ["no JSON", "{cmd: 1}", "not valid JSON"],
    ["half of it", '{"cmd": "x"', "not valid JSON"],
    ["a list", "[]", "must be a JSON object"],
    ["a text", '"x"', "must be a JSON object"],
    ["nothing that can be run", "{}", "has no `cmd`"],
    ["a field of the wrong type", '{"cmd":"x","timeout_ms":"1"}', "`timeout_ms` must be a number"],
    ["a number out of range", '{"cmd":"x","timeout_ms":-1}', "`timeout_ms` must be at least 0"],
    ["a fraction", '{"cmd":"x","timeout_ms":1.5}', "`timeout_ms` must be an integer"],
    ["a number beyond all", '{"cmd":"x","timeout_ms":1e300}', "`timeout_ms` must be at most 9007"],
    ["a command that is no command", '{"cmd":7}', "`cmd` must be a string or a list"],
    ["arguments that are none", '{"cmd":["x",7]}', "`cmd.1` must be a string"],
    ["a list that is empty", '{"cmd":[]}', "`cmd` must not be empty"],
    ["bytes that are none", '{"cmd":"x","stdin_base64":"?"}', "`stdin_base64` must be base64"],
    ["an unknown word", '{"cmd":"x","runtime":"go"}', "`runtime` must be one of python, node,"],
    [
      "a text that is too long",
      `{"cmd":"x","shell":"${"s".repeat(65)}"}`,
      "`shell` must be 1 to 64",
    ],
    [
      "the name of a variable that is none",
      '{"cmd":"x","env":{"A-B":"c"}}',
      "must be a valid variable name",
    ],
    ["an empty command", '{"cmd":""}', "has no `cmd`"],
    ["nothing at all", "null", "must be a JSON object"],
    ["a name that is there twice", '{"cmd":"x","cmd":"y"}', 'has the field "cmd" twice'],
    ["too many names", `{"cmd":"x"${manyNames(10_001)}}`, "more than 10000"],
    ["too deep", `{"cmd":"x","a":${"[".repeat(40)}${"]".repeat(40)}}`, "nested more than 32"],
    ["half a character", String.raw`{"cmd":"\ud800"}`, "must be Unicode text"],
    ["too many variables", `{"cmd":"x","env":{${manyNames(1025).slice(1)}}}`, "at most 1024"],
    ["a prototype", '{"cmd":"x","__proto__":{"a":1}}', "`__proto__`"],
    ["two commands", '{"cmd":"x","command":"y"}', "must not differ"],
    ["two inputs", '{"cmd":"x","stdin":"a","stdin_base64":"Yg=="}', "pass only one of"],
    ["another user in the shell", '{"cmd":"x","user":"0"}', "`user`"],
  ])("is refused as %s", async (_name, body, message) => {
    const answer = await http.call(`/v1/sessions/${id}/exec`, { body });
    expect(answer.status).toBe(400);
    expect(answer.json).toMatchObject({ error_code: "INVALID_REQUEST" });
    expect(answer.json.message).toContain(message);
    expect(answer.json.request_id).toBe(answer.headers.get("x-request-id"));
  });

  it("reports errors of the path and the query, too", async () => {
    for (const bad of ["x.js", "..%2fx", "%C3%BC", "a%00b", "x".repeat(10_000)]) {
      const answer = await http.call(`/v1/sessions/${bad}`);
      expect(answer.status).toBe(400);
      expect(answer.json.message).toContain("`id` is not a valid id");
    }
    const query = await http.call("/v1/sessions?limit=many");
    expect(query.status).toBe(400);
    expect(query.json.message).toContain("`limit` must be an integer from 0 to 1000");
    for (const [search, problem] of [
      ["limit=1&limit=2", "`limit` must be a string, given once"],
      ["limit=9007199254740993", "`limit` must be an integer from 0 to 1000"],
      ["status=lost", "`status` must be one of creating, running, paused,"],
      [`cursor=${"c".repeat(257)}`, "`cursor` must have at most 256 characters"],
    ] as const) {
      const { message } = (await http.call(`/v1/sessions?${search}`)).json;
      expect(message).toContain(problem);
      expect(message).not.toContain(";");
    }
  });

  it("must be UTF-8", async () => {
    const body = Buffer.from([...Buffer.from('{"cmd":"echo '), 0xff, ...Buffer.from('"}')]);
    const answer = await http.call(`/v1/sessions/${id}/exec`, { body });
    expect(answer).toMatchObject({ status: 400, json: { error_code: "INVALID_REQUEST" } });
    expect(answer.json.message).toContain("UTF-8");
  });

  it("may take only so much memory of one owner while it is sent, and frees it at its end", async () => {
    await using http = await HttpFixture.start({
      limits: { maxBodyBytes: 8_388_608, maxUploadBytes: 8_388_608 },
    });
    const id = await http.createSession();
    const head = `POST /v1/sessions/${id}/fs/write HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${ALICES_KEY}\r\nContent-Length: 8388608\r\n\r\n`;
    const part = `${head}{"path":"x","text":"${"a".repeat(8_388_000)}`;
    const sockets = await Promise.all(Array.from({ length: 17 }, () => http.connect()));
    const refused = Promise.race(sockets.map((socket) => once(socket, "data")));
    for (const socket of sockets) socket.write(part);
    const [answer] = (await refused) as [Buffer];
    expect(answer.toString()).toMatch(/^HTTP\/1\.1 429 /);
    expect(answer.toString()).toContain("QUOTA_EXCEEDED");
    expect((await http.call("/v1/sessions", { key: BOBS_KEY, body: {} })).status).toBe(201);
    for (const socket of sockets) socket.destroy();
    const write = { body: { path: "x", text: "a".repeat(1_000_000) } };
    while ((await http.call(`/v1/sessions/${id}/fs/write`, write)).status !== 200) await nextTurn();
  });

  it("gets a short response to a long mistake", async () => {
    const env = Object.fromEntries(
      Array.from({ length: 900 }, (_, index) => [`${"-".repeat(200)}${index}`, 7]),
    );
    const answer = await http.call(`/v1/sessions/${id}/exec`, { body: { cmd: "x", env } });
    expect(answer.status).toBe(400);
    expect(answer.text.length).toBeLessThan(10_000);
  });
});

describe("requests of newer and typed clients", () => {
  const ignored = (answer: Answer): string | null => answer.headers.get("x-sandkasten-ignored");

  it("are accepted without the unknown fields, which are named", async () => {
    const body = { cmd: "echo hi", colour: "red", pty: null, limits: { a: 1 }, timout_ms: 5 };
    const answer = await http.call(`/v1/sessions/${id}/exec`, { body });
    expect(answer).toMatchObject({ status: 200, json: { output: "hi\n" } });
    expect(ignored(answer)).toBe("colour, limits, timout_ms");
    const created = await http.call("/v1/sessions", { body: { limits: { memory: 5 }, new: [] } });
    expect(created.status).toBe(201);
    expect(ignored(created)).toBe("limits.memory, new");
    const listed = await http.call("/v1/sessions?statis=running&limit=1");
    expect(listed.status).toBe(200);
    expect(ignored(listed)).toBe("statis");
    expect(ignored(await http.call("/v1/sessions?limit=1"))).toBeNull();
  });

  it("cannot fill a response's head with names, nor break it", async () => {
    const names = Array.from({ length: 500 }, (_, index) => [
      `\r\nSet-Cookie: a=${index};\u2028${"ü".repeat(300)}`,
      1,
    ]);
    const body = { cmd: "echo hi", ...(Object.fromEntries(names) as object) };
    const answer = await http.call(`/v1/sessions/${id}/exec`, { body });
    expect(answer.status).toBe(200);
    expect(answer.headers.get("set-cookie")).toBeNull();
    expect(ignored(answer)).toMatch(/^[A-Za-z0-9_.?, -]{1,1200}$/);
  });

  it("can have null for absent fields, and empty strings where they have no meaning", async () => {
    const body = {
      image: "",
      workspace_id: "",
      ttl_seconds: 0,
      key: "",
      profile: "",
      backend: "",
      env: null,
      limits: { memory_mb: 0, pids: null },
      metadata: null,
      network: null,
      workspaces: [{ id: "data", path: "/data", read_only: null }],
    };
    const given = await http.call("/v1/sessions", { body });
    const plain = await http.call("/v1/sessions", { body: {} });
    expect(given.status).toBe(201);
    expect(ignored(given)).toBeNull();
    for (const field of ["image", "ttl_seconds", "limits", "profile", "workspace_id", "key"])
      expect(given.json[field]).toEqual(plain.json[field]);
    const url = `/v1/sessions/${given.json.id}`;
    const exec = { cmd: "cat", timeout_ms: 0, cwd: "", user: "", stdin: "", env: null };
    expect(await http.call(`${url}/exec`, { body: exec })).toMatchObject({
      status: 200,
      json: { exit_code: 0, output: "" },
    });
    expect((await http.call(`${url}/renew`, { body: { ttl_seconds: 0 } })).json.ttl_seconds).toBe(
      plain.json.ttl_seconds,
    );
    expect((await http.call("/v1/sessions?status=&cursor=&metadata=")).status).toBe(200);
  });

  it("can have 0 for a default size, number or time in a query and in a body", async () => {
    const url = `/v1/sessions/${id}`;
    const ran = await http.call(`${url}/exec`, { body: { cmd: "echo hi" } });
    const output = `${url}/execs/${ran.json.exec_id}/output`;
    for (const [zero, absent] of [
      ["/v1/sessions?limit=0", "/v1/sessions"],
      [`${url}/fs?limit=0`, `${url}/fs`],
      [`${url}/execs?limit=0`, `${url}/execs`],
      [`${url}/egress?limit=0`, `${url}/egress`],
      [`${output}?max_bytes=0`, output],
    ] as const) {
      const given = await http.call(zero);
      expect([zero, given.status, given.text]).toEqual([zero, 200, (await http.call(absent)).text]);
    }
    const link = await http.call(`${url}/ports/8000/url`, { body: { expires_in_seconds: 0 } });
    expect(link.status).toBe(200);
    expect(Date.parse(link.json.expires_at)).toBeGreaterThan(Date.now() + 60_000);
  });

  it("can have null and unknown fields in a network's rules, too", async () => {
    const network = { allow: null, enabled: null, block: ["a.example"] };
    const created = await http.call("/v1/sessions", { body: { network } });
    const plain = await http.call("/v1/sessions", { body: { network: {} } });
    expect([created.status, created.json.network]).toEqual([plain.status, plain.json.network]);
    expect(ignored(created)).toBe("network.block");
  });

  it("can have 0 for no mode, because a file with that mode cannot be opened", async () => {
    const fs = `/v1/sessions/${await http.createSession()}/fs`;
    await http.call(`${fs}/write`, { body: { path: "zero", text: "x", mode: 0 } });
    await http.call(`${fs}/write`, { body: { path: "absent", text: "x" } });
    await http.call(`${fs}/write`, { body: { path: "given", text: "x", mode: 0o640 } });
    await http.call(`${fs}/mkdir`, { body: { path: "zeros", mode: 0 } });
    await http.call(`${fs}/mkdir`, { body: { path: "absents" } });
    const mode = async (path: string): Promise<unknown> =>
      (await http.call(`${fs}/stat?path=${path}`)).json.mode;
    expect(await mode("zero")).toBe(await mode("absent"));
    expect(await mode("zeros")).toBe(await mode("absents"));
    expect([await mode("zero"), await mode("zeros")]).not.toContain(0);
    expect(await mode("given")).toBe(0o640);
  });

  it.each([
    [{ limits: { memory_mb: 1 } }, "`limits.memory_mb` must be at least 16"],
    [{ ttl_seconds: "" }, "`ttl_seconds` must be a number"],
    [{ image: 7 }, "`image` must be a string"],
    [{ env: { A: null } }, "`env.A` must be a string"],
    [
      { workspaces: [{ id: "data", path: "/data", readonly: true }] },
      '`workspaces.0` unrecognized key: "readonly"',
    ],
  ])("are refused if a known field is wrong: %j", async (body, message) => {
    const answer = await http.call("/v1/sessions", { body });
    expect(answer.status).toBe(400);
    expect(answer.json.message).toContain(message);
  });
});

describe("a query", () => {
  it.each(["path=%FF", "path=a%C3", "path=%zz", "%FF=1&path=x"])(
    "that is not UTF-8 is refused, not decoded: %s",
    async (query) => {
      const answer = await http.call(`/v1/sessions/${id}/fs/read?${query}`);
      expect(answer).toMatchObject({ status: 400, json: { error_code: "INVALID_REQUEST" } });
      expect(answer.json.message).toContain("`raw_path`");
    },
  );
});

describe("a response", () => {
  it("has the request's own id if it is plain, otherwise a new one", async () => {
    const idOf = async (given: string): Promise<string | null> =>
      (await http.call("/v1/version", { headers: { "x-request-id": given } })).headers.get(
        "x-request-id",
      );
    for (const good of ["req-1.A_b", "Root=1-67a;Parent=5/3:1", "x".repeat(128)])
      expect(await idOf(good)).toBe(good);
    for (const bad of ["", "a b", "a,b", 'a"b', "<b>", String.raw`a\b`, "ü", "x".repeat(129)]) {
      const made = await idOf(bad);
      expect(made).toMatch(/^[0-9a-f-]{36}$/);
    }
  });

  it("must not be cached or sniffed by a browser", async () => {
    for (const path of ["/v1/version", "/v1/nothing", "/healthz"]) {
      const { headers } = await http.call(path);
      expect(headers.get("x-content-type-options")).toBe("nosniff");
      expect(headers.get("cache-control")).toBe("no-store");
    }
  });

  it("does not reveal an internal error, which is in the log under its id", async () => {
    for (const path of ["/v1/workspaces", "/v1/workspaces/abc"]) {
      const answer = await http.call(path, {
        headers: { "x-request-id": `find-me-${path.length}` },
      });
      expect(answer.status).toBe(500);
      expect(answer.json).toEqual({
        error_code: "INTERNAL_ERROR",
        message: expect.stringContaining(`find-me-${path.length}`) as string,
        request_id: `find-me-${path.length}`,
      });
      expect(answer.text).not.toMatch(/secret|shadow/);
      const line = http.logLines.find(
        (one) => one.includes(`find-me-${path.length}`) && one.includes("secret"),
      );
      expect(JSON.parse(line ?? "{}")).toMatchObject({
        level: 50,
        request_id: `find-me-${path.length}`,
        err: { message: "secret: /etc/shadow" },
      });
    }
  });

  it("is an error if the path does not exist", async () => {
    for (const [method, path] of [
      ["GET", "/"],
      ["GET", "/v1/session"],
      ["PUT", "/v1/sessions"],
      ["GET", "/v1/sessions/a/exec"],
    ]) {
      const answer = await http.call(path ?? "", { method: method ?? "" });
      expect(answer.status).toBe(404);
      expect(answer.json).toMatchObject({ error_code: "ROUTE_NOT_FOUND" });
    }
    expect((await http.call("/%zz")).json).toMatchObject({ error_code: "INVALID_REQUEST" });
  });
});
