import { describe, expect, it } from "vitest";
import { exposureProblem, isLoopback, parseListenAddress } from "./listen-address.ts";

describe("parseListenAddress()", () => {
  it.each([
    ["127.0.0.1:8080", "127.0.0.1", 8080],
    ["[::1]:0", "::1", 0],
    ["localhost:65535", "localhost", 65_535],
    ["box-1.example.com:80", "box-1.example.com", 80],
  ])("reads %s", (text, host, port) => {
    expect(parseListenAddress(text)).toEqual({ host, port });
  });

  it.each([
    "",
    "8080",
    ":8080",
    "*:8080",
    "localhost",
    "localhost:",
    "localhost:65536",
    "localhost:-1",
    "::1:80",
    "[127.0.0.1]:80",
    "[::1]",
    "127.1:80",
    "0x7f000001:80",
    "256.0.0.1:80",
    "a b:80",
    "-a:80",
    "http://localhost:80",
    "localhost:80\n",
  ])("refuses %j", (text) => {
    expect(parseListenAddress(text)).toBeUndefined();
  });
});

describe("exposureProblem()", () => {
  it.each(["127.0.0.1", "127.255.0.9", "::1", "0:0:0:0:0:0:0:1", "localhost", "LOCALHOST"])(
    "accepts %s, which only this machine can reach",
    (host) => {
      expect(isLoopback(host)).toBe(true);
      expect(exposureProblem({ host, port: 1 }, [])).toBeUndefined();
    },
  );

  it.each(["0.0.0.0", "::", "10.0.0.1", "fe80::1", "localhost.evil.test", "126.0.0.1", "::2"])(
    "requires a configured key on %s",
    (host) => {
      expect(exposureProblem({ host, port: 1 }, [])).toContain("no key is configured");
      expect(exposureProblem({ host, port: 1 }, ["key"])).toBeUndefined();
    },
  );
});
