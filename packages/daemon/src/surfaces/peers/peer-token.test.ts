import { expect, it } from "vitest";
import type { Caller } from "../../sessions/services.ts";
import { PEER_HEADER, PeerTokens } from "./peer-token.ts";

const caller = { owner: "alice", isAdmin: false, maxSessions: 3 } as Caller;
const line = { method: "GET", url: "/v1/sessions/ses_1" };
const request = (token: string) => ({ headers: { [PEER_HEADER]: token } });

it("tells a daemon with the same secret for whom a request is forwarded", () => {
  const token = new PeerTokens("shared-secret").sign(line, { caller });
  expect(new PeerTokens("shared-secret").read(request(token), line)).toEqual({ caller });
  const byLink = new PeerTokens("shared-secret").sign(line, {});
  expect(new PeerTokens("shared-secret").read(request(byLink), line)).toEqual({});
});

it("is nothing with another secret, for another request, changed, or old", () => {
  let now = 1_000_000;
  const tokens = new PeerTokens("shared-secret", () => now);
  const token = tokens.sign(line, { caller });
  expect(new PeerTokens("other-secret", () => now).read(request(token), line)).toBeUndefined();
  for (const other of [
    { ...line, method: "DELETE" },
    { ...line, url: "/v1/sessions/ses_2" },
  ])
    expect(tokens.read(request(token), other)).toBeUndefined();
  const [claim = "", signature = ""] = token.split(".");
  const admin = Buffer.from(JSON.stringify({ atMs: now, caller: { ...caller, isAdmin: true } }));
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
  now += 300_001;
  expect(tokens.read(request(token), line)).toBeUndefined();
});
