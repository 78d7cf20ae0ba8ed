import { once } from "node:events";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { createServer } from "node:http";
import { ALICES_KEY, BOBS_KEY } from "../testing/http-fixture.ts";
import { PreviewFixture } from "../testing/preview-fixture.ts";
import type { PreviewAnswer } from "../testing/preview-fixture.ts";

let fixture: PreviewFixture;
let token: string;
let nowMs = Date.now();
beforeAll(async () => {
  const server = createServer((request, response) => response.end(`app ${request.url ?? ""}`));
  const sockets = new WebSocketServer({ server });
  sockets.on("connection", (socket) => socket.send("hello"));
  fixture = await PreviewFixture.start(server, {
    preview: {
      key: Buffer.alloc(32, "k"),
      scheme: "http",
      maxSeconds: 7200,
      nowMs: () => nowMs,
      lookIntervalMs: 10,
    },
  });
  token = await fixture.token();
});
afterAll(async () => await fixture[Symbol.asyncDispose]());

const navigate = {
  accept: "text/html,*/*",
  "sec-fetch-mode": "navigate",
  "sec-fetch-site": "cross-site",
};
const withCookie = (value: string, more: object = {}) => ({
  headers: { cookie: `x=y; sandkasten_preview=${value}`, ...more },
});
const codeOf = ({ status, text }: PreviewAnswer): unknown[] => [
  status,
  (JSON.parse(text) as { error_code: string }).error_code,
];
const DENIED = [401, "PREVIEW_DENIED"];

