/** What the store keeps, shares, survives and frees. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, lstatSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import { ownerTag } from "./owner-tag.ts";
import { sha256 } from "./testing/oci-writer.ts";
import { storeFixture, TOOLS } from "./testing/store-fixture.ts";
import { file, tarOf } from "./testing/tar-writer.ts";

const run = promisify(execFile);
const HERE = import.meta.dirname;

/** A separate program that imports a tarball and prints the digest. */
const IMPORTER = `
import { LocalImageStore } from ${JSON.stringify(join(HERE, "local-image-store.ts"))};
const [dataDir, reference, tarball] = process.argv.slice(1);
const store = await LocalImageStore.open({ dataDir, policy: { allowedImages: [] }, tools: ${JSON.stringify(TOOLS)}, nowMs: Date.now });
const info = await store.importRootfs(reference, tarball, ({ done }) => { if (done > 0) console.error("unpacking"); });
console.log(info.digest);
`;
const importerArgs = [
  "--disable-warning=ExperimentalWarning",
  "--input-type=module-typescript",
  "-e",
  IMPORTER,
  "--",
];

describe("resolve()", () => {
  test("falls back to host for a short name whose image is missing, and says so", async () => {
    await using fixture = await storeFixture();
    for (const requested of [
      "python",
      "sandbox-runtime:python",
      "node",
      "base",
      "linux",
      "bash",
      "shell",
      "sandbox-runtime:base",
    ]) {
      await expect(fixture.store.resolve(requested)).resolves.toMatchObject({
        reference: "host",
        requested,
        isSubstitute: true,
      });
    }
    await expect(fixture.store.resolve("host")).resolves.toMatchObject({
      reference: "host",
      requested: "host",
      isSubstitute: false,
    });
  });

  test("uses the image of a short name once it exists, under all its names", async () => {
    await using fixture = await storeFixture();
    await fixture.store.importRootfs(
      "sandbox-runtime:python",
      await fixture.archive(tarOf([file("x", "x")])),
    );
    for (const requested of [
      "python",
      "sandbox-runtime:python",
      "python:3.11-slim",
      "docker.io/library/python:3.11-slim",
    ]) {
      await expect(fixture.store.resolve(requested)).resolves.toMatchObject({
        reference: "python:3.11-slim",
        requested,
        isSubstitute: false,
      });
    }
  });

  test("prefers our own image for a short name to the public one", async () => {
    await using fixture = await storeFixture();
    const archive = await fixture.archive(tarOf([file("x", "public")]));
    const own = await fixture.archive(tarOf([file("x", "own")]));
    await fixture.store.importRootfs("python:3.11-slim", archive);
    const { reference, digest } = await fixture.store.importRootfs(
      "docker.io/sandbox-runtime:python",
      own,
    );
    expect(reference).toBe("sandbox-runtime:python");
    for (const name of ["python", "sandbox-runtime:python"]) {
      await expect(fixture.store.resolve(name)).resolves.toMatchObject({ reference, digest });
      expect(await fixture.store.ensure(name)).toMatchObject({ reference, digest });
      expect((await fixture.store.rootfs(name)).digest).toBe(digest);
    }
    await expect(fixture.store.resolve("python:3.11-slim")).resolves.toMatchObject({
      reference: "python:3.11-slim",
    });
    // A key's own images take precedence over shared ones.
    const tenant = fixture.store.of({ name: "tenant", maxBytes: 1 << 20 });
    await expect(tenant.resolve("python")).resolves.toMatchObject({ digest });
    const theirs = await tenant.importRootfs("python", archive);
    await expect(tenant.resolve("python")).resolves.toMatchObject({
      reference: "python:3.11-slim",
      digest: theirs.digest,
    });
    await fixture.store.remove("python");
    await expect(fixture.store.resolve("python")).resolves.toMatchObject({
      reference: "python:3.11-slim",
    });
  });

  test("refuses a full reference that is missing and says what to do", async () => {
    await using fixture = await storeFixture();
    await expect(fixture.store.resolve("alpine:3.19")).rejects.toMatchObject({
      code: "INVALID_IMAGE",
      message: expect.stringContaining("Pull it from a registry, import an archive"),
    });
  });
});

