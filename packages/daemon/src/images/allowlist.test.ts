import { describe, expect, test } from "vitest";
import { ImageAllowlist } from "./allowlist.ts";
import { file, tarOf } from "./testing/tar-writer.ts";
import { sha256 } from "./testing/oci-writer.ts";
import { storeFixture } from "./testing/store-fixture.ts";

describe("ImageAllowlist", () => {
  test.each<[string[], string, boolean]>([
    [[], "anything:1", true],
    [["python"], "python:3.11-slim", true],
    [["alpine"], "alpine:latest", true],
    [["alpine"], "alpine:3.19", false],
    [["alpine:*"], "alpine:3.19", true],
    [["alpine:*"], "x/alpine:3.19", false],
    [["alpine:*"], "alpine-evil:3.19", false],
    [["docker.io/library/python:3.*"], "python:3.12", true],
    [["registry.example.com/*"], "registry.example.com/app:1", true],
    [["registry.example.com/*"], "registry.example.com/team/app:1", false],
    [["registry.example.com/**"], "registry.example.com/team/app:1", true],
    [["registry.example.com/**"], "registryXexample.com/team/app:1", false],
    [["a:1"], `a:1@sha256:${"0".repeat(64)}`, false],
    [["host"], "host", true],
    [["alpine"], "host", false],
  ])("with %j, %s is allowed: %s", (entries, canonical, expected) => {
    expect(new ImageAllowlist(entries).allows(canonical)).toBe(expected);
  });

  test("refuses an entry that is not a reference", () => {
    expect(() => new ImageAllowlist(["../x"])).toThrow(
      expect.objectContaining({ code: "INVALID_IMAGE" }),
    );
  });
});

describe("the store with an allowlist", () => {
  test("refuses other images and lists the allowed ones", async () => {
    await using fixture = await storeFixture({ allowedImages: ["mine:*", "python"] });
    const archive = await fixture.archive(tarOf([file("x", "x")]));
    const refusal = expect.objectContaining({
      code: "INVALID_IMAGE",
      message: expect.stringContaining("mine:*, python"),
      details: { allowed_images: ["mine:*", "python"] },
    });
    await expect(fixture.store.resolve("alpine")).rejects.toEqual(refusal);
    await expect(fixture.store.resolve("host")).rejects.toEqual(refusal);
    await expect(fixture.store.pull("alpine")).rejects.toEqual(refusal);
    await expect(fixture.store.importRootfs("alpine", archive)).rejects.toEqual(refusal);
    await fixture.store.importRootfs("mine:1", archive);
    await expect(fixture.store.resolve("mine:1")).resolves.toMatchObject({
      reference: "mine:1",
      requested: "mine:1",
    });
  });

  test("does not fall back to host when host is not allowed", async () => {
    await using fixture = await storeFixture({ allowedImages: ["python"] });
    await expect(fixture.store.resolve("python")).rejects.toMatchObject({
      code: "INVALID_IMAGE",
      message: expect.stringContaining("python:3.11-slim is not present"),
    });
  });

  test("falls back to host if only host is allowed", async () => {
    await using fixture = await storeFixture({ allowedImages: ["host"] });
    await expect(fixture.store.resolve("python")).resolves.toMatchObject({
      reference: "host",
      requested: "python",
    });
    await expect(fixture.store.resolve("python:3.11-slim")).rejects.toMatchObject({
      code: "INVALID_IMAGE",
    });
  });

  test("allows a digest if an allowed name has exactly that content, and no other digest", async () => {
    await using fixture = await storeFixture({ allowedImages: ["mine:1"] });
    const tarball = tarOf([file("x", "x")]);
    await fixture.store.importRootfs("mine:1", await fixture.archive(tarball));
    await expect(fixture.store.resolve(`mine:1@${sha256(tarball)}`)).resolves.toMatchObject({
      reference: `mine:1@${sha256(tarball)}`,
    });
    await expect(fixture.store.resolve(`mine:1@${sha256("else")}`)).rejects.toMatchObject({
      code: "INVALID_IMAGE",
    });
  });
});
