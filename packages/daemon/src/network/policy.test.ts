import { describe, expect, it } from "vitest";
import { NetworkPolicy } from "./policy.ts";
import type { Decision, Destination } from "./policy.ts";
import { parseRule, PUBLIC_RULE } from "./rules.ts";
import type { Rule } from "./rules.ts";

const rules = (...texts: readonly string[]): Rule[] =>
  texts.map((text) => {
    const rule = parseRule(text);
    if (rule === undefined) throw new Error(`${text} is not a rule`);
    return rule;
  });

const policy = (...texts: readonly string[]): NetworkPolicy =>
  new NetworkPolicy(rules(...texts), []);

const outcome = (decision: Decision): string => (decision.allowed ? "allowed" : decision.reason);
const to = (allowed: NetworkPolicy, destination: Destination): string =>
  outcome(allowed.decide(destination));

describe("a network policy", () => {
  it("allows nothing without rules", () => {
    expect(to(policy(), { name: "example.com", port: 443 })).toBe("not_allowed");
    expect(to(policy(), { address: "93.184.216.34", port: 443 })).toBe("not_allowed");
  });

  it("allows a name on ports 80 and 443 unless the rule says otherwise", () => {
    const web = policy("api.example.com", "db.example.com:5432");
    expect(to(web, { name: "api.example.com", port: 80 })).toBe("allowed");
    expect(to(web, { name: "api.example.com", port: 443 })).toBe("allowed");
    expect(to(web, { name: "api.example.com", port: 22 })).toBe("port_not_allowed");
    expect(to(web, { name: "db.example.com", port: 5432 })).toBe("allowed");
    expect(to(web, { name: "db.example.com", port: 443 })).toBe("port_not_allowed");
    expect(to(web, { name: "example.com", port: 443 })).toBe("not_allowed");
    expect(to(web, { name: "api.example.com.evil.net", port: 443 })).toBe("not_allowed");
    expect(to(web, { name: "xapi.example.com", port: 443 })).toBe("not_allowed");
  });

  it("allows the names below a wildcard, but not the name itself", () => {
    const below = policy("*.example.org:443,8443");
    expect(to(below, { name: "a.example.org", port: 8443 })).toBe("allowed");
    expect(to(below, { name: "a.b.example.org", port: 443 })).toBe("allowed");
    expect(to(below, { name: "example.org", port: 443 })).toBe("not_allowed");
    expect(to(below, { name: "evilexample.org", port: 443 })).toBe("not_allowed");
    expect(to(below, { name: "a.example.org", port: 80 })).toBe("port_not_allowed");
  });

  it("treats different spellings of a name alike", () => {
    const both = policy("Example.COM", "bücher.example");
    for (const name of ["example.com", "EXAMPLE.com.", "ｅxample.com", "example。com"])
      expect([name, to(both, { name, port: 443 })]).toEqual([name, "allowed"]);
    expect(to(both, { name: "xn--bcher-kva.example", port: 443 })).toBe("allowed");
  });

  it.each([
    "evil.com\0.example.com",
    "example.com\n",
    "example.com/",
    "ex%61mple.com",
    "user@example.com",
    "example.com:443",
    "example..com",
    ".example.com",
    "",
    ".",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "127.1",
    "0177.0.0.1",
    "１２７.0.0.1",
    "127.0.0.1.",
    "[::1]",
    "*.example.com",
    `${"a".repeat(64)}.example.com`,
    `${"a.".repeat(127)}com`,
  ])("refuses the name %j, which is not a host name, even if everything is allowed", (name) => {
    const full = new NetworkPolicy([PUBLIC_RULE, ...rules("127.0.0.0/8:*")], []);
    expect(to(full, { name, port: 443 })).toBe("invalid_destination");
  });

  it.each([
    "2130706433",
    "0x7f.1",
    "0177.0.0.1",
    "127.1",
    "1.2.3.4.5",
    "fe80::1%eth0",
    "::1%lo",
    "",
  ])("refuses the address %j, which is not in the usual notation", (address) => {
    const full = new NetworkPolicy([PUBLIC_RULE, ...rules("127.0.0.0/8:*", "[::/0]:*")], []);
    expect(to(full, { address, port: 443 })).toBe("invalid_destination");
  });

  it("allows only public addresses if everything public is allowed", () => {
    const full = new NetworkPolicy([PUBLIC_RULE], []);
    expect(to(full, { address: "93.184.216.34", port: 22 })).toBe("allowed");
    expect(to(full, { address: "2606:2800:220:1::1", port: 22 })).toBe("allowed");
    for (const address of [
      "127.0.0.1",
      "0.0.0.0",
      "10.0.0.1",
      "100.64.0.1",
      "172.16.0.1",
      "192.168.1.1",
      "169.254.169.254",
      "168.63.129.16",
      "224.0.0.1",
      "255.255.255.255",
      "198.18.0.5",
      "::",
      "::1",
      "fe80::1",
      "fd00::1",
      "ff02::1",
      "64:ff9b::7f00:1",
      "2002:7f00:1::",
      "::ffff:127.0.0.1",
      "::ffff:a9fe:a9fe",
      "::ffff:10.0.0.1",
    ])
      expect([address, to(full, { address, port: 80 })]).toEqual([address, "not_allowed"]);
  });

  it("refuses an allowed name that resolves to an address that no rule names", () => {
    const web = policy("api.example.com", "*.example.org");
    expect(to(web, { name: "api.example.com", address: "93.184.216.34", port: 443 })).toBe(
      "allowed",
    );
    for (const address of ["127.0.0.1", "::1", "10.1.2.3", "169.254.169.254", "::ffff:127.0.0.1"])
      expect([address, to(web, { name: "api.example.com", address, port: 443 })]).toEqual([
        address,
        "private_address",
      ]);
  });

  it("allows a name with a private address that a rule names, on the ports of both rules", () => {
    const db = policy("db.internal:5432,443", "10.1.2.0/24:5432");
    expect(to(db, { name: "db.internal", address: "10.1.2.3", port: 5432 })).toBe("allowed");
    expect(to(db, { name: "db.internal", address: "10.1.2.3", port: 443 })).toBe("private_address");
    expect(to(db, { name: "db.internal", address: "10.1.3.3", port: 5432 })).toBe(
      "private_address",
    );
    expect(to(db, { address: "10.1.2.3", port: 5432 })).toBe("allowed");
    expect(to(db, { address: "10.1.2.3", port: 22 })).toBe("port_not_allowed");
    expect(to(db, { address: "::ffff:10.1.2.3", port: 5432 })).toBe("allowed");
  });

  it("does not treat a network as large as the internet as naming a private address", () => {
    const wide = policy("0.0.0.0/0:*", "[::/0]:*", "a.example.com:*");
    expect(to(wide, { address: "93.184.216.34", port: 22 })).toBe("allowed");
    for (const address of [
      "127.0.0.1",
      "10.0.0.1",
      "169.254.169.254",
      "::1",
      "fd00::1",
      "64:ff9b::1",
    ])
      expect([address, to(wide, { address, port: 22 })]).toEqual([address, "not_allowed"]);
    expect(to(wide, { name: "a.example.com", address: "127.0.0.1", port: 22 })).toBe(
      "private_address",
    );
  });

  it("never allows addresses that cannot be connected to", () => {
    const odd = policy("0.0.0.0:*", "224.0.0.1:*", "[::]:*", "[ff02::1]:*", "255.255.255.255:*");
    for (const address of ["0.0.0.0", "224.0.0.1", "::", "ff02::1", "255.255.255.255"])
      expect([address, to(odd, { address, port: 80 })]).toEqual([address, "not_allowed"]);
  });

  it("treats the machine's own public address as private", () => {
    const own = (address: string): boolean => address === "93.184.216.34";
    const full = new NetworkPolicy([PUBLIC_RULE], [], own);
    expect(to(full, { address: "93.184.216.34", port: 8080 })).toBe("not_allowed");
    expect(to(full, { address: "93.184.216.35", port: 8080 })).toBe("allowed");
    expect(to(full, { name: "me.example", address: "93.184.216.34", port: 443 })).toBe(
      "private_address",
    );
    const named = new NetworkPolicy([PUBLIC_RULE, ...rules("93.184.216.34:8080")], [], own);
    expect(to(named, { address: "93.184.216.34", port: 8080 })).toBe("allowed");
  });

  it("allows only what every maximum allows, and reports which one does not", () => {
    const limited = new NetworkPolicy(rules("*.example.com:*"), [
      { name: "the administrator's `network.allow`", rules: rules("*") },
      { name: "the API key's `network_allow`", rules: rules("a.example.com:443") },
    ]);
    expect(to(limited, { name: "a.example.com", port: 443 })).toBe("allowed");
    const other = limited.decide({ name: "b.example.com", port: 443 });
    expect(other).toMatchObject({ reason: "above_ceiling" });
    expect(JSON.stringify(other)).toContain("the API key's `network_allow`");
    const port = limited.decide({ name: "a.example.com", port: 22 });
    expect(JSON.stringify(port)).toContain("the administrator's `network.allow`");
  });

  it("refuses a private address that the session names and a maximum does not", () => {
    const limited = new NetworkPolicy(rules("a.example.com", "10.0.0.0/8"), [
      { name: "the administrator", rules: [PUBLIC_RULE] },
    ]);
    expect(to(limited, { name: "a.example.com", address: "10.0.0.1", port: 443 })).toBe(
      "private_address",
    );
    expect(to(limited, { address: "10.0.0.1", port: 443 })).toBe("above_ceiling");
  });

  it("returns the ports on which a name can be reached", () => {
    const limited = new NetworkPolicy(rules("*.example.com:80-90,443", "a.example.com:8443"), [
      { name: "the administrator", rules: rules("*:85-8443") },
    ]);
    expect(limited.portsOf("A.example.com.")).toEqual([
      { first: 85, last: 90 },
      { first: 443, last: 443 },
      { first: 8443, last: 8443 },
    ]);
    expect(limited.portsOf("example.net")).toEqual([]);
    expect(limited.portsOf("127.0.0.1")).toEqual([]);
    expect(new NetworkPolicy([PUBLIC_RULE], []).portsOf("x.example")).toEqual([
      { first: 1, last: 65_535 },
    ]);
  });
});