describe("the store", () => {
  test("lists, inspects and removes; garbage is what has no name and no sandbox", async () => {
    await using fixture = await storeFixture();
    const tarball = tarOf([file("x", Buffer.alloc(10_000))]);
    const archive = await fixture.archive(tarball);
    const info = await fixture.store.importRootfs("one:1", archive);
    await fixture.store.importRootfs("two:1", archive);
    expect((await fixture.store.list()).map(({ reference }) => reference)).toEqual([
      "host",
      "one:1",
      "two:1",
    ]);
    expect(await fixture.store.inspect("one:1")).toEqual(info);
    const { path } = await fixture.store.rootfs("one:1");

    await fixture.store.remove("one:1");
    await expect(fixture.store.remove("one:1")).rejects.toMatchObject({ code: "INVALID_IMAGE" });
    expect((await fixture.store.collectGarbage(new Set())).removed).toBe(0);
    await fixture.store.remove("two:1");
    await expect(fixture.store.rootfs("two:1")).rejects.toMatchObject({ code: "INVALID_IMAGE" });
    expect((await fixture.store.collectGarbage(new Set([info.digest]))).removed).toBe(0);
    expect(existsSync(path)).toBe(true);
    expect(await fixture.store.collectGarbage(new Set())).toEqual({
      removed: 1,
      freedBytes: info.sizeBytes,
    });
    expect(existsSync(path)).toBe(false);
  });

  test("cannot lose host", async () => {
    await using fixture = await storeFixture();
    await expect(fixture.store.remove("host")).rejects.toMatchObject({ code: "INVALID_IMAGE" });
    await expect(fixture.store.importRootfs("host", "/dev/null")).rejects.toMatchObject({
      code: "INVALID_IMAGE",
    });
  });

  test("is not accessible to other users of the machine", async () => {
    await using fixture = await storeFixture();
    await fixture.store.importRootfs(
      "one:1",
      await fixture.archive(tarOf([file("x", "x", { mode: 0o777 })])),
    );
    const { path } = await fixture.store.rootfs("one:1");
    await run("chmod", ["755", fixture.directory]);
    await expect(run("cat", [join(path, "x")], { uid: 65_534, gid: 65_534 })).rejects.toMatchObject(
      {
        stderr: expect.stringContaining("Permission denied"),
      },
    );
    expect(lstatSync(join(fixture.dataDir, "images")).mode & 0o777).toBe(0o700);
  });

  test("is complete when it is opened again", async () => {
    await using fixture = await storeFixture();
    const info = await fixture.store.importRootfs(
      "one:1",
      await fixture.archive(tarOf([file("x", "x")])),
    );
    expect(await (await fixture.open()).inspect("one:1")).toEqual(info);
  });

  test("a name that is imported again refers to the newer content", async () => {
    await using fixture = await storeFixture();
    await fixture.store.importRootfs("one:1", await fixture.archive(tarOf([file("x", "old")])));
    await fixture.store.importRootfs("one:1", await fixture.archive(tarOf([file("x", "new")])));
    expect(readFileSync(join((await fixture.store.rootfs("one:1")).path, "x"), "utf8")).toBe("new");
    expect((await fixture.store.collectGarbage(new Set())).removed).toBe(1);
  });

  test("returns INVALID_IMAGE if the files of a name are gone, and an import restores them", async () => {
    await using fixture = await storeFixture();
    const archive = await fixture.archive(tarOf([file("x", "x")]));
    const { digest } = await fixture.store.importRootfs("one:1", archive);
    await run("rm", ["-r", join(fixture.dataDir, "images", digest.slice(7))]);
    await expect(fixture.store.resolve("one:1")).rejects.toMatchObject({ code: "INVALID_IMAGE" });
    await fixture.store.importRootfs("one:1", archive);
    await expect(fixture.store.resolve("one:1")).resolves.toMatchObject({ reference: "one:1" });
  });
});

