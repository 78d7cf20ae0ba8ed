import { describe, expect, it } from "vitest";
import { normalizeHostName } from "./host-names.ts";

describe("a host name", () => {
  it.each([
    ["API.Example.COM", "api.example.com"],
    ["api.example.com.", "api.example.com"],
    ["_service.example.com", "_service.example.com"],
    ["bücher.example", "xn--bcher-kva.example"],
    ["BÜCHER.example", "xn--bcher-kva.example"],
    ["ｅｘａｍｐｌｅ.com", "example.com"],
    ["1.example", "1.example"],
  ])("%s is normalized to %s", (text, name) => {
    expect(normalizeHostName(text)).toBe(name);
  });

  it.each([
    "127.0.0.1",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0177.0.0.1",
    "１２７.0.0.1",
    "127.0.0.１",
    "example.0x1",
    "",
    ".",
    "a..b",
    ".example.com",
    "example.com..",
    "evil\0.example.com",
    "evil%00.example.com",
    "example.com:80",
    "user@example.com",
    "*.example.com",
    "[::1]",
    "exam ple.com",
    "-example.com",
    "example-.com",
    `${"a".repeat(64)}.com`,
    `${"a.".repeat(127)}com`,
    "a".repeat(100_000),
  ])("%j is not one", (text) => {
    expect(normalizeHostName(text)).toBeUndefined();
  });
});
