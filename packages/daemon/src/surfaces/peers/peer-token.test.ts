import { expect, it } from "vitest";
import type { Caller } from "../../sessions/services/caller.ts";
import { PEER_HEADER } from "../http/admission/peer-header.ts";
import { PeerTokens } from "./peer-token.ts";

const HERE = "http://10.0.0.1:8080";
const QUOTAS = { maxSessions: 3, maxRunningExecs: 4, maxWorkspaces: 5, maxImageBytes: 6 };
const caller: Caller = { owner: "alice", isAdmin: false, isReadOnly: true, ...QUOTAS };
const line = { method: "GET", url: "/v1/sessions/ses_1" };
const request = (token: string) => ({ headers: { [PEER_HEADER]: token } });
const tokensOf = (secret: string, nowMs = () => 1_000_000, address = HERE): PeerTokens =>
  new PeerTokens({ secret, address, nowMs });

it("tells a daemon with the same secret for which caller a request is forwarded", () => {
  const token = tokensOf("shared-secret").sign(line, HERE, { caller });
  expect(tokensOf("shared-secret").read(request(token), line)).toEqual({ caller });
  const byLink = tokensOf("shared-secret").sign(line, HERE, {});
  expect(tokensOf("shared-secret").read(request(byLink), line)).toEqual({});
});

it("describes the caller by what all daemons know, and nothing else", () => {
  const more = { ...caller, networkCeiling: ["*"], key: "sk-secret" } as Caller;
  const token = tokensOf("shared-secret").sign(line, HERE, { caller: more });
  expect(Buffer.from(token, "base64url").toString()).not.toContain("sk-secret");
  expect(tokensOf("shared-secret").read(request(token), line)).toEqual({ caller });
});

it("is refused with another secret, for another request or daemon, changed, or old", () => {
  let now = 1_000_000;
  const tokens = tokensOf("shared-secret", () => now);
  const token = tokens.sign(line, HERE, { caller });
  expect(tokensOf("other-secret").read(request(token), line)).toBeUndefined();
  for (const other of [
    { ...line, method: "DELETE" },
    { ...line, url: "/v1/sessions/ses_2" },
  ])
    expect(tokens.read(request(token), other)).toBeUndefined();
  for (const address of ["http://10.0.0.2:8080", undefined])
    expect(
      new PeerTokens({ secret: "shared-secret", address, nowMs: () => now }).read(
        request(token),
        line,
      ),
    ).toBeUndefined();
  const [claim = "", signature = ""] = token.split(".");
  const admin = Buffer.from(
    JSON.stringify({ atMs: now, to: HERE, nonce: "n", caller: { ...caller, isAdmin: true } }),
  );
  for (const forged of [
    `${admin.toString("base64url")}.${signature}`,
    `${claim}.`,
    claim,
    "",
    "null",
    `${claim}.${signature}x`.replace("x", "AAAA"),
  ])
    expect(tokens.read(request(forged), line)).toBeUndefined();
  expect(tokens.read({ headers: {} }, line)).toBeUndefined();
  now += 60_001;
  expect(tokens.read(request(token), line)).toBeUndefined();
  now -= 120_002;
  expect(tokens.read(request(token), line)).toBeUndefined();
  now += 60_001;
  expect(tokens.read(request(token), line)).toEqual({ caller });
});

it("is valid once, within its lifetime", () => {
  let now = 1_000_000;
  const tokens = tokensOf("shared-secret", () => now);
  // By a clock that is a minute ahead: it is valid for two minutes here.
  const ahead = tokensOf("shared-secret", () => now + 60_000);
  const token = ahead.sign(line, HERE, { caller });
  expect(tokens.read(request(token), line)).toEqual({ caller });
  const end = now + 120_000;
  for (; now <= end; now += 7_500) expect(tokens.read(request(token), line)).toBeUndefined();
  const another = tokens.sign(line, HERE, { caller });
  expect(tokens.read(request(another), line)).toEqual({ caller });
});
