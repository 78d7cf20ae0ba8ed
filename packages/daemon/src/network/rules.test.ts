import { describe, expect, it } from "vitest";
import { formatRule, isCovered, parseRule } from "./rules.ts";
import type { Rule } from "./rules.ts";

const rule = (text: string): Rule => {
  const parsed = parseRule(text);
  if (parsed === undefined) throw new Error(`${text} is not a rule`);
  return parsed;
};

describe("parseRule", () => {
  it.each([
    ["api.example.com", "api.example.com:80,443"],
    ["API.Example.com.", "api.example.com:80,443"],
    ["*.example.org:443,8443", "*.example.org:443,8443"],
    ["a.example:8443,443,444", "a.example:443-444,8443"],
    ["a.example:1-65535", "a.example:*"],
    ["10.1.2.0/24:5432", "10.1.2.0/24:5432"],
    ["10.1.2.3", "10.1.2.3:80,443"],
    ["2001:db8::/32", "[2001:db8::/32]:80,443"],
    ["[2001:DB8::/32]:22", "[2001:db8::/32]:22"],
    ["::ffff:10.1.2.3", "10.1.2.3:80,443"],
    ["*", "*:80,443"],
    ["*:22", "*:22"],
    ["*:*", "*:*"],
    ["localhost:8080", "localhost:8080"],
    ["bücher.example", "xn--bcher-kva.example:80,443"],
  ])("reads %j as %j", (text, canonical) => {
    expect(formatRule(rule(text))).toBe(canonical);
    expect(formatRule(rule(canonical))).toBe(canonical);
  });

  it.each([
    "",
    "a.example:",
    "a.example:0",
    "a.example:65536",
    "a.example:90-80",
    "a.example:http",
    "a.example:80,,443",
    "a.example:80:443",
    "*.com",
    "*.*.com",
    "a.*.com",
    "*a.com",
    "https://a.example",
    "a.example/path",
    "10.0.0.0/33",
    "10.0.0.0/-1",
    "10.0.0.0/8/8",
    "::ffff:10.0.0.0/104",
    "2001:db8::/129",
    "0x7f.1",
    "2130706433",
    "a b.example",
    "a.example\0",
  ])("refuses %j", (text) => {
    expect(parseRule(text)).toBeUndefined();
  });
});

describe("isCovered", () => {
  it.each([
    ["a.example", ["a.example"], true],
    ["a.example", ["*.example.com"], false],
    ["a.b.example.com", ["*.example.com"], true],
    ["example.com", ["*.example.com"], false],
    ["*.example.com", ["*.example.com"], true],
    ["*.b.example.com", ["*.example.com"], true],
    ["*.example.com", ["*.b.example.com"], false],
    ["*.example.com", ["example.com", "a.example.com"], false],
    ["*.evilexample.com", ["*.example.com"], false],
    ["a.example", ["*"], true],
    ["*.example.com:22", ["*"], false],
    ["a.example:80,443,8443", ["a.example:8443", "*"], true],
    ["a.example:80-90", ["a.example:80-85", "*:86-100"], true],
    ["a.example:80-90", ["a.example:80-84", "*:86-100"], false],
    ["10.1.2.0/24:5432", ["10.0.0.0/8:5432"], true],
    ["10.0.0.0/8:5432", ["10.1.2.0/24:5432"], false],
    ["10.1.2.3:5432", ["*:*"], false],
    ["127.0.0.1", ["*:*"], false],
    ["93.184.216.34", ["*"], true],
    ["0.0.0.0/0", ["*"], false],
    ["168.0.0.0/8", ["*"], false],
    ["2606:2800::/32", ["*"], true],
    ["*", ["*"], true],
    ["*", ["0.0.0.0/0", "::/0"], false],
    ["*:*", ["*"], false],
    ["2001:db8::1", ["10.0.0.0/8"], false],
    ["a.example", [], false],
  ])("of %j by %j is %j", (text, ceiling, expected) => {
    expect(isCovered(rule(text), ceiling.map(rule))).toBe(expected);
  });
});
