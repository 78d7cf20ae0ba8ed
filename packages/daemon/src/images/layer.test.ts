/** Unpacking root file systems: what is kept, dropped and added. */
import { execFile } from "node:child_process";
import { lstatSync, readFileSync, readlinkSync, statSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { MOUNT_POINTS } from "./mount-points.ts";
import { debianRootfs } from "./testing/debian-rootfs.ts";
import { sha256 } from "./testing/oci-writer.ts";
import { storeFixture } from "./testing/store-fixture.ts";
import type { StoreFixture } from "./testing/store-fixture.ts";
import { directory, file, hardLink, symlink, tarOf } from "./testing/tar-writer.ts";
import type { TarItem } from "./testing/tar-writer.ts";

const run = promisify(execFile);
const BUSYBOX = "/bin/busybox";
const DEBIAN_CACHE = process.env["SANDKASTEN_TEST_CACHE"] ?? "/var/cache/sandkasten-test";

async function imported(fixture: StoreFixture, items: readonly TarItem[]): Promise<string> {
  await fixture.store.importRootfs("made:1", await fixture.archive(tarOf(items)));
  return (await fixture.store.rootfs("made:1")).path;
}

describe("importRootfs()", () => {
  test("keeps owners, modes, times, links and content", async () => {
    await using fixture = await storeFixture();
    const root = await imported(fixture, [
      directory("data", { uid: 7, gid: 8, mode: 0o1750, mtimeSeconds: 1_500_000_000 }),
      file("data/plain", "hello", {
        uid: 33,
        gid: 65_535,
        mode: 0o640,
        mtimeSeconds: 1_400_000_000,
      }),
      file("data/größe", "näme"),
      hardLink("data/second", "data/plain"),
      symlink("data/link", "../../../../etc/passwd"),
      hardLink("data/link2", "data/link"),
      file("made/without/parents", "x"),
    ]);
    const plain = lstatSync(join(root, "data/plain"));
    expect({
      uid: plain.uid,
      gid: plain.gid,
      mode: plain.mode & 0o7777,
      seconds: plain.mtimeMs / 1000,
    }).toEqual({
      uid: 33,
      gid: 65_535,
      mode: 0o640,
      seconds: 1_400_000_000,
    });
    const data = lstatSync(join(root, "data"));
    expect([data.uid, data.gid, data.mode & 0o7777, data.mtimeMs / 1000]).toEqual([
      7, 8, 0o1750, 1_500_000_000,
    ]);
    expect(lstatSync(join(root, "data/second")).ino).toBe(plain.ino);
    expect(readFileSync(join(root, "data/größe"), "utf8")).toBe("näme");
    expect(readlinkSync(join(root, "data/link"))).toBe("../../../../etc/passwd");
    expect(readlinkSync(join(root, "data/link2"))).toBe("../../../../etc/passwd");
    expect(lstatSync(join(root, "made/without")).mode & 0o7777).toBe(0o755);
  });

  test("reads names and sizes from extended headers", async () => {
    await using fixture = await storeFixture();
    const long = `${"deep/".repeat(30)}${"n".repeat(200)}`;
    const root = await imported(fixture, [
      file("short", "by pax", { pax: { path: long, uid: "12", mtime: "1300000000.5" } }),
      { path: "././@LongLink", type: "L", content: `gnu/${"g".repeat(150)}\0` },
      file("cut", "by gnu"),
    ]);
    expect(readFileSync(join(root, long), "utf8")).toBe("by pax");
    expect(lstatSync(join(root, long)).uid).toBe(12);
    expect(readFileSync(join(root, "gnu", "g".repeat(150)), "utf8")).toBe("by gnu");
  });

  test("drops set-id bits, and skips extended attributes", async () => {
    await using fixture = await storeFixture();
    const root = await imported(fixture, [
      file("su", "x", { mode: 0o6755, pax: { "SCHILY.xattr.security.capability": "\u0001" } }),
      directory("sgid", { mode: 0o2775 }),
    ]);
    expect(lstatSync(join(root, "su")).mode & 0o7777).toBe(0o755);
    expect(lstatSync(join(root, "sgid")).mode & 0o7777).toBe(0o775);
  });

  test("adds mount points, the code user, /work and the small files", async () => {
    await using fixture = await storeFixture();
    const root = await imported(fixture, [
      file("bin/sh", "x", { mode: 0o755 }),
      file("etc/passwd", "root:x:0:0::/root:/bin/sh"),
      file("etc/group", "root:x:0:\nsandbox:x:77:\n"),
      symlink("etc/resolv.conf", "../run/systemd/resolve/stub-resolv.conf"),
      symlink("var/run", "/run"),
      symlink("var/tmp", "/tmp"),
    ]);
    for (const { path, uid, gid, mode } of MOUNT_POINTS) {
      const stats = lstatSync(join(root, path));
      expect([path, stats.isDirectory(), stats.uid, stats.gid]).toEqual([path, true, uid, gid]);
      if (!["etc", "var"].includes(path)) expect([path, stats.mode & 0o7777]).toEqual([path, mode]);
    }
    expect(readlinkSync(join(root, "work"))).toBe("workspace");
    expect(readlinkSync(join(root, "var/run"))).toBe("/run");
    expect(readFileSync(join(root, "etc/passwd"), "utf8")).toBe(
      "root:x:0:0::/root:/bin/sh\nsandbox:x:1000:1000:Sandbox:/home/sandbox:/bin/sh\n",
    );
    expect(readFileSync(join(root, "etc/group"), "utf8")).toBe(
      "root:x:0:\nsandbox:x:77:\nsandbox_:x:1000:\n",
    );
    for (const name of ["resolv.conf", "hosts", "hostname"]) {
      expect(lstatSync(join(root, "etc", name)).isFile()).toBe(true);
    }
  });

  test("keeps the image's own user with the code user's id, and replaces an empty /work", async () => {
    await using fixture = await storeFixture();
    const passwd = "root:x:0:0::/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\n";
    const root = await imported(fixture, [file("etc/passwd", passwd), directory("work")]);
    expect(readFileSync(join(root, "etc/passwd"), "utf8")).toBe(passwd);
    expect(readlinkSync(join(root, "work"))).toBe("workspace");
  });

  test("adds everything that an image of one static program without a shell needs", async () => {
    await using fixture = await storeFixture();
    const root = await imported(fixture, [file("busybox", readFileSync(BUSYBOX), { mode: 0o755 })]);
    const { stdout } = await run("chroot", ["--userspec=1000:1000", root, "/busybox", "id", "-un"]);
    expect(stdout).toBe("sandbox\n");
    expect(readFileSync(join(root, "etc/passwd"), "utf8")).toContain(
      "sandbox:x:1000:1000:Sandbox:/home/sandbox:/sbin/nologin",
    );
  });

  test("produces a busybox image that runs", async () => {
    await using fixture = await storeFixture();
    const root = await imported(fixture, [
      directory("bin"),
      file("bin/busybox", readFileSync(BUSYBOX), { mode: 0o755 }),
      ...["sh", "ls", "id", "echo"].map((name) => hardLink(`bin/${name}`, "bin/busybox")),
    ]);
    const { stdout } = await run("chroot", [
      "--userspec=1000:1000",
      root,
      "/bin/sh",
      "-c",
      "id -u; ls -d /work/.",
    ]);
    expect(stdout).toBe("1000\n/work/.\n");
  });

  test("skips what is below /dev and reports the digest of the tarball", async () => {
    await using fixture = await storeFixture();
    const tarball = tarOf([
      directory("dev"),
      { path: "dev/null", type: "3" },
      symlink("dev/fd", "/proc/self/fd"),
      file("x", "123"),
    ]);
    const info = await fixture.store.importRootfs("made:1", await fixture.archive(tarball));
    expect(info).toMatchObject({
      reference: "made:1",
      digest: sha256(tarball),
      source: "rootfs",
      env: {},
    });
    expect(info.sizeBytes).toBeGreaterThanOrEqual(3);
    const { path, binds } = await fixture.store.rootfs("made:1");
    expect(statSync(join(path, "dev")).nlink).toBe(2);
    expect(binds).toEqual([]);
  });

  test("reports progress up to the size of the tarball", async () => {
    await using fixture = await storeFixture();
    const tarball = tarOf([file("big", Buffer.alloc(3_000_000, 7))]);
    const seen: { phase: string; done: number; total?: number }[] = [];
    await fixture.store.importRootfs("made:1", await fixture.archive(tarball), (progress) =>
      seen.push(progress),
    );
    expect(seen[0]).toEqual({ phase: "unpack", done: 0, total: tarball.length });
    expect(seen.at(-1)).toEqual({ phase: "unpack", done: tarball.length, total: tarball.length });
    expect(seen.map(({ done }) => done)).toEqual(
      seen.map(({ done }) => done).sort((a, b) => a - b),
    );
  });
});

test(
  "a real Debian root file system is imported completely and runs",
  { timeout: 15 * 60_000 },
  async (context) => {
    const tarball = await debianRootfs(DEBIAN_CACHE);
    if (tarball === undefined) {
      context.skip(`Debian cannot be built and kept in ${DEBIAN_CACHE}`);
      return;
    }
    await using fixture = await storeFixture();
    await fixture.store.importRootfs("debian:bookworm", tarball);
    const { path } = await fixture.store.rootfs("debian:bookworm");
    const script =
      "id -un; . /etc/os-release; echo $VERSION_CODENAME; dpkg --verify --verify-format rpm base-files coreutils bash";
    const { stdout } = await run("chroot", [
      "--userspec=1000:1000",
      path,
      "/bin/bash",
      "-c",
      script,
    ]);
    expect(stdout).toBe("sandbox\nbookworm\n");
  },
);
