import { SandboxError } from "@sandkasten/protocol";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { HttpFixture } from "./testing/http-fixture.ts";

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
  ])("is read whatever its type is called: %j", async (type) => {
    const answer = await http.call(`/v1/sessions/${id}/exec`, {
      body: JSON.stringify({ cmd: "echo hi" }),
      headers: { "content-type": type },
    });
    expect(answer).toMatchObject({ status: 200, json: { output: "hi\n" } });
  });

  it("may be missing where every field is optional", async () => {
    const answer = await http.call("/v1/sessions", { method: "POST" });
    expect(answer.status).toBe(201);
    const typed = { "content-type": "application/json" };
    expect((await http.call("/v1/sessions", { method: "POST", headers: typed })).status).toBe(201);
    expect((await http.call(`/v1/sessions/${answer.json.id}`, { headers: typed })).status).toBe(
      200,
    );
    const removal = { method: "DELETE", headers: typed };
    expect((await http.call(`/v1/sessions/${answer.json.id}`, removal)).status).toBe(200);
  });

  it.each([
    ["no JSON", "{cmd: 1}", "not valid JSON"],
    ["half of it", '{"cmd": "x"', "not valid JSON"],
    ["a list", "[]", "must be an object"],
    ["a text", '"x"', "must be an object"],
    ["nothing that can be run", "{}", "has no `cmd`"],
    ["a field of the wrong type", '{"cmd":"x","timeout_ms":"1"}', "`timeout_ms` must be a number"],
    ["a number out of range", '{"cmd":"x","timeout_ms":-1}', "`timeout_ms` too small"],
    ["a fraction", '{"cmd":"x","timeout_ms":1.5}', "`timeout_ms` must be a whole number"],
    ["a command that is no command", '{"cmd":7}', "`cmd` has none of the forms"],
    [
      "the name of a variable that is none",
      '{"cmd":"x","env":{"A-B":"c"}}',
      "must be the name of a variable",
    ],
    [
      "a field that is not known",
      '{"cmd":"x","timout_ms":1}',
      "`timout_ms` is not known; the nearest that is known is `timeout_ms`",
    ],
    [
      "a field inside a field",
      '{"cmd":["x"],"pty":{"rows":1,"cols":1,"colz":1}}',
      "`pty.colz` is not known; the nearest that is known is `cols`",
    ],
    ["a prototype", '{"cmd":"x","__proto__":{"a":1}}', "not valid JSON"],
    ["two commands", '{"cmd":"x","command":"y"}', "must not differ"],
    ["two inputs", '{"cmd":"x","stdin":"a","stdin_base64":"Yg=="}', "not several"],
    ["another user in the shell", '{"cmd":"x","user":"0"}', "`user`"],
  ])("is refused as %s", async (_name, body, message) => {
    const answer = await http.call(`/v1/sessions/${id}/exec`, { body });
    expect(answer.status).toBe(400);
    expect(answer.json).toMatchObject({ error_code: "INVALID_REQUEST" });
    expect(answer.json.message).toContain(message);
    expect(answer.json.request_id).toBe(answer.headers.get("x-request-id"));
  });

  it("names what is wrong with the path and the query, too", async () => {
    for (const bad of ["x.js", "..%2fx", "%C3%BC", "a%00b", "x".repeat(10_000)]) {
      const answer = await http.call(`/v1/sessions/${bad}`);
      expect(answer.status).toBe(400);
      expect(answer.json.message).toContain("`id` is no id");
    }
    const query = await http.call("/v1/sessions?limit=many&statis=running");
    expect(query.status).toBe(400);
    expect(query.json.message).toContain("`limit` must be a whole number");
    expect(query.json.message).toContain(
      "`statis` is not known; the nearest that is known is `status`",
    );
  });
});

describe("an answer", () => {
  it("has the request's own id where that is plain, else a new one", async () => {
    const idOf = async (given: string): Promise<string | null> =>
      (await http.call("/v1/version", { headers: { "x-request-id": given } })).headers.get(
        "x-request-id",
      );
    expect(await idOf("req-1.A_b")).toBe("req-1.A_b");
    for (const bad of ["", "a b", "a,b", 'a"b', "ü", "x".repeat(129)]) {
      const made = await idOf(bad);
      expect(made).toMatch(/^[0-9a-f-]{36}$/);
    }
  });

  it("is not to be kept or guessed at by a browser", async () => {
    for (const path of ["/v1/version", "/v1/nothing", "/healthz"]) {
      const { headers } = await http.call(path);
      expect(headers.get("x-content-type-options")).toBe("nosniff");
      expect(headers.get("cache-control")).toBe("no-store");
    }
  });

  it("says nothing of what failed inside, which is in the log under its id", async () => {
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

  it("says so when there is nothing at a path", async () => {
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
