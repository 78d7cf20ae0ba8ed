/** The disk usage of images: of one image, of an owner, and of all. */
import { randomBytes } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { ociArchive } from "./testing/oci-writer.ts";
import { storeFixture } from "./testing/store-fixture.ts";
import type { StoreFixture } from "./testing/store-fixture.ts";
import { file, tarOf } from "./testing/tar-writer.ts";

const MIB = 2 ** 20;
const bob = (maxBytes: number) => ({ name: "bob", maxBytes });
const exceeded = expect.objectContaining({ code: "QUOTA_EXCEEDED", status: 429 });

/** A new tarball of that many bytes. */
async function archiveOf(fixture: StoreFixture, bytes: number): Promise<string> {
  return await fixture.archive(tarOf([file("content", randomBytes(bytes))]));
}

describe("the images of an owner", () => {
  test("use at most the owner's quota, and less after a removal", async () => {
    await using fixture = await storeFixture();
    const images = fixture.store.of(bob(3 * MIB));
    await images.importRootfs("one:1", await archiveOf(fixture, MIB));
    await images.importRootfs("two:1", await archiveOf(fixture, MIB));
    await expect(images.importRootfs("three:1", await archiveOf(fixture, MIB))).rejects.toEqual(
      exceeded,
    );
    expect(fixture.temporaries()).toEqual([]);
    // Other content under the same name replaces the old content.
    await images.importRootfs("two:1", await archiveOf(fixture, MIB));
    await images.remove("one:1");
    await images.importRootfs("three:1", await archiveOf(fixture, MIB));
  });

  test("count even if another owner has already unpacked them", async () => {
    await using fixture = await storeFixture();
    const archive = await archiveOf(fixture, 2 * MIB);
    await fixture.store.importRootfs("shared:1", archive);
    await expect(fixture.store.of(bob(MIB)).importRootfs("own:1", archive)).rejects.toEqual(
      exceeded,
    );
    await fixture.store.of(bob(3 * MIB)).importRootfs("own:1", archive);
  });

  test("count together while they are being imported", async () => {
    await using fixture = await storeFixture();
    const images = fixture.store.of(bob(5 * MIB));
    const archives = await Promise.all([1, 2, 3, 4].map(() => archiveOf(fixture, 2 * MIB)));
    const outcomes = await Promise.allSettled(
      archives.map(async (archive, n) => await images.importRootfs(`image-${n}:1`, archive)),
    );
    const failed = outcomes.filter((outcome) => outcome.status === "rejected");
    expect(failed.length).toBeGreaterThanOrEqual(2);
    for (const { reason } of failed) expect(reason).toEqual(exceeded);
    expect(fixture.temporaries()).toEqual([]);
  });

  test("count each file as at least a block, so empty files are not free", async () => {
    await using fixture = await storeFixture();
    const files = Array.from({ length: 1000 }, (_, n) => file(`f${n}`, ""));
    const archive = await fixture.archive(tarOf(files));
    await expect(fixture.store.of(bob(MIB)).importRootfs("many:1", archive)).rejects.toEqual(
      exceeded,
    );
  });

  test("have a maximum of names, since names of one image take no further space", async () => {
    await using fixture = await storeFixture();
    const images = fixture.store.of(bob(100 * MIB));
    const archive = await archiveOf(fixture, 1000);
    const { digest } = await images.importRootfs("first:1", archive);
    const entry = { repository: "x", digest, sourceDigest: digest, source: "rootfs", owner: "bob" };
    const references = join(fixture.dataDir, "images", "references");
    for (let n = 1; n < 1000; n += 1)
      await writeFile(
        join(references, `${n}.json`),
        JSON.stringify({ ...entry, reference: `x:${n}` }),
      );
    await expect(images.importRootfs("last:1", archive)).rejects.toEqual(exceeded);
    await fixture.store.of({ name: "alice", maxBytes: 100 * MIB }).importRootfs("own:1", archive);
    await images.importRootfs("first:1", archive);
    await images.remove("first:1");
    await images.importRootfs("last:1", archive);
  });

  test("do not prevent the import of the same content by another owner", async () => {
    await using fixture = await storeFixture();
    const archive = await archiveOf(fixture, 4 * MIB);
    const [poor, rich] = await Promise.allSettled([
      fixture.store.of(bob(MIB)).importRootfs("same:1", archive),
      fixture.store.of({ name: "alice", maxBytes: 100 * MIB }).importRootfs("same:1", archive),
    ]);
    expect(poor).toMatchObject({ status: "rejected", reason: exceeded });
    expect(rich).toMatchObject({ status: "fulfilled" });
  });
});

test("all images together use at most the limit of the store", async () => {
  await using fixture = await storeFixture({ maxTotalBytes: 3 * MIB });
  await fixture.store.importRootfs("one:1", await archiveOf(fixture, 2 * MIB));
  const images = fixture.store.of(bob(100 * MIB));
  await expect(
    images.importRootfs("two:1", await archiveOf(fixture, 2 * MIB)),
  ).rejects.toMatchObject({
    code: "STORAGE_FULL",
    message: expect.stringContaining("images.max_total_bytes"),
  });
  expect(fixture.store.usage()).toMatchObject({ images: 1, maxBytes: 3 * MIB });
  await fixture.store.remove("one:1");
  await fixture.store.collectGarbage(new Set());
  expect(fixture.store.usage()).toMatchObject({ images: 0, bytes: 0 });
  await images.importRootfs("two:1", await archiveOf(fixture, 2 * MIB));
  expect(fixture.store.usage().bytes).toBeGreaterThan(2 * MIB);
});

describe("an archive that grows too much", () => {
  const zeros = tarOf([file("zeros", Buffer.alloc(100 * MIB))]);
  const tooMuch = expect.objectContaining({
    code: "INVALID_IMAGE",
    message: expect.stringContaining("images.max_compression_ratio"),
  });

  test("is refused: a root file system, a layer, and a layer in a compressed archive", async () => {
    await using fixture = await storeFixture();
    const bomb = gzipSync(zeros);
    expect(bomb.length).toBeLessThan(MIB / 2);
    await expect(fixture.store.importRootfs("bomb:1", await fixture.archive(bomb))).rejects.toEqual(
      tooMuch,
    );
    const mediaType = "application/vnd.oci.image.layer.v1.tar+gzip";
    const { archive } = ociArchive([{ bytes: bomb, mediaType }]);
    for (const bytes of [archive, gzipSync(archive)])
      await expect(
        fixture.store.importOciArchive("bomb:1", await fixture.archive(bytes)),
      ).rejects.toEqual(tooMuch);
    expect(fixture.temporaries()).toEqual([]);
    expect(await fixture.store.list()).toHaveLength(1);
  });

  test("is accepted if the administrator allows it", async () => {
    await using fixture = await storeFixture({ limits: { compressionRatio: 10_000 } });
    await fixture.store.importRootfs("zeros:1", await fixture.archive(gzipSync(zeros)));
  });
});
