import { describe, expect, test } from "vitest";
import { parseReference } from "./reference.ts";
import { storeFixture } from "./testing/store-fixture.ts";

const DIGEST = `sha256:${"a".repeat(64)}`;

describe("parseReference()", () => {
  test.each([
    ["alpine", "alpine:latest"],
    ["alpine:3.19", "alpine:3.19"],
    ["docker.io/library/alpine:3.19", "alpine:3.19"],
    ["docker.io/someone/tool", "someone/tool:latest"],
    ["library/alpine", "alpine:latest"],
    ["localhost:5000/a/b_c:X.1-y", "localhost:5000/a/b_c:X.1-y"],
    ["registry.example.com/team/app@" + DIGEST, `registry.example.com/team/app@${DIGEST}`],
    [`alpine:3.19@${DIGEST}`, `alpine:3.19@${DIGEST}`],
    ["host", "host"],
    ["python", "python:3.11-slim"],
    ["sandbox-runtime:python", "python:3.11-slim"],
    ["node", "node:20-slim"],
    ["sandbox-runtime:node", "node:20-slim"],
    ["linux", "ubuntu:22.04"],
    ["bash", "ubuntu:22.04"],
    ["shell", "ubuntu:22.04"],
    ["sandbox-runtime:base", "ubuntu:22.04"],
  ])("reads %s as %s", (name, canonical) => {
    expect(parseReference(name).canonical).toBe(canonical);
  });

  test.each([
    "",
    "../x",
    "..",
    ".",
    "/etc/passwd",
    "a/../b",
    "a//b",
    "a/",
    "UPPER",
    "a:",
    "a:b:c",
    "a@sha256:abc",
    `a@${DIGEST}@${DIGEST}`,
    "a@md5:" + "a".repeat(32),
    "-option",
    "a b",
    "a\nb",
    "a\0b",
    "späß",
    "а", // Cyrillic
    "x".repeat(10_240),
    "dir:/etc",
    "docker://alpine",
    "host:latest",
    `host@${DIGEST}`,
    "a..b",
    "a:" + "t".repeat(129),
  ])("refuses %j", (name) => {
    expect(() => parseReference(name)).toThrow(
      expect.objectContaining({ code: "INVALID_IMAGE", status: 400 }),
    );
  });

  test("quickly refuses names that are designed to slow down a pattern", () => {
    const name = `${"a-".repeat(120)}!`;
    expect(() => parseReference(name)).toThrow();
    expect(() => parseReference("a-".repeat(200))).toThrow();
  });
});

test.each(["../x", "x.js", "x".repeat(10_240), "späß"])(
  "every method of the store refuses the name %j without touching the disk",
  async (name) => {
    await using fixture = await storeFixture();
    const archive = await fixture.archive(Buffer.alloc(1024));
    const before = fixture.outsideState();
    const refused = expect.objectContaining({ code: "INVALID_IMAGE" });
    await expect(fixture.store.resolve(name)).rejects.toEqual(refused);
    await expect(fixture.store.rootfs(name)).rejects.toEqual(refused);
    await expect(fixture.store.inspect(name)).rejects.toEqual(refused);
    await expect(fixture.store.remove(name)).rejects.toEqual(refused);
    await expect(fixture.store.importRootfs(name, archive)).rejects.toEqual(refused);
    expect(fixture.temporaries()).toEqual([]);
    expect(fixture.outsideState()).toBe(before);
  },
);
