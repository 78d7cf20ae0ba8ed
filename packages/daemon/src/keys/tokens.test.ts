import { createHmac, generateKeyPairSync, hash, sign } from "node:crypto";
import type { KeyObject } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { exportJWK, SignJWT } from "jose";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { BOB } from "../sessions/testing/core-fixture.ts";
import { BOBS_KEY, HttpFixture } from "../surfaces/testing/http-fixture.ts";
import { Tokens } from "./tokens.ts";
import type { TokenOptions } from "./tokens.ts";

const ours = generateKeyPairSync("ec", { namedCurve: "P-256" });
const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 });
const theirs = generateKeyPairSync("ec", { namedCurve: "P-256" });
const pemOf = (key: KeyObject): string => String(key.export({ type: "spki", format: "pem" }));

const OPTIONS: TokenOptions = {
  issuer: "https://issuer.test/",
  audience: "sandkasten",
  keys: { kind: "pem", pem: pemOf(ours.publicKey) },
  algorithms: ["ES256"],
  ownerClaim: "sub",
  clockSkewSeconds: 5,
};
const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };
const now = () => Math.floor(Date.now() / 1000);

interface Made {
  readonly claims?: Record<string, unknown>;
  readonly key?: KeyObject;
  readonly header?: Record<string, unknown>;
  readonly without?: string;
}

async function makeToken({ claims = {}, key = ours.privateKey, header, without }: Made = {}) {
  const all: Record<string, unknown> = {
    iss: OPTIONS.issuer,
    aud: OPTIONS.audience,
    sub: "ann",
    exp: now() + 60,
    ...claims,
  };
  if (without !== undefined) delete all[without];
  return await new SignJWT(all).setProtectedHeader({ alg: "ES256", ...header }).sign(key);
}

async function callerOf(token: string, options: Partial<TokenOptions> = {}) {
  const tokens = new Tokens({ ...OPTIONS, ...options }, BOB, quiet);
  await tokens.check(token);
  return tokens.find(token, hash("sha256", token, "buffer"));
}

const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64url");

describe("a token", () => {
  it("of the issuer, for this daemon and within its validity, authenticates its owner", async () => {
    expect(await callerOf(await makeToken())).toMatchObject({
      owner: "jwt:ann",
      isAdmin: false,
      maxSessions: BOB.maxSessions,
    });
    const list = await makeToken({ claims: { aud: ["other", "sandkasten"] } });
    expect(await callerOf(list)).toBeDefined();
  });

  it.each<[string, Made]>([
    ["of another issuer", { claims: { iss: "https://other.test/" } }],
    ["without an issuer", { without: "iss" }],
    ["for somebody else", { claims: { aud: "other" } }],
    ["for nobody", { without: "aud" }],
    ["that has expired", { claims: { exp: now() - 10 } }],
    ["that never expires", { without: "exp" }],
    ["whose expiry is a text", { claims: { exp: "never" } }],
    ["that does not count yet", { claims: { nbf: now() + 60 } }],
    ["without an owner", { without: "sub" }],
    ["whose owner is no text", { claims: { sub: 7 } }],
    ["whose owner is empty", { claims: { sub: "" } }],
    ["whose owner has a line break", { claims: { sub: "ann\nroot" } }],
    ["whose owner is very long", { claims: { sub: "a".repeat(129) } }],
    ["signed by somebody else", { key: theirs.privateKey }],
    ["that brings its own key", { key: theirs.privateKey, header: { jwk: { kty: "EC" } } }],
    ["with a header that must be understood", { header: { crit: ["x"], x: 1 } }],
  ])("%s is refused", async (_, made) => {
    const token = await makeToken(made).catch(() => undefined);
    if (token !== undefined) expect(await callerOf(token)).toBeUndefined();
    else expect(made.header?.["crit"]).toBeDefined();
  });

  it("is accepted a little late, within the allowed clock skew", async () => {
    expect(await callerOf(await makeToken({ claims: { exp: now() - 2 } }))).toBeDefined();
    expect(await callerOf(await makeToken({ claims: { exp: now() - 8 } }))).toBeUndefined();
  });

  it("without a signature, or with the public key as a shared secret, is refused", async () => {
    const claims = part({ iss: OPTIONS.issuer, aud: "sandkasten", sub: "ann", exp: now() + 60 });
    const secret = pemOf(ours.publicKey);
    const forged = ["none", "None", "HS256", "HS512"].map((alg) => {
      const head = `${part({ alg, typ: "JWT" })}.${claims}`;
      const mac = createHmac(alg === "HS512" ? "sha512" : "sha256", secret).update(head);
      return `${head}.${mac.digest("base64url")}`;
    });
    const jwk = { ...(await exportJWK(ours.publicKey)), alg: "ES256" };
    for (const token of [...forged, `${part({ alg: "none" })}.${claims}.AA`]) {
      expect(await callerOf(token)).toBeUndefined();
      const keys: TokenOptions["keys"] = { kind: "set", keys: { keys: [jwk] } };
      expect(await callerOf(token, { keys })).toBeUndefined();
    }
  });

  it("with an algorithm that is not on the list is refused, even if its key is correct", async () => {
    const head = `${part({ alg: "RS256" })}.${part({ iss: OPTIONS.issuer, aud: "sandkasten", sub: "ann", exp: now() + 60 })}`;
    const token = `${head}.${sign("sha256", Buffer.from(head), rsa.privateKey).toString("base64url")}`;
    const keys = { kind: "pem", pem: pemOf(rsa.publicKey) } as const;
    expect(await callerOf(token, { keys, algorithms: ["RS256"] })).toBeDefined();
    expect(await callerOf(token, { keys, algorithms: ["ES256"] })).toBeUndefined();
  });

  it("with a part of another token is refused", async () => {
    const one = (await makeToken()).split(".");
    const other = (await makeToken({ claims: { sub: "root" } })).split(".");
    const mixed = [0, 1, 2].map((at) =>
      one.map((text, index) => (index === at ? other[at] : text)),
    );
    for (const parts of mixed) {
      const token = parts.join(".");
      // The heads are the same.
      if (token !== one.join(".")) expect(await callerOf(token)).toBeUndefined();
    }
  });

  it("never has the same owner as a key, whatever its subject is", async () => {
    for (const sub of ["default", "bob", "jwt:ann", "../x"])
      expect((await callerOf(await makeToken({ claims: { sub } })))?.owner).toBe(`jwt:${sub}`);
  });

  it("has the scope that its claim grants, and none without one", async () => {
    const scoped = async (scope: unknown) =>
      await callerOf(await makeToken({ claims: { scope } }), { scopeClaim: "scope" });
    expect(await scoped("openid sandkasten:read")).toMatchObject({ isReadOnly: true });
    expect(await scoped(["sandkasten:use"])).toMatchObject({ isAdmin: false });
    expect((await scoped(["sandkasten:use"]))?.isReadOnly).toBeUndefined();
    expect(await scoped("sandkasten:admin")).toMatchObject({ isAdmin: true });
    for (const none of ["openid", "", "sandkasten:root", 7, { admin: true }, undefined])
      expect(await scoped(none)).toBeUndefined();
  });
});

