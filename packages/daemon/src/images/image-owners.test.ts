/** Owners of images: names of one owner mean nothing to another. */
import { readFileSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Images } from "../ports/image-store.ts";
import { parseReference } from "./reference.ts";
import { ReferenceTable } from "./reference-table.ts";
import { storeFixture } from "./testing/store-fixture.ts";
import type { StoreFixture } from "./testing/store-fixture.ts";
import { file, tarOf } from "./testing/tar-writer.ts";

const PLENTY = 2 ** 30;
const ALICE = { name: "alice", maxBytes: PLENTY };
const BOB = { name: "bob", maxBytes: PLENTY };

async function imports(
  fixture: StoreFixture,
  images: Images,
  reference: string,
  text: string,
): Promise<string> {
  const archive = await fixture.archive(tarOf([file("who", text)]));
  return (await images.importRootfs(reference, archive)).digest;
}

/** The file that a sandbox of this image would see. */
async function whoIn(fixture: StoreFixture, images: Images, name: string): Promise<string> {
  const { reference, digest } = await images.resolve(name);
  const { path } = await fixture.store.rootfs(reference, digest);
  return readFileSync(join(path, "who"), "utf8");
}

/** How a call fails, without the name of the image. */
async function failure(call: Promise<unknown>, name: string): Promise<string> {
  const error = await call.then(
    () => new Error("it did not fail"),
    (reason: unknown) => reason as Error & { code?: string },
  );
  return `${"code" in error ? error.code : ""} ${error.message.replaceAll(name, "X")}`;
}

describe("images of owners", () => {
  test("can be used by their owner only, even under the names of shared ones", async () => {
    await using fixture = await storeFixture();
    const [alice, bob] = [fixture.store.of(ALICE), fixture.store.of(BOB)];
    await imports(fixture, bob, "python:3.11-slim", "bob");
    await expect(alice.resolve("python")).resolves.toMatchObject({
      reference: "host",
      isSubstitute: true,
    });
    await imports(fixture, fixture.store, "python:3.11-slim", "administrator");
    expect(await whoIn(fixture, alice, "python")).toBe("administrator");
    expect(await whoIn(fixture, bob, "python")).toBe("bob");
    await imports(fixture, alice, "python:3.11-slim", "alice");
    expect(await whoIn(fixture, alice, "python")).toBe("alice");
    expect(await whoIn(fixture, bob, "python")).toBe("bob");
    expect(await whoIn(fixture, fixture.store, "python")).toBe("administrator");
  });

  test("are not listed, inspected, pinned or removed by others, as if they did not exist", async () => {
    await using fixture = await storeFixture();
    const [alice, bob] = [fixture.store.of(ALICE), fixture.store.of(BOB)];
    const digest = await imports(fixture, bob, "secret:1", "bob");
    expect((await alice.list()).map(({ reference }) => reference)).toEqual(["host"]);
    for (const images of [alice, fixture.store]) {
      for (const [there, absent] of [
        ["secret:1", "absent:1"],
        [`secret@${digest}`, `absent@${digest}`],
      ] as const) {
        const calls = (name: string): Promise<unknown>[] => [
          images.resolve(name),
          images.ensure(name),
          images.inspect(name),
          images.remove(name),
        ];
        const seen = await Promise.all(calls(there).map((call) => failure(call, there)));
        const unknown = await Promise.all(calls(absent).map((call) => failure(call, absent)));
        expect(seen).toEqual(unknown);
        expect(seen.every((text) => text.startsWith("INVALID_IMAGE"))).toBe(true);
      }
    }
    expect((await bob.list()).map(({ reference, shared }) => [reference, shared])).toEqual([
      ["host", true],
      ["secret:1", false],
    ]);
    expect(await whoIn(fixture, bob, `secret@${digest}`)).toBe("bob");
  });

  test("remain when another owner removes the same content", async () => {
    await using fixture = await storeFixture();
    const [alice, bob] = [fixture.store.of(ALICE), fixture.store.of(BOB)];
    await imports(fixture, alice, "same:1", "same files");
    await imports(fixture, bob, "same:1", "same files");
    await alice.remove("same:1");
    expect((await fixture.store.collectGarbage(new Set())).removed).toBe(0);
    expect(await whoIn(fixture, bob, "same:1")).toBe("same files");
    await bob.remove("same:1");
    expect((await fixture.store.collectGarbage(new Set())).removed).toBe(1);
  });

  test("do not reveal that another owner already had the same content", async () => {
    await using fixture = await storeFixture();
    let nowMs = 1000;
    const store = await fixture.open({}, { nowMs: () => nowMs });
    await imports(fixture, store.of(ALICE), "same:1", "same files");
    nowMs = 2000;
    await imports(fixture, store.of(BOB), "same:1", "same files");
    expect((await store.of(BOB).inspect("same:1")).createdAtMs).toBe(2000);
    expect((await store.of(ALICE).inspect("same:1")).createdAtMs).toBe(1000);
  });
});

describe("shared images", () => {
  test("are visible to all keys, and changed only by the administrator", async () => {
    await using fixture = await storeFixture();
    await imports(fixture, fixture.store, "shared:1", "administrator");
    const alice = fixture.store.of(ALICE);
    expect(await alice.inspect("shared:1")).toMatchObject({ reference: "shared:1", shared: true });
    await expect(alice.remove("shared:1")).rejects.toMatchObject({ code: "PERMISSION_DENIED" });
    await imports(fixture, alice, "shared:1", "alice");
    expect((await alice.list()).map(({ reference, shared }) => [reference, shared])).toEqual([
      ["host", true],
      ["shared:1", false],
    ]);
    await alice.remove("shared:1");
    expect(await whoIn(fixture, alice, "shared:1")).toBe("administrator");
    expect(await whoIn(fixture, fixture.store.of(BOB), "shared:1")).toBe("administrator");
  });

  test("include all images of an older version", async () => {
    await using fixture = await storeFixture();
    const references = join(fixture.dataDir, "images", "references");
    await imports(fixture, fixture.store, "older:1", "older");
    const table = await ReferenceTable.open(references);
    const { createdAtMs: _, ...older } = (await table.list())[0] ?? expect.fail("no entry");
    await table.put(older);
    expect(await readdir(references)).toHaveLength(1);
    const reopened = await fixture.open();
    expect(await reopened.of(ALICE).inspect("older:1")).toMatchObject({
      shared: true,
      createdAtMs: 1_700_000_000_000,
    });
    expect(await table.find(parseReference("older:1"), "alice")).toEqual(older);
  });
});
