import { SandboxError } from "@sandkasten/protocol";
import { describe, expect, it } from "vitest";
import { currentValue, planSecrets } from "./edge-secrets.ts";
import type { SecretRequest, SecretTerms } from "./edge-secrets.ts";
import { resolveRules } from "./plan-network.ts";
import { NetworkPolicy } from "./policy.ts";

const TERMS: SecretTerms = {
  owner: "alice",
  policy: new NetworkPolicy(resolveRules(["api.example.com", "*.example.org"], new Map()), []),
  store: [
    { name: "shared", host: "api.example.com", header: "Authorization", value: "Bearer a" },
    { name: "bobs", host: "api.example.com", header: "X-Key", value: "b", keys: ["bob"] },
  ],
};

const SECRET: SecretRequest = {
  host: "api.example.com",
  header: "Authorization",
  value: "Bearer x",
};

function refusal(...requests: readonly SecretRequest[]): SandboxError {
  try {
    planSecrets(requests, TERMS);
  } catch (error) {
    if (error instanceof SandboxError) return error;
    throw error;
  }
  throw new Error("it was allowed");
}

describe("planSecrets", () => {
  it("accepts values and names of the administrator's secrets, in one spelling", () => {
    const named = { host: "API.example.com.", header: "authorization", name: "shared" };
    const other = { host: "x.example.org", header: "X-Token", value: "a b\tc" };
    expect(planSecrets([named, other], TERMS)).toEqual([
      { host: "api.example.com", header: "authorization", name: "shared" },
      { host: "x.example.org", header: "x-token", value: "a b\tc" },
    ]);
  });

  it("sends the administrator's secret only to the administrator's host", () => {
    for (const request of [
      { host: "evil.example.org", header: "Authorization", name: "shared" },
      { host: "api.example.com", header: "X-Echo", name: "shared" },
      { host: "api.example.com", header: "X-Key", name: "bobs" },
      { host: "api.example.com", header: "X-Key", name: "unknown" },
    ])
      expect(refusal(request).code).toBe("PERMISSION_DENIED");
  });

  it("reports another key's secret like one that does not exist", () => {
    const [others, none] = ["bobs", "unknown"].map(
      (name) => refusal({ host: "api.example.com", header: "X-Key", name }).message,
    );
    expect(others).toBe(none);
  });

  it.each([
    [{ ...SECRET, host: "other.example.com" }, "network.allow"],
    [{ ...SECRET, host: "*.example.org" }, "host name"],
    [{ ...SECRET, host: "127.0.0.1" }, "host name"],
    [{ ...SECRET, header: "Content-Length" }, "controls the connection"],
    [{ ...SECRET, header: "Host" }, "controls the connection"],
    [{ ...SECRET, header: "Proxy-Authorization" }, "controls the connection"],
    [{ ...SECRET, header: "X Y" }, "name of a header"],
    [{ ...SECRET, header: "X:\r\nY" }, "name of a header"],
    [{ ...SECRET, value: "a\r\nX: y" }, "one line"],
    [{ ...SECRET, value: "a\0" }, "one line"],
    [{ ...SECRET, value: " a" }, "one line"],
    [{ ...SECRET, name: "shared" }, "either value or name"],
    [{ host: SECRET.host, header: "X" }, "either value or name"],
  ])("refuses %j", (request, reason) => {
    const { code, message } = refusal(request);
    expect([code, message.includes(reason)]).toEqual(["INVALID_REQUEST", true]);
    // The value must not appear, even in a refusal.
    expect(message).not.toContain("Bearer");
  });

  it("refuses two values for one header", () => {
    expect(refusal(SECRET, { ...SECRET, header: "AUTHORIZATION" }).message).toContain("again");
  });
});

describe("currentValue", () => {
  it("is the value in the administrator's store now", () => {
    const secret = { host: "api.example.com", header: "authorization", name: "shared" };
    expect(currentValue(secret, TERMS)).toBe("Bearer a");
    expect(currentValue(secret, { ...TERMS, store: [] })).toBeUndefined();
    const moved = [{ ...(TERMS.store[0] as (typeof TERMS.store)[0]), host: "evil.example.org" }];
    expect(currentValue(secret, { ...TERMS, store: moved })).toBeUndefined();
  });
});
