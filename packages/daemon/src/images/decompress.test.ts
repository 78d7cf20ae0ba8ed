import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync, zstdCompressSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { sha256 } from "./testing/oci-writer.ts";
import { storeFixture, TOOLS } from "./testing/store-fixture.ts";
import { file, tarOf } from "./testing/tar-writer.ts";

const content = randomBytes(700_000);
const tarball = tarOf([file("data", content), file("last", "end")]);
const xz = (bytes: Buffer): Buffer =>
  execFileSync("/usr/bin/xz", ["-0", "-c"], { input: bytes, maxBuffer: 1 << 26 });
const skippable = Buffer.from([0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3]);
const halves = [tarball.subarray(0, 300_000), tarball.subarray(300_000)] as const;

describe("reads a compressed tarball:", () => {
  test.each<[string, Buffer]>([
    ["plain", tarball],
    ["gzip", gzipSync(tarball)],
    ["gzip of several members", Buffer.concat(halves.map((half) => gzipSync(half)))],
    ["zstd", zstdCompressSync(tarball)],
    [
      "zstd of several frames with skippable ones between",
      Buffer.concat([
        skippable,
        zstdCompressSync(halves[0]),
        skippable,
        zstdCompressSync(halves[1]),
        skippable,
      ]),
    ],
    ["xz", xz(tarball)],
  ])("%s", async (_, archive) => {
    await using fixture = await storeFixture();
    const seen: number[] = [];
    const info = await fixture.store.importRootfs(
      "made",
      await fixture.archive(archive),
      ({ done }) => seen.push(done),
    );
    expect(info.digest).toBe(sha256(archive));
    const { path } = await fixture.store.rootfs("made");
    expect(readFileSync(join(path, "data")).equals(content)).toBe(true);
    expect(readFileSync(join(path, "last"), "utf8")).toBe("end");
    expect(seen.length).toBeGreaterThan(1);
    expect(Math.max(...seen)).toBeLessThanOrEqual(archive.length);
  });
});

describe("refuses a damaged tarball:", () => {
  const cases: [string, Buffer, RegExp][] = [
    ["plain, cut off in a file", tarball.subarray(0, 400_000), /truncated/],
    ["plain, cut off between files", tarball.subarray(0, 512 + 700_416), /truncated/],
    ["gzip, cut off", gzipSync(tarball).subarray(0, 400_000), /truncated/],
    ["zstd, cut off", zstdCompressSync(tarball).subarray(0, 400_000), /truncated/],
    [
      "zstd, something behind",
      Buffer.concat([zstdCompressSync(halves[0]), Buffer.from("garbage!")]),
      /unknown data follows/,
    ],
    ["xz, cut off", xz(tarball).subarray(0, 400_000), /xz reported|truncated/],
    ["gzip, changed in the middle", changed(gzipSync(tarball)), /damaged/],
    ["no archive", Buffer.from("#!/bin/sh\n".repeat(100)), /damaged|not a tar/],
    ["empty", Buffer.alloc(0), /truncated/],
  ];
  test.each(cases)("%s", async (_, archive, words) => {
    await using fixture = await storeFixture();
    await expect(
      fixture.store.importRootfs("made", await fixture.archive(archive)),
    ).rejects.toMatchObject({
      code: "INVALID_IMAGE",
      message: expect.stringMatching(words),
    });
    expect(fixture.temporaries()).toEqual([]);
  });
});

test("refuses xz data with a remedy if there is no xz", async () => {
  await using fixture = await storeFixture();
  const store = await fixture.open({}, { tools: { ...TOOLS, xz: "/nonexistent/xz" } });
  await expect(
    store.importRootfs("made", await fixture.archive(xz(tarball))),
  ).rejects.toMatchObject({
    code: "INVALID_IMAGE",
    message: expect.stringContaining("Install xz-utils"),
  });
});

test("stops an xz bomb at the limit", async () => {
  await using fixture = await storeFixture({ limits: { totalBytes: 5_000_000 } });
  const bomb = xz(tarOf([file("zeros", Buffer.alloc(30_000_000))]));
  expect(bomb.length).toBeLessThan(100_000);
  await expect(
    fixture.store.importRootfs("made", await fixture.archive(bomb)),
  ).rejects.toMatchObject({
    message: expect.stringContaining("exceeds the limit of 5000000 bytes"),
  });
});

function changed(bytes: Buffer): Buffer {
  const copy = Buffer.from(bytes);
  copy[copy.length >> 1] = (copy[copy.length >> 1] ?? 0) ^ 0xff;
  return copy;
}