describe("the daemon with an issuer", () => {
  let keys: object[] = [];
  let answers = true;
  const issuer = createServer((_request, response) => {
    if (answers) response.end(JSON.stringify({ keys }));
  });
  let http: HttpFixture;
  beforeAll(async () => {
    await new Promise<void>((resolve) => issuer.listen(0, "127.0.0.1", resolve));
    const { port } = issuer.address() as AddressInfo;
    const url = new URL(`http://127.0.0.1:${port}/keys`);
    const tokens = new Tokens({ ...OPTIONS, keys: { kind: "url", url } }, BOB, quiet);
    http = await HttpFixture.start({ tokens });
  });
  afterAll(async () => {
    issuer.closeAllConnections();
    issuer.close();
    await http[Symbol.asyncDispose]();
  });

  it("serves other callers while the issuer does not respond, and reports it to those who wait", async () => {
    answers = false;
    const token = await makeToken();
    const waiting = http.call("/v1/sessions", { key: token });
    for (let count = 0; count < 5; count += 1)
      expect((await http.call("/v1/sessions", { key: BOBS_KEY })).status).toBe(200);
    issuer.closeAllConnections();
    const answer = await waiting;
    expect([answer.status, answer.json.error_code]).toEqual([503, "BACKEND_BUSY"]);
    answers = true;
  });

  it("gives owners of tokens access to their own resources only", async () => {
    keys = [{ ...(await exportJWK(ours.publicKey)), alg: "ES256", kid: "one" }];
    const header = { kid: "one" };
    const ann = await makeToken({ header });
    const ben = await makeToken({ header, claims: { sub: "ben" } });
    const { status, json } = await http.call("/v1/sessions", { key: ann, body: {} });
    expect(status).toBe(201);
    expect((await http.call(`/v1/sessions/${json.id}`, { key: ann })).status).toBe(200);
    expect((await http.call(`/v1/sessions/${json.id}`, { key: ben })).status).toBe(404);
    expect((await http.call("/v1/keys", { key: ann })).status).toBe(403);
    const forged = await makeToken({ header, key: theirs.privateKey });
    expect((await http.call("/v1/sessions", { key: forged })).status).toBe(401);
    expect((await http.call("/v1/sessions", { key: "a.b.c" })).status).toBe(401);
    expect(http.logLines.join("")).not.toContain(ann);
  });
});