describe("imports at the same time", () => {
  test("of one tarball unpack it once, and report the progress to all callers", async () => {
    await using fixture = await storeFixture();
    const tarball = tarOf([file("big", randomBytes(2_000_000))]);
    const archive = await fixture.archive(tarball);
    const seen = [0, 0, 0, 0];
    const infos = await Promise.all(
      seen.map(async (_, n) => {
        const pending = fixture.store.importRootfs(`name-${n}`, archive, () => {
          seen[n] = (seen[n] ?? 0) + 1;
        });
        await sleep(0);
        expect(fixture.temporaries().length).toBeLessThanOrEqual(1);
        return await pending;
      }),
    );
    expect(new Set(infos.map(({ digest }) => digest))).toEqual(new Set([sha256(tarball)]));
    expect(Math.min(...seen)).toBeGreaterThan(0);
    expect(fixture.temporaries()).toEqual([]);
  });

  test("of several processes leave one complete image and no garbage", async () => {
    await using fixture = await storeFixture();
    const tarball = tarOf([file("big", randomBytes(1_000_000)), file("last", "end")]);
    const archive = await fixture.archive(tarball);
    const results = await Promise.all(
      [1, 2, 3].map(
        async (n) =>
          await run(process.execPath, [...importerArgs, fixture.dataDir, `name-${n}`, archive]),
      ),
    );
    expect(results.map(({ stdout }) => stdout.trim())).toEqual(Array(3).fill(sha256(tarball)));
    expect((await fixture.store.list()).map(({ reference }) => reference)).toEqual([
      "host",
      "name-1:latest",
      "name-2:latest",
      "name-3:latest",
    ]);
    expect(readFileSync(join((await fixture.store.rootfs("name-2")).path, "last"), "utf8")).toBe(
      "end",
    );
    expect(fixture.temporaries()).toEqual([]);
  });

  test("with garbage collections never lose an image that has a name", async () => {
    await using fixture = await storeFixture();
    const archive = await fixture.archive(tarOf([file("x", "x")]));
    const other = await fixture.open();
    for (let round = 0; round < 15; round += 1) {
      await Promise.all([
        fixture.store.importRootfs("one:1", archive),
        other.collectGarbage(new Set()),
        sleep(round % 5).then(async () => await other.collectGarbage(new Set())),
      ]);
      expect(existsSync(join((await fixture.store.rootfs("one:1")).path, "x"))).toBe(true);
      await fixture.store.remove("one:1");
    }
  });
});

describe("an import that is interrupted", () => {
  test("by a kill leaves a temporary directory, which the next start removes", async () => {
    await using fixture = await storeFixture();
    const items = Array.from({ length: 4000 }, (_, n) =>
      file(`d${n % 50}/f${n}`, Buffer.alloc(20_000, n)),
    );
    const archive = await fixture.archive(tarOf(items));
    const child = spawn(process.execPath, [...importerArgs, fixture.dataDir, "killed", archive], {
      stdio: ["ignore", "ignore", "pipe"],
    });
    const exited = once(child, "exit");
    await once(child.stderr, "data");
    child.kill("SIGKILL");
    await exited;
    expect(fixture.temporaries()).toHaveLength(1);
    await expect(fixture.store.rootfs("killed")).rejects.toMatchObject({ code: "INVALID_IMAGE" });
    const next = await fixture.open();
    expect(fixture.temporaries()).toEqual([]);
    await next.importRootfs("killed", archive);
    expect(
      readdirSync((await next.rootfs("killed")).path).filter((name) => /^d\d/.test(name)),
    ).toHaveLength(50);
  });

  test("is not removed while its process is alive", async () => {
    await using fixture = await storeFixture();
    const mine = join(fixture.dataDir, "images", `tmp-${await ownerTag(process.pid)}-x`);
    const reused = join(fixture.dataDir, "images", `tmp-${process.pid}-1-x`);
    mkdirSync(mine);
    mkdirSync(reused);
    await fixture.open();
    expect([existsSync(mine), existsSync(reused)]).toEqual([true, false]);
  });

  test("by a full disk says so, leaves nothing, and works once there is space", async () => {
    await using fixture = await storeFixture();
    mkdirSync(fixture.dataDir, { recursive: true });
    await run("mount", ["-t", "tmpfs", "-o", "size=4m", "tmpfs", fixture.dataDir]);
    try {
      const store = await fixture.open();
      const archive = await fixture.archive(tarOf([file("big", randomBytes(6_000_000))]));
      await expect(store.importRootfs("big", archive)).rejects.toMatchObject({
        code: "STORAGE_FULL",
        status: 507,
      });
      expect(fixture.temporaries()).toEqual([]);
      await store.importRootfs("small", await fixture.archive(tarOf([file("x", "x")])));
    } finally {
      await run("umount", [fixture.dataDir]);
    }
  });

  test("because the tarball changes is refused", async () => {
    await using fixture = await storeFixture();
    const archive = await fixture.archive(tarOf([file("big", randomBytes(1_000_000))]));
    let touched: Promise<unknown> | undefined;
    await expect(
      fixture.store.importRootfs("changing", archive, () => {
        touched ??= run("touch", [archive]);
      }),
    ).rejects.toMatchObject({
      code: "INVALID_IMAGE",
      message: expect.stringContaining("changed while it was being read"),
    });
    await touched;
  });
});
