import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { SessionBody } from "@sandkasten/protocol";
import { ALICES_KEY, BOBS_KEY, HttpFixture } from "../../testing/http-fixture.ts";

let daemon: HttpFixture;

beforeAll(async () => {
  daemon = await HttpFixture.start({ network: ["*.ok.example", "10.0.0.0/8:5432"] });
});

afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
});

async function call(
  method: string,
  path: string,
  body?: object,
  key = ALICES_KEY,
): Promise<{ readonly status: number; readonly body: Record<string, unknown> }> {
  const response = await fetch(`${daemon.url}/v1${path}`, {
    method,
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

async function create(network: unknown): Promise<SessionBody> {
  const { status, body } = await call("POST", "/sessions", { network });
  expect(status).toBe(201);
  return body as unknown as SessionBody;
}

/** As the gateway would. */
function connects(id: string, name: string): void {
  const connection = { target: { name, port: 443 }, via: "connect" as const, address: "192.0.2.1" };
  const { observer } = daemon.core.networks.of({ id, owner: "alice", network: { allow: [] } });
  observer.opened(connection);
  observer.moved(connection, 5, 7);
  observer.closed(connection, { kind: "closed" });
}

describe("POST /v1/sessions with a network", () => {
  it.each([
    [
      { allow: ["a.ok.example", "10.1.0.0/16:5432"] },
      { allow: ["a.ok.example:80,443", "10.1.0.0/16:5432"] },
    ],
    [{ enabled: true }, { allow: ["*.ok.example:80,443", "10.0.0.0/8:5432"] }],
    [true, { allow: ["*.ok.example:80,443", "10.0.0.0/8:5432"] }],
    [{ allow: [] }, { allow: [] }],
    [{ enabled: false }, "none"],
    ["none", "none"],
    [false, "none"],
    [null, "none"],
  ])("%j returns %j", async (asked, network) => {
    const session = await create(asked);
    expect(session.network).toEqual(network);
    expect(session.network_via).toBe(network === "none" ? undefined : "gateway");
  });

  it("accepts the field of older clients", async () => {
    const { body } = await call("POST", "/sessions", { allow_network: true });
    expect(body["network"]).toEqual({ allow: ["*.ok.example:80,443", "10.0.0.0/8:5432"] });
    const contrary = await call("POST", "/sessions", { allow_network: true, network: "none" });
    expect(contrary).toMatchObject({ status: 400, body: { error_code: "INVALID_REQUEST" } });
  });

  it("refuses what the administrator does not allow, and says who does not and what", async () => {
    const { status, body } = await call("POST", "/sessions", {
      network: { allow: ["evil.test", "a.ok.example"] },
    });
    expect(status).toBe(403);
    expect(body).toMatchObject({
      error_code: "PERMISSION_DENIED",
      details: { by: "the administrator's `network.allow`", refused: ["evil.test:80,443"] },
    });
  });

  it("refuses invalid rules", async () => {
    for (const allow of [
      ["https://a.example"],
      ["0x7f.1"],
      ["a.ok.example:99999"],
      "a.ok.example",
      [""],
    ])
      expect(await call("POST", "/sessions", { network: { allow } })).toMatchObject({
        status: 400,
        body: { error_code: "INVALID_REQUEST" },
      });
  });
});

describe("PUT /v1/sessions/{id}/network", () => {
  it("changes the network, in both forms of the body", async () => {
    const { id } = await create({ allow: [] });
    for (const body of [{ allow: ["a.ok.example"] }, { network: { allow: ["b.ok.example"] } }]) {
      const changed = await call("PUT", `/sessions/${id}/network`, body);
      expect(changed.status).toBe(200);
      expect(changed.body["network"]).not.toEqual({ allow: [] });
    }
    expect((await call("GET", `/sessions/${id}`)).body["network"]).toEqual({
      allow: ["b.ok.example:80,443"],
    });
  });

  it("refuses more than the administrator allows, an empty body, and another owner's session", async () => {
    const { id } = await create({ allow: [] });
    const path = `/sessions/${id}/network`;
    expect((await call("PUT", path, { network: "full" })).status).toBe(403);
    expect((await call("PUT", path, {})).status).toBe(400);
    expect((await call("PUT", path, { allow: [], network: "none" })).status).toBe(400);
    const others = await call("PUT", path, { allow: [] }, BOBS_KEY);
    const nobodys = await call("PUT", "/sessions/ses_none/network", { allow: [] }, BOBS_KEY);
    expect(others.status).toBe(404);
    expect(others.body["error_code"]).toBe(nobodys.body["error_code"]);
    expect((await call("GET", `/sessions/${id}`)).body["network"]).toEqual({ allow: [] });
  });
});

describe("GET /v1/sessions/{id}/egress", () => {
  it("returns pages", async () => {
    const { id } = await create({ allow: [] });
    for (const name of ["a.ok.example", "b.ok.example", "c.ok.example"]) connects(id, name);
    const first = await call("GET", `/sessions/${id}/egress?limit=2`);
    expect(first.body).toMatchObject({
      cursor: 2,
      missing: 0,
      open: [],
      records: [
        {
          cursor: 1,
          name: "a.ok.example",
          address: "192.0.2.1",
          port: 443,
          via: "connect",
          verdict: "allowed",
          sent_bytes: 5,
          received_bytes: 7,
          count: 1,
          started_at: expect.stringMatching(/Z$/),
        },
        { name: "b.ok.example" },
      ],
    });
    const rest = await call("GET", `/sessions/${id}/egress?cursor=2`);
    expect(rest.body).toMatchObject({ cursor: 3, records: [{ name: "c.ok.example" }] });
  });

  it("can be followed live, from a cursor", async () => {
    const { id } = await create({ allow: [] });
    connects(id, "a.ok.example");
    connects(id, "b.ok.example");
    const response = await fetch(`${daemon.url}/v1/sessions/${id}/egress/stream?cursor=1`, {
      headers: { Authorization: `Bearer ${ALICES_KEY}` },
    });
    let text = "";
    for await (const chunk of response.body ?? []) {
      text += Buffer.from(chunk).toString();
      if (text.includes("b.ok.example") && !text.includes("c.ok.example"))
        connects(id, "c.ok.example");
      if (text.includes("c.ok.example")) break;
    }
    expect(text).not.toContain("a.ok.example");
    expect(text).toMatch(/event: connection\nid: 2\ndata: .*b\.ok\.example/);
    expect(text).toMatch(/event: connection\nid: 3\ndata: .*c\.ok\.example/);
  });

  it("does not find another owner's session", async () => {
    const { id } = await create({ allow: [] });
    for (const suffix of ["egress", "egress/stream"]) {
      const others = await call("GET", `/sessions/${id}/${suffix}`, undefined, BOBS_KEY);
      expect(others).toMatchObject({ status: 404, body: { error_code: "SESSION_NOT_FOUND" } });
    }
  });

  it("is counted in the metrics", async () => {
    const { id } = await create({ allow: [] });
    connects(id, "a.ok.example");
    const response = await fetch(`${daemon.url}/v1/metrics`, {
      headers: { Authorization: `Bearer ${ALICES_KEY}` },
    });
    const text = await response.text();
    expect(text).toMatch(/sandkasten_egress_connections_total\{verdict="allowed"\} [1-9]/);
    expect(text).toMatch(/sandkasten_egress_bytes_total\{direction="sent"\} [1-9]/);
  });
});
