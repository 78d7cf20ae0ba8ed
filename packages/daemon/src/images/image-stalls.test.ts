/** Images that cost much to read must not stall what else the daemon does. */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { worstTurnMs } from "../testing/worst-turn.ts";
import { ociArchive } from "./testing/oci-writer.ts";
import { storeFixture } from "./testing/store-fixture.ts";
import type { StoreFixture } from "./testing/store-fixture.ts";
import { directory, file, tarOf } from "./testing/tar-writer.ts";

/** Processor time of this thread between two turns of the event loop. */
const MAX_STALL_MS = 100;

async function imported(fixture: StoreFixture, layers: readonly Buffer[]): Promise<number> {
  const { archive } = ociArchive(layers.map((bytes) => ({ bytes })));
  const path = await fixture.archive(gzipSync(archive, { level: 1 }));
  return await worstTurnMs(fixture.store.importOciArchive("large", path));
}

const many = <T>(count: number, make: (n: number) => T): T[] =>
  Array.from({ length: count }, (_, n) => make(n));

test("paths that each bring dozens of directories do not stall the daemon", async () => {
  await using fixture = await storeFixture();
  const deep = tarOf(many(300, (n) => file(`${n.toString(36)}/${"a/".repeat(45)}x`, "")));
  expect(await imported(fixture, [deep])).toBeLessThan(MAX_STALL_MS);
});

test("tens of thousands of directories do not stall the daemon", async () => {
  await using fixture = await storeFixture();
  const wide = tarOf(many(20_000, (n) => directory(`${n % 100}/${n}`)));
  expect(await imported(fixture, [wide])).toBeLessThan(MAX_STALL_MS);
});

test("a layer that hides thousands of files does not stall the daemon", async () => {
  await using fixture = await storeFixture();
  const lower = tarOf(many(10_000, (n) => file(`full/${n}`, "")));
  const upper = tarOf([file("full/.wh..wh..opq", "")]);
  expect(await imported(fixture, [lower, upper])).toBeLessThan(MAX_STALL_MS);
});

test.each([
  ["short values", `[${many(320_000, (n) => `{"${n}":1}`).join(",")}]`],
  ["lists in lists", "[".repeat(4_000_000)],
])("a manifest of %s is refused without a stall", async (_name, text) => {
  await using fixture = await storeFixture();
  const archive = await fixture.archive(tarOf([file("index.json", text)]));
  const importing = fixture.store.importOciArchive("bomb", archive);
  const worst = worstTurnMs(importing.catch(() => undefined));
  await expect(importing).rejects.toMatchObject({ code: "INVALID_IMAGE" });
  expect(await worst).toBeLessThan(MAX_STALL_MS);
});

test("thousands of names do not stall the daemon", async () => {
  await using fixture = await storeFixture();
  const references = join(fixture.dataDir, "images", "references");
  await mkdir(references, { recursive: true });
  const entry = { repository: "x", digest: `sha256:${"0".repeat(64)}`, source: "rootfs" };
  for (const n of many(8_000, String))
    await writeFile(join(references, `${n}.json`), JSON.stringify({ ...entry, reference: n }));
  // The first one also describes the machine itself.
  await fixture.store.list();
  expect(await worstTurnMs(fixture.store.list())).toBeLessThan(MAX_STALL_MS);
});
