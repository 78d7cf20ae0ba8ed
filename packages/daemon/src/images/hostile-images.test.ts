/** Images that try to escape or to exhaust the machine. Each must be refused or stay inside. */
import { lstatSync, existsSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { ociArchive } from "./testing/oci-writer.ts";
import { storeFixture } from "./testing/store-fixture.ts";
import { directory, file, hardLink, symlink, tarOf } from "./testing/tar-writer.ts";
import type { TarItem } from "./testing/tar-writer.ts";

/** Images that try to reach the directory `outside`; each must be refused with these words. */
const REFUSED: Record<string, [(outside: string) => TarItem[], RegExp]> = {
  "a path with ..": [
    (out) => [file(`../../../../../../..${out}/sentinel`, "evil")],
    /path with "\.\."/,
  ],
  "a path with .. inside": [() => [file("a/b/../../../x", "evil")], /path with "\.\."/],
  "a file through a symlink": [
    (out) => [symlink("link", out), file("link/sentinel", "evil")],
    /is below/,
  ],
  "a file through two symlinks": [
    (out) => [symlink("a", "b"), symlink("b", out), file("a/sentinel", "evil")],
    /is below/,
  ],
  "a file through a relative symlink": [
    (out) => [symlink("link", `../../../../../../../..${out}`), file("link/x", "evil")],
    /is below/,
  ],
  "a directory through a symlink": [
    (out) => [symlink("link", out), directory("link/sub", { mode: 0o777, uid: 5 })],
    /is below/,
  ],
  "a symlink through a symlink": [
    (out) => [symlink("link", out), symlink("link/new", "/")],
    /is below/,
  ],
  "a hard link through a symlink": [
    (out) => [symlink("link", out), hardLink("got", "link/sentinel")],
    /not an earlier file/,
  ],
  "a hard link into a symlinked directory": [
    (out) => [file("x", "evil"), symlink("link", out), hardLink("link/new", "x")],
    /is below/,
  ],
  "a hard link upwards": [
    (out) => [hardLink("got", `../../../../../../..${out}/sentinel`)],
    /path with "\.\."/,
  ],
  "a hard link to a directory": [
    () => [directory("d"), hardLink("got", "d")],
    /not an earlier file/,
  ],
  "a block device": [() => [{ path: "disk", type: "4" }], /device node at "\/disk"/],
  "a character device": [() => [{ path: "etc/mem", type: "3" }], /device node/],
  "a device beside /dev": [() => [{ path: "./dev2/sda", type: "4" }], /device node/],
  "a named pipe": [() => [{ path: "pipe", type: "6" }], /named pipe/],
  "a file as root": [
    () => [file("./", "x", { type: "2", linkTarget: "/" })],
    /root is not a directory/,
  ],
  "an owner above 65535": [() => [file("x", "x", { uid: 65_536 })], /65536:0/],
  "an owner of a billion": [() => [file("x", "x", { gid: 4_000_000_000 })], /4000000000/],
  "an old sparse file": [() => [{ path: "s", type: "S" }], /sparse/],
  "a new sparse file": [
    () => [
      file("s", "x", { pax: { "GNU.sparse.major": "1", "GNU.sparse.realsize": "9999999999999" } }),
    ],
    /sparse/,
  ],
  "a name with NUL in an extended header": [
    () => [file("x", "x", { pax: { path: "../\0x" } })],
    /path with "\.\."/,
  ],
  "an extended header that leads upwards": [
    () => [file("x", "x", { pax: { path: "../../x" } })],
    /path with "\.\."/,
  ],
  "a link target in an extended header that leads upwards": [
    () => [{ ...hardLink("x", "y"), pax: { linkpath: "../../y" } }],
    /path with "\.\."/,
  ],
  "a symlink to nowhere": [() => [symlink("x", "")], /invalid target/],
  "a part of a name that is too long": [
    () => [file("x", "x", { pax: { path: `a/${"n".repeat(300)}` } })],
    /too long/,
  ],
  "nothing at all": [() => [], /is empty/],
};

/** Mount points of a kind that must not be mounted over. */
for (const path of [
  "dev",
  "proc",
  "sys",
  "tmp",
  "run",
  ".sandkasten",
  "etc",
  "root",
  "home",
  "home/sandbox",
  "workspace",
  "var",
]) {
  REFUSED[`/${path} as a symlink`] = [
    (out) => [symlink(path, out)],
    new RegExp(`its /${path} is a symlink`),
  ];
  REFUSED[`/${path} as a file`] = [() => [file(path, "x")], new RegExp(`its /${path} is a file`)];
}
REFUSED["/work as a symlink elsewhere"] = [
  (out) => [symlink("work", out)],
  /contains \/work \(symlink\)/,
];
REFUSED["/work with something in it"] = [
  () => [file("work/x", "x")],
  /contains \/work \(directory\)/,
];
REFUSED["/etc/passwd as a directory"] = [
  () => [directory("etc/passwd")],
  /its \/etc\/passwd is a directory/,
];
REFUSED["/etc/hosts as a directory"] = [
  () => [file("etc/hosts/x", "x")],
  /its \/etc\/hosts is a directory/,
];

describe("a hostile root file system is refused, and nothing outside changes:", () => {
  test.each(Object.entries(REFUSED))("%s", async (_, [items, words]) => {
    await using fixture = await storeFixture();
    const before = fixture.outsideState();
    const archive = await fixture.archive(tarOf(items(fixture.outside)));
    await expect(fixture.store.importRootfs("evil", archive)).rejects.toMatchObject({
      code: "INVALID_IMAGE",
      message: expect.stringMatching(words),
    });
    expect(fixture.outsideState()).toBe(before);
    expect(fixture.temporaries()).toEqual([]);
    await expect(fixture.store.rootfs("evil")).rejects.toMatchObject({ code: "INVALID_IMAGE" });
  });
});

/** Harmless once confined; `check` looks where it went. */
const CONFINED: Record<
  string,
  [(outside: string) => TarItem[], (root: string, outside: string) => void]
> = {
  "an absolute path": [
    (out) => [file(`${out}/sentinel`, "mine")],
    (root, out) => expect(existsSync(join(root, out, "sentinel"))).toBe(true),
  ],
  "a file in the place of a symlink": [
    (out) => [symlink("x", join(out, "sentinel")), file("x", "mine")],
    (root) => expect(lstatSync(join(root, "x")).isFile()).toBe(true),
  ],
  "a directory in the place of a symlink": [
    (out) => [
      symlink("x", out),
      directory("x", { mode: 0o700, uid: 9 }),
      file("x/sentinel", "mine"),
    ],
    (root) => expect(lstatSync(join(root, "x")).isDirectory()).toBe(true),
  ],
  "a symlink in the place of a directory": [
    (out) => [file("x/a/b", "mine"), symlink("x", out)],
    (root) => expect(lstatSync(join(root, "x")).isSymbolicLink()).toBe(true),
  ],
  "an absolute hard link": [
    (out) => [file(`${out}/sentinel`, "mine"), hardLink("got", `${out}/sentinel`)],
    (root) => expect(lstatSync(join(root, "got")).nlink).toBe(2),
  ],
  "account files that are symlinks": [
    (out) => [
      symlink("etc/passwd", join(out, "sentinel")),
      symlink("etc/hosts", join(out, "sentinel")),
    ],
    (root) => expect(lstatSync(join(root, "etc/passwd")).isFile()).toBe(true),
  ],
  "an account file that is a second name of another file": [
    () => [file("x", "root:x:0:0:::"), hardLink("etc/passwd", "x")],
    (root) => expect(lstatSync(join(root, "x")).size).toBe("root:x:0:0:::".length),
  ],
  "things below a /dev that is replaced in the end": [
    (out) => [
      symlink("dev", out),
      file("dev/sentinel", "evil"),
      { path: "dev/sda", type: "4" },
      directory("dev"),
    ],
    (root) => expect(lstatSync(join(root, "dev")).isDirectory()).toBe(true),
  ],
};

describe("an unusual root file system stays inside:", () => {
  test.each(Object.entries(CONFINED))("%s", async (_, [items, check]) => {
    await using fixture = await storeFixture();
    const before = fixture.outsideState();
    await fixture.store.importRootfs("odd", await fixture.archive(tarOf(items(fixture.outside))));
    check((await fixture.store.rootfs("odd")).path, fixture.outside);
    expect(fixture.outsideState()).toBe(before);
  });
});

describe("removals in a hostile layer", () => {
  const base = tarOf([file("keep", "x"), directory("etc")]);
  test.each<[string, (outside: string) => TarItem[]]>([
    [".wh... does not remove the parent", () => [file("etc/.wh...", "")]],
    [".wh.. does not remove its directory", () => [file("etc/.wh..", "")]],
    [".wh. alone names nothing", () => [file(".wh.", "")]],
  ])("%s", async (_, items) => {
    await using fixture = await storeFixture();
    const before = fixture.outsideState();
    const { archive } = ociArchive([{ bytes: base }, { bytes: tarOf(items(fixture.outside)) }]);
    await expect(
      fixture.store.importOciArchive("evil", await fixture.archive(archive)),
    ).rejects.toMatchObject({
      code: "INVALID_IMAGE",
      message: expect.stringContaining("whiteout"),
    });
    expect(fixture.outsideState()).toBe(before);
  });

  test("do not follow a symlink", async () => {
    await using fixture = await storeFixture();
    const before = fixture.outsideState();
    const lower = tarOf([symlink("link", fixture.outside)]);
    const upper = tarOf([file("link/.wh.sentinel", ""), file("link/.wh..wh..opq", "")]);
    const { archive } = ociArchive([{ bytes: lower }, { bytes: upper }]);
    await fixture.store.importOciArchive("odd", await fixture.archive(archive));
    expect(fixture.outsideState()).toBe(before);
  });

  test("a later layer cannot write through a symlink of an earlier layer", async () => {
    await using fixture = await storeFixture();
    const before = fixture.outsideState();
    const { archive } = ociArchive([
      { bytes: tarOf([symlink("link", fixture.outside)]) },
      { bytes: tarOf([file("link/sentinel", "evil")]) },
    ]);
    await expect(
      fixture.store.importOciArchive("evil", await fixture.archive(archive)),
    ).rejects.toMatchObject({
      message: expect.stringContaining("is below"),
    });
    expect(fixture.outsideState()).toBe(before);
  });
});

describe("a bomb is refused and leaves nothing behind:", () => {
  const limits = {
    totalBytes: 1_000_000,
    fileBytes: 400_000,
    entries: 50,
    layers: 3,
    pathDepth: 10,
    archiveBytes: 500_000,
  };
  const zeros = (bytes: number): Buffer => Buffer.alloc(bytes);

  test.each<[string, Buffer, RegExp]>([
    [
      "one file too large",
      tarOf([file("big", zeros(400_001))]),
      /the limit for one file is 400000/,
    ],
    [
      "a file that only claims to be large",
      tarOf([{ path: "x", claimedBytes: 10 ** 13 }]),
      /the limit for one file/,
    ],
    [
      "a size beyond all numbers",
      tarOf([file("x", "x", { pax: { size: "99999999999999999999" } })]),
      /cannot be read/,
    ],
    [
      "a small archive that grows",
      gzipSync(tarOf([1, 2, 3].map((n) => file(`f${n}`, zeros(390_000))))),
      /exceeds the limit of 1000000 bytes/,
    ],
    [
      "endless extended headers",
      tarOf(
        Array.from({ length: 300 }, () => ({
          path: "x",
          type: "x" as const,
          content: `4096 comment=${"c".repeat(4082)}\n`,
        })),
      ),
      /exceeds the limit of 1000000/,
    ],
    [
      "a huge extended header",
      tarOf([{ path: "x", type: "x", claimedBytes: 2 ** 30 }]),
      /extended header of 1073741824/,
    ],
    [
      "too many entries",
      tarOf(Array.from({ length: 51 }, (_, n) => file(`f${n}`, ""))),
      /limit of 50 files/,
    ],
    [
      "directories that only paths of files name",
      tarOf(Array.from({ length: 6 }, (_, n) => file(`${n}/${"d/".repeat(8)}x`, ""))),
      /limit of 50 files/,
    ],
    [
      "an extended header of many records",
      tarOf([{ path: "x", type: "x", content: "5 a=\n".repeat(1_001) }]),
      /more than 1000 records/,
    ],
    ["a path too deep", tarOf([file("d/".repeat(11) + "x", "")]), /path with 12 parts/],
  ])("%s", async (_, tarball, words) => {
    await using fixture = await storeFixture({ limits });
    await expect(
      fixture.store.importRootfs("bomb", await fixture.archive(tarball)),
    ).rejects.toMatchObject({
      code: "INVALID_IMAGE",
      message: expect.stringMatching(words),
    });
    expect(fixture.temporaries()).toEqual([]);
  });

  test("layers that are too many, or too large together", async () => {
    await using fixture = await storeFixture({ limits });
    const layer = (n: number): { bytes: Buffer; mediaType: string } => ({
      bytes: gzipSync(tarOf([file(`f${n}`, zeros(390_000))])),
      mediaType: "application/vnd.oci.image.layer.v1.tar+gzip",
    });
    const many = ociArchive([1, 2, 3, 4].map(layer));
    await expect(
      fixture.store.importOciArchive("bomb", await fixture.archive(many.archive)),
    ).rejects.toMatchObject({
      message: expect.stringContaining("has 4 layers"),
    });
    const large = ociArchive([1, 2, 3].map(layer));
    await expect(
      fixture.store.importOciArchive("bomb", await fixture.archive(large.archive)),
    ).rejects.toMatchObject({
      message: expect.stringContaining("exceeds the limit of 1000000 bytes"),
    });
  });

  test("an OCI archive whose blobs are too large", async () => {
    await using fixture = await storeFixture({ limits });
    const { archive } = ociArchive([{ bytes: tarOf([file("x", zeros(600_000))]) }]);
    await expect(
      fixture.store.importOciArchive("bomb", await fixture.archive(gzipSync(archive))),
    ).rejects.toMatchObject({
      message: expect.stringContaining("500000"),
    });
    expect(fixture.temporaries()).toEqual([]);
  });
});
