/** Requests that another daemon forwards, or that pretend to be forwarded. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ALICE, BOB } from "../../sessions/testing/core-fixture.ts";
import type { Caller } from "../../sessions/services/caller.ts";
import { PEER_HEADER } from "../http/admission/peer-header.ts";
import { ALICES_KEY } from "../testing/http-fixture.ts";
import type { Answer } from "../testing/http-fixture.ts";
import { PreviewFixture } from "../testing/preview-fixture.ts";
import { PeerTokens } from "./peer-token.ts";

const SECRET = "shared-by-the-daemons";
const HERE = "http://daemon-a:8080";
const other = new PeerTokens({ secret: SECRET, address: "http://daemon-b:8080" });

let fixture: PreviewFixture;
let path: string;
beforeAll(async () => {
  fixture = await PreviewFixture.start(
    (request, response) => response.end(JSON.stringify(request.headers)),
    { peer: { secret: SECRET, address: HERE } },
  );
  path = `/v1/sessions/${fixture.id}`;
});
afterAll(async () => await fixture[Symbol.asyncDispose]());

interface Forward {
  readonly method?: string;
  readonly url?: string;
  readonly body?: unknown;
}

async function forward(token: string, { method = "GET", url = path, body }: Forward = {}) {
  return await fixture.http.call(url, {
    method,
    key: null,
    headers: { [PEER_HEADER]: token },
    ...(body !== undefined && { body }),
  });
}

const signed = (caller: Caller, { method = "GET", url = path }: Forward = {}, to = HERE): string =>
  other.sign({ method, url }, to, { caller });

const outcome = ({ status, json }: Answer): unknown[] => [status, json.error_code];

describe("a forwarded request", () => {
  it("is handled for the caller that the other daemon names", async () => {
    expect((await forward(signed(ALICE))).json).toMatchObject({ id: fixture.id });
    expect(outcome(await forward(signed(BOB)))).toEqual([404, "SESSION_NOT_FOUND"]);
  });

  it("is checked again for the caller's scope", async () => {
    const reader: Caller = { ...ALICE, isReadOnly: true };
    expect((await forward(signed(reader))).status).toBe(200);
    for (const asked of [
      { method: "POST", url: `${path}/exec`, body: { cmd: "echo hello" } },
      { method: "DELETE", url: path },
    ])
      expect(outcome(await forward(signed(reader, asked), asked))).toEqual([403, "FORBIDDEN"]);
    const keys = { method: "GET", url: "/v1/keys" };
    expect(outcome(await forward(signed(BOB, keys), keys))).toEqual([403, "FORBIDDEN"]);
  });

  it("is refused if a client forges it, or replays a daemon's request", async () => {
    const genuine = signed(ALICE);
    expect((await forward(genuine)).status).toBe(200);
    const claim = Buffer.from(
      JSON.stringify({ atMs: Date.now(), to: HERE, nonce: "n", caller: ALICE }),
    ).toString("base64url");
    const stranger = new PeerTokens({ secret: "another secret" });
    for (const forged of [
      genuine,
      `${claim}.${"A".repeat(43)}`,
      `${claim}.`,
      claim,
      "",
      JSON.stringify(ALICE),
      stranger.sign({ method: "GET", url: path }, HERE, { caller: ALICE }),
      signed(ALICE, {}, "http://daemon-c:8080"),
      signed(ALICE, { url: "/v1/sessions" }),
      signed(ALICE, { method: "DELETE" }),
    ])
      expect([forged, ...outcome(await forward(forged))]).toEqual([forged, 401, "UNAUTHORIZED"]);
    // Nor does it add anything to a key.
    const both = await fixture.http.call("/v1/keys", { headers: { [PEER_HEADER]: genuine } });
    expect(both.status).toBe(200);
  });
});

describe("a forwarded request to a port", () => {
  const seen = (text: string): Record<string, string> => JSON.parse(text) as Record<string, string>;

  it("does not show the application the daemons' own headers", async () => {
    const url = `${path}/proxy/8000/`;
    const byPath = await forward(signed(ALICE, { url }), { url });
    expect([byPath.status, seen(byPath.text)[PEER_HEADER]]).toEqual([200, undefined]);
    // Nor anyone else's headers in their place.
    const byKey = await fixture.http.call(url, { headers: { [PEER_HEADER]: "made up" } });
    expect([byKey.status, seen(byKey.text)[PEER_HEADER]]).toEqual([200, undefined]);
  });

  it("is admitted by its host for the caller, and by a link for the visitor with the link", async () => {
    const host = fixture.host();
    const line = { method: "GET", url: "/" };
    const ask = async (headers: Record<string, string>) => await fixture.ask(host, { headers });
    const token = other.sign(line, HERE, { caller: ALICE });
    const byCaller = await ask({ [PEER_HEADER]: token });
    expect([byCaller.status, seen(byCaller.text)[PEER_HEADER]]).toEqual([200, undefined]);
    const byNobody = await ask({ [PEER_HEADER]: other.sign(line, HERE, {}) });
    expect(byNobody.status).toBe(401);
    const key = { authorization: `Bearer ${ALICES_KEY}` };
    expect((await ask(key)).status).toBe(200);
  });
});
