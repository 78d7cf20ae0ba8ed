/** Images of several layers, from archives. */
import { execFile } from "node:child_process";
import { existsSync, readdirSync, readFileSync, lstatSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { gzipSync, zstdCompressSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { machineArchitecture } from "./image-plan.ts";
import { dockerSaveArchive, ociArchive, sha256 } from "./testing/oci-writer.ts";
import type { OciOptions } from "./testing/oci-writer.ts";
import { storeFixture } from "./testing/store-fixture.ts";
import type { StoreFixture } from "./testing/store-fixture.ts";
import { directory, file, hardLink, symlink, tarOf } from "./testing/tar-writer.ts";
import type { TarItem } from "./testing/tar-writer.ts";

const run = promisify(execFile);

async function layered(fixture: StoreFixture, layers: TarItem[][]): Promise<string> {
  const { archive } = ociArchive(layers.map((items) => ({ bytes: tarOf(items) })));
  await fixture.store.importOciArchive("app:1", await fixture.archive(archive));
  return (await fixture.store.rootfs("app:1")).path;
}

describe("importOciArchive()", () => {
  test("applies layers in order and removes what they delete", async () => {
    await using fixture = await storeFixture();
    const root = await layered(fixture, [
      [
        file("a/one", "1"),
        file("a/two", "1"),
        file("gone/x", "1"),
        file("opaque/old", "1"),
        file("opaque/kept", "1"),
      ],
      [
        file("a/one", "2"),
        file(".wh.gone", ""),
        file("opaque/.wh..wh..opq", ""),
        file("opaque/new", "2"),
      ],
      [hardLink("a/three", "a/two"), file("a/.wh.one", "")],
    ]);
    expect(readdirSync(join(root, "a")).sort()).toEqual(["three", "two"]);
    expect(existsSync(join(root, "gone"))).toBe(false);
    expect(readdirSync(join(root, "opaque"))).toEqual(["new"]);
    expect(lstatSync(join(root, "a/three")).ino).toBe(lstatSync(join(root, "a/two")).ino);
  });

  test("deletions keep what their own layer adds, wherever it is in the layer", async () => {
    await using fixture = await storeFixture();
    const root = await layered(fixture, [
      [file("d/old", "1"), file("d/sub/old", "1"), file("e/old", "1"), file("e/both", "1")],
      [
        file("d/new", "2"),
        file("d/sub/new", "2"),
        file("d/.wh..wh..opq", ""),
        file("e/both", "2"),
        file("e/fresh", "2"),
        file(".wh.e", ""),
        file(".wh..wh.plnk", ""),
      ],
    ]);
    expect(readdirSync(join(root, "d")).sort()).toEqual(["new", "sub"]);
    expect(readdirSync(join(root, "d/sub"))).toEqual(["new"]);
    expect(readdirSync(join(root, "e")).sort()).toEqual(["both", "fresh"]);
    expect(readFileSync(join(root, "e/both"), "utf8")).toBe("2");
    expect(existsSync(join(root, ".wh..wh.plnk"))).toBe(false);
  });

  test("replaces files with directories and links, and back", async () => {
    await using fixture = await storeFixture();
    const root = await layered(
      fixture,
      [
        [
          file("f", "1"),
          file("d/x", "1"),
          symlink("l", "/nowhere"),
          file("shared", "1"),
          hardLink("other", "shared"),
        ],
        [
          file("f/y", "2"),
          file("d", "2"),
          directory("l"),
          file("l/z", "2"),
          file("shared", "changed"),
        ],
      ].map((items, index) => (index === 1 ? [directory("f"), ...items] : items)),
    );
    expect(readFileSync(join(root, "f/y"), "utf8")).toBe("2");
    expect(readFileSync(join(root, "d"), "utf8")).toBe("2");
    expect(readFileSync(join(root, "l/z"), "utf8")).toBe("2");
    expect(readFileSync(join(root, "other"), "utf8")).toBe("1");
  });

  test("reads compressed layers, the environment and the digest of the manifest", async () => {
    await using fixture = await storeFixture();
    const { archive, digest } = ociArchive(
      [
        {
          bytes: gzipSync(tarOf([file("one", "1")])),
          mediaType: "application/vnd.oci.image.layer.v1.tar+gzip",
        },
        {
          bytes: zstdCompressSync(tarOf([file("two", "2")])),
          mediaType: "application/vnd.oci.image.layer.v1.tar+zstd",
        },
      ],
      {
        env: [
          "PATH=/usr/bin",
          "A=b=c",
          "EMPTY=",
          "no-equals",
          "bad name=x",
          "NUL=a\0b",
          "__proto__=x",
        ],
      },
    );
    const info = await fixture.store.importOciArchive("app:1", await fixture.archive(archive));
    expect(info).toMatchObject({
      digest,
      source: "oci-archive",
      env: { PATH: "/usr/bin", A: "b=c", EMPTY: "" },
    });
    expect(Object.keys(info.env)).toHaveLength(3);
    const { path } = await fixture.store.rootfs("app:1");
    expect(readFileSync(join(path, "one"), "utf8") + readFileSync(join(path, "two"), "utf8")).toBe(
      "12",
    );
  });

  test("selects this machine's platform, and finds the image by either digest", async () => {
    await using fixture = await storeFixture();
    const made = ociArchive([{ bytes: tarOf([file("x", "x")]) }], { nestedIndex: true });
    const path = await fixture.archive(made.archive);
    const info = await fixture.store.importOciArchive("app:1", path);
    expect(info.digest).toBe(made.digest);
    for (const digest of [made.digest, made.sourceDigest]) {
      expect((await fixture.store.inspect(`app@${digest}`)).digest).toBe(made.digest);
    }
    await fixture.store.importOciArchive(`pinned@${made.sourceDigest}`, path);
    await expect(
      fixture.store.importOciArchive(`pinned@${sha256("else")}`, path),
    ).rejects.toMatchObject({
      code: "INVALID_IMAGE",
    });
    await expect(fixture.store.inspect(`app@${sha256("else")}`)).rejects.toMatchObject({
      code: "INVALID_IMAGE",
    });
  });

  test("reads the output of umoci and skopeo", async () => {
    await using fixture = await storeFixture();
    const tarball = await fixture.archive(tarOf([file("from-umoci", "yes", { uid: 3 })]));
    const layout = join(fixture.directory, "layout");
    await run("umoci", ["init", "--layout", layout]);
    await run("umoci", ["new", "--image", `${layout}:v1`]);
    await run("umoci", ["raw", "add-layer", "--image", `${layout}:v1`, tarball]);
    await run("umoci", ["config", "--image", `${layout}:v1`, "--config.env", "MADE=umoci"]);
    const archives = {
      oci: join(fixture.directory, "oci.tar"),
      docker: join(fixture.directory, "docker.tar"),
    };
    await run("skopeo", ["copy", `oci:${layout}:v1`, `oci-archive:${archives.oci}:v1`]);
    await run("skopeo", ["copy", `oci:${layout}:v1`, `docker-archive:${archives.docker}:app:v1`]);
    for (const [name, archive] of Object.entries(archives)) {
      const info = await fixture.store.importOciArchive(`${name}:v1`, archive);
      expect(info.env).toMatchObject({ MADE: "umoci" });
      const { path } = await fixture.store.rootfs(`${name}:v1`);
      expect(lstatSync(join(path, "from-umoci")).uid).toBe(3);
    }
  });

  test("reads older docker save archives, with layers that repeat", async () => {
    await using fixture = await storeFixture();
    const layer = tarOf([file("x", "1")]);
    const archive = dockerSaveArchive(
      [layer, tarOf([file(".wh.x", ""), file("y", "2")]), layer],
      ["app:1"],
    );
    const info = await fixture.store.importOciArchive("app:1", await fixture.archive(archive));
    expect(info.env).toEqual({ FROM: "docker-save" });
    const { path } = await fixture.store.rootfs("app:1");
    expect([existsSync(join(path, "x")), existsSync(join(path, "y"))]).toEqual([true, true]);
  });
});

describe("a hostile archive is refused, and nothing outside changes:", () => {
  const layer = { bytes: tarOf([file("x", "x")]) };
  const cases: [string, (outside: string) => Buffer, RegExp][] = [
    [
      "a layer that is not what its digest says",
      () =>
        made({ editBlobs: (blobs) => blobs.set(sha256(layer.bytes), tarOf([file("x", "evil")])) }),
      /layer 1 has the wrong digest/,
    ],
    [
      "a missing layer",
      () => made({ editBlobs: (blobs) => void blobs.delete(sha256(layer.bytes)) }),
      /missing/,
    ],
    [
      "a layer that is a link outside",
      (out) =>
        made({
          extraItems: [symlink(`blobs/sha256/${sha256(layer.bytes).slice(7)}`, `${out}/sentinel`)],
        }),
      /not a regular file/,
    ],
    [
      "a digest that is a path",
      () =>
        made({
          editManifest: (m) =>
            (m["layers"] = [
              {
                mediaType: "application/vnd.oci.image.layer.v1.tar",
                digest: "sha256:../../../../etc/passwd",
                size: 1,
              },
            ]),
        }),
      /not a sha256 digest/,
    ],
    [
      "a layer that is no archive",
      () =>
        made({
          editManifest: (m) =>
            (m["layers"] = [
              { ...(m["layers"] as object[])[0], mediaType: "application/vnd.in-toto+json" },
            ]),
        }),
      /not a file system archive/,
    ],
    [
      "layers that are no list",
      () => made({ editManifest: (m) => (m["layers"] = "x") }),
      /is malformed/,
    ],
    [
      "a manifest without configuration",
      () => made({ editManifest: (m) => delete m["config"] }),
      /unsupported kind/,
    ],
    [
      "another architecture",
      () => made({ architecture: machineArchitecture() === "amd64" ? "arm64" : "amd64" }),
      /is built for linux\//,
    ],
    ["an index that is no JSON", () => tarOf([file("index.json", "{")]), /not valid JSON/],
    ["an index that is a list", () => tarOf([file("index.json", "[]")]), /is malformed/],
    [
      "an index without images",
      () => tarOf([file("index.json", '{"manifests":[]}')]),
      /does not support/,
    ],
    [
      "an index that is a link outside",
      (out) => tarOf([symlink("index.json", `${out}/sentinel`)]),
      /neither index.json/,
    ],
    [
      "docker save with a path outside",
      (out) =>
        tarOf([
          file(
            "manifest.json",
            JSON.stringify([{ Config: `../../../..${out}/sentinel`, Layers: [] }]),
          ),
        ]),
      /path with "\.\."/,
    ],
    [
      "docker save with a link outside as configuration",
      (out) =>
        tarOf([
          symlink("c", `${out}/sentinel`),
          file("manifest.json", JSON.stringify([{ Config: "c", Layers: [] }])),
        ]),
      /not a regular file/,
    ],
    ["an archive without an image", () => tarOf([file("bin/sh", "x")]), /import it as one/],
  ];
  const made = (options: OciOptions): Buffer => ociArchive([layer], options).archive;

  test.each(cases)("%s", async (_, archive, words) => {
    await using fixture = await storeFixture();
    const before = fixture.outsideState();
    await expect(
      fixture.store.importOciArchive("evil", await fixture.archive(archive(fixture.outside))),
    ).rejects.toMatchObject({
      code: "INVALID_IMAGE",
      message: expect.stringMatching(words),
    });
    expect(fixture.outsideState()).toBe(before);
    expect(fixture.temporaries()).toEqual([]);
  });

  test("recognises a root file system that is an OCI archive", async () => {
    await using fixture = await storeFixture();
    await expect(
      fixture.store.importRootfs("x", await fixture.archive(made({}))),
    ).rejects.toMatchObject({
      message: expect.stringContaining("Import it as an OCI archive"),
    });
  });

  test("a pipe instead of an archive is refused without waiting", async () => {
    await using fixture = await storeFixture();
    const pipe = join(fixture.directory, "pipe");
    await run("mkfifo", [pipe]);
    for (const path of [pipe, "/dev/zero", fixture.directory, join(fixture.directory, "missing")]) {
      await expect(fixture.store.importRootfs("x", path)).rejects.toMatchObject({
        code: "INVALID_IMAGE",
      });
    }
  });
});