describe("a preview URL", () => {
  it("is created for the session's owner, within the administrator's limit", async () => {
    const { http, id } = fixture;
    const path = `/v1/sessions/${id}/ports/8000/url`;
    const made = await http.call(path, { body: { expires_in_seconds: 60 } });
    expect(made.status).toBe(200);
    const { url, expires_at } = made.json as { url: string; expires_at: string };
    expect(new URL(url).host).toBe(fixture.host());
    expect(Date.parse(expires_at) - nowMs).toBeLessThanOrEqual(60_000);
    expect(await http.call(path, { body: { expires_in_seconds: 7201 } })).toMatchObject({
      status: 400,
      json: { message: expect.stringContaining("at most 7200") as string },
    });
    expect(await http.call(path, { body: {}, key: BOBS_KEY })).toMatchObject({ status: 404 });
    for (const port of ["0", "65536", "x", "8000~t"]) {
      const asked = `/v1/sessions/${id}/ports/${port}/url`;
      expect([port, (await http.call(asked, { body: {} })).status]).toEqual([port, 400]);
    }
  });

  it("is kept in a frame of another site in a cookie that is partitioned for that site", async () => {
    const path = `/?sandkasten_token=${token}`;
    const headers = { ...navigate, "sec-fetch-dest": "iframe" };
    const got = await fixture.ask(fixture.host(), { path, headers });
    const [cookie = ""] = got.headers["set-cookie"] ?? [];
    expect(cookie).toMatch(/; HttpOnly; SameSite=None; Partitioned; Secure$/);
    const whole = await fixture.ask(fixture.host(), { path, headers: navigate });
    expect(whole.headers["set-cookie"]?.[0]).toMatch(/; HttpOnly; SameSite=Lax$/);
  });

  it("moves the token into a cookie that scripts cannot read, and out of the address", async () => {
    const path = `//x/y?a=%zz&sandkasten_token=${token}&b`;
    const got = await fixture.ask(fixture.host(), { path, headers: navigate });
    expect(got.status).toBe(303);
    // Two slashes in front would lead to another host.
    expect(got.headers.location).toBe("/x/y?a=%zz&b");
    expect(got.headers["referrer-policy"]).toBe("no-referrer");
    const [cookie = ""] = got.headers["set-cookie"] ?? [];
    const [pair, ...attributes] = cookie.split("; ");
    expect(pair).toBe(`sandkasten_preview=${token}`);
    expect(attributes).toEqual(expect.arrayContaining(["Path=/", "HttpOnly", "SameSite=Lax"]));
    expect(cookie).not.toMatch(/domain/i);
    const second = await fixture.ask(fixture.host(), withCookie(token, navigate));
    expect([second.status, second.text]).toEqual([200, "app /"]);
  });

  it("works directly for programs, which keep no cookies", async () => {
    const path = `/data?sandkasten_token=${token}`;
    const got = await fixture.ask(fixture.host(), { path });
    expect([got.status, got.text]).toEqual([200, "app /data"]);
  });

  it("gives access to no other port, no other session, and nothing of the API", async () => {
    const { http, id } = fixture;
    const other = await http.createSession();
    await fixture.listen(other);
    const query = `/?sandkasten_token=${token}`;
    for (const host of [fixture.host(8001), fixture.host(8000, other), fixture.host(800)]) {
      expect(codeOf(await fixture.ask(host, { path: query }))).toEqual(DENIED);
      expect(codeOf(await fixture.ask(host, { path: query, headers: navigate }))).toEqual(DENIED);
      expect(codeOf(await fixture.ask(host, withCookie(token)))).toEqual(DENIED);
    }
    for (const path of [
      `/v1/sessions/${id}/proxy/8001~${token}/`,
      `/v1/sessions/${other}/proxy/8000~${token}/`,
    ])
      expect(codeOf(await fixture.ask("localhost", { path }))).toEqual(DENIED);
    const byPath = `/v1/sessions/${id}/proxy/8000~${token}/`;
    expect((await fixture.ask("localhost", { path: byPath })).text).toBe("app /");
    expect((await fixture.ask("evil.test", { path: byPath })).status).toBe(403);
    for (const path of [`/v1/sessions/${id}`, `/v1/sessions/${id}/ports`, `/v1/sessions${query}`]) {
      expect((await fixture.ask("localhost", { path, ...withCookie(token) })).status).toBe(401);
      const asBearer = { authorization: `Bearer ${token}` };
      expect((await fixture.ask("localhost", { path, headers: asBearer })).status).toBe(401);
    }
    expect(
      (await fixture.ask("localhost", { path: byPath.replace("/proxy", "/proxy/x/..") })).status,
    ).toBe(401);
  });

  it("is refused after a change", async () => {
    const [end = "", mac = ""] = token.split(".");
    const later = (Number.parseInt(end, 36) + 1).toString(36);
    for (const forged of [
      `${later}.${mac}`,
      `${end}.${"A".repeat(43)}`,
      `${token}x`,
      `${token}=`,
      end,
      "",
      "x",
    ]) {
      expect(codeOf(await fixture.ask(fixture.host(), withCookie(forged)))).toEqual(DENIED);
      const path = `/?sandkasten_token=${forged}`;
      expect(codeOf(await fixture.ask(fixture.host(), { path }))).toEqual(DENIED);
    }
    // A cookie that another page has set before ours does no harm.
    const both = { cookie: `sandkasten_preview=forged; sandkasten_preview=${token}` };
    expect((await fixture.ask(fixture.host(), { headers: both })).status).toBe(200);
  });

  it("does not work for pages of other origins, with the visitor's cookie or a key", async () => {
    const foreign = [
      { origin: "http://evil.test" },
      { origin: "null" },
      { origin: `http://${fixture.host(8001)}` },
      { "sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors" },
      { "sec-fetch-site": "cross-site", "sec-fetch-mode": "cors" },
      { "sec-fetch-site": "same-site", "sec-fetch-mode": "websocket" },
    ];
    const authorization = `Bearer ${ALICES_KEY}`;
    for (const headers of foreign) {
      expect((await fixture.ask(fixture.host(), withCookie(token, headers))).status).toBe(403);
      const byKey = await fixture.ask(fixture.host(), { headers: { authorization, ...headers } });
      expect(byKey.status).toBe(403);
    }
    const posted = { ...withCookie(token, navigate), method: "POST" };
    expect((await fixture.ask(fixture.host(), posted)).status).toBe(403);
    const own = { origin: `http://${fixture.host()}`, "sec-fetch-site": "same-origin" };
    const good = { ...withCookie(token, own), method: "POST" };
    expect((await fixture.ask(fixture.host(), good)).status).toBe(200);
  });

  it("lets a page without an origin read its own path, and no more", async () => {
    const path = `/v1/sessions/${fixture.id}/proxy/8000~${token}/api`;
    const asked = await fixture.ask("localhost", {
      path,
      method: "OPTIONS",
      headers: {
        origin: "null",
        "access-control-request-method": "PUT",
        "access-control-request-headers": "x-a",
      },
    });
    expect(asked).toMatchObject({
      status: 204,
      headers: {
        "access-control-allow-origin": "*",
        "access-control-allow-methods": "PUT",
        "access-control-allow-headers": "x-a",
      },
    });
    expect(asked.headers).not.toHaveProperty("access-control-allow-credentials");
  });

  it("expires, and closes its connections", async () => {
    const { http, id } = fixture;
    const body = { expires_in_seconds: 30 };
    const made = await http.call(`/v1/sessions/${id}/ports/8000/url`, { body });
    const own = new URL(made.json.url as string).searchParams.get("sandkasten_token") ?? "";
    const socket = new WebSocket(`ws://127.0.0.1:${http.port}/`, {
      headers: { host: fixture.host(), cookie: `sandkasten_preview=${own}` },
    });
    await once(socket, "message");
    const closed = once(socket, "close");
    nowMs += 31_000;
    expect((await closed)[0]).toBe(1006);
    expect(codeOf(await fixture.ask(fixture.host(), withCookie(own)))).toEqual(DENIED);
    const path = `/?sandkasten_token=${own}`;
    expect(codeOf(await fixture.ask(fixture.host(), { path }))).toEqual(DENIED);
    const byPath = `/v1/sessions/${id}/proxy/8000~${own}/`;
    expect(codeOf(await fixture.ask("localhost", { path: byPath }))).toEqual(DENIED);
    expect((await fixture.ask(fixture.host(), withCookie(token))).status).toBe(200);
  });

  it("ends with its session", async () => {
    const id = await fixture.http.createSession();
    await fixture.listen(id);
    const own = await fixture.token(8000, id);
    const host = fixture.host(8000, id);
    expect((await fixture.ask(host, withCookie(own))).status).toBe(200);
    await fixture.http.call(`/v1/sessions/${id}`, { method: "DELETE" });
    expect(codeOf(await fixture.ask(host, withCookie(own)))).toEqual([404, "SESSION_NOT_FOUND"]);
    const unknown = fixture.host(8000, `ses_${"0".repeat(24)}`);
    expect(codeOf(await fixture.ask(unknown, withCookie(own)))).toEqual(DENIED);
  });

  it("is not logged", () => {
    expect(fixture.http.logLines.join("")).not.toContain(token);
  });
});
