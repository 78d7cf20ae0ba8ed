/** Importing archives into a real engine. */
import { randomBytes } from "node:crypto";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { gzipSync, zstdCompressSync } from "node:zlib";
import Docker from "dockerode";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { dockerUnderTest } from "../../../../../tests/support/docker-under-test.ts";
import type { ImagePolicy } from "../../images/local-image-store.ts";
import { dockerSaveArchive, ociArchive, sha256 } from "../../images/testing/oci-writer.ts";
import { directory, file, tarOf } from "../../images/testing/tar-writer.ts";
import type { ImageProgress } from "../../ports/image-store.ts";
import { DockerImageStore } from "./docker-image-store.ts";

const PREFIX = "import-test/";

let place: string;
let docker: Docker;
beforeAll(async () => {
  place = await mkdtemp(join(tmpdir(), "sandkasten-imports-"));
  docker = new Docker({ socketPath: dockerUnderTest().replace("unix://", "") });
});
afterAll(async () => {
  for (const { RepoTags } of await docker.listImages())
    for (const tag of RepoTags ?? [])
      if (tag.startsWith(PREFIX)) await docker.getImage(tag).remove();
  await rm(place, { recursive: true, force: true });
});

function store(policy: Partial<ImagePolicy> = {}): DockerImageStore {
  return new DockerImageStore({
    connection: { host: dockerUnderTest() },
    policy: { allowedImages: [], ...policy },
    pullPolicy: "never",
    dockerConfigDir: place,
    temporaryDir: place,
  });
}

let archives = 0;
async function archive(content: Buffer): Promise<string> {
  const path = join(place, `archive-${(archives += 1)}`);
  await writeFile(path, content);
  return path;
}

/** The content of a file in a container of the image, as a piece of a tar archive. */
async function fileOf(image: string, path: string): Promise<string> {
  const container = await docker.createContainer({ Image: image, Cmd: ["true"] });
  try {
    return await text(await container.getArchive({ path }));
  } finally {
    await container.remove();
  }
}

const refused = (part: string): unknown =>
  expect.objectContaining({ code: "INVALID_IMAGE", message: expect.stringContaining(part) });

describe("importRootfs()", () => {
  test("creates an image with our label, and reports its progress", async () => {
    const tarball = tarOf([directory("etc"), file("etc/greeting", "hello from the import")]);
    const news: ImageProgress[] = [];
    const reference = `${PREFIX}rootfs:1`;
    const info = await store().importRootfs(
      `docker.io/${reference}`,
      await archive(tarball),
      (progress) => news.push(progress),
    );
    expect(info).toMatchObject({ reference, source: "rootfs", env: {} });
    expect(info).toEqual(await store().ensure(reference));
    const { Id, Config } = await docker.getImage(reference).inspect();
    expect(info.digest).toBe(Id);
    expect(Config.Labels).toEqual({ "sandkasten.source": "rootfs" });
    expect(await fileOf(reference, "/etc/greeting")).toContain("hello from the import");
    expect(news.at(0)).toEqual({ phase: "unpack", done: 0, total: tarball.length });
    expect(news.at(-1)).toEqual({ phase: "unpack", done: tarball.length, total: tarball.length });
  });

  test.each([
    ["gzip", gzipSync],
    ["zstd", zstdCompressSync],
  ])("accepts archives compressed with %s", async (name, compress) => {
    const reference = `${PREFIX}${name}:1`;
    const tarball = tarOf([file("content", `packed by ${name}`)]);
    await store().importRootfs(reference, await archive(compress(tarball)));
    expect(await fileOf(reference, "/content")).toContain(`packed by ${name}`);
  });

  test.each<[string, Buffer, Partial<ImagePolicy>, string]>([
    ["junk", Buffer.from("junk".repeat(500)), {}, "damaged"],
    ["cut off", tarOf([file("x", randomBytes(5000))]).subarray(0, 2000), {}, "truncated"],
    ["without files", Buffer.alloc(1024), {}, "is empty"],
    [
      "an OCI archive",
      ociArchive([{ bytes: tarOf([file("x", "x")]) }]).archive,
      {},
      "Import it as an OCI archive",
    ],
    [
      "larger than it seems",
      gzipSync(tarOf([file("zeros", Buffer.alloc(3_000_000))])),
      { limits: { totalBytes: 1_000_000 } },
      "exceeds the limit of 1000000 bytes",
    ],
    [
      "of too many files",
      tarOf(Array.from({ length: 20 }, (_, index) => file(`f${index}`, ""))),
      { limits: { entries: 10 } },
      "limit of 10 files",
    ],
    [
      "of directories that only paths of files name",
      tarOf([file("a/b/c/d/e/f/x", ""), file("g/h/i/j/k/l/x", "")]),
      { limits: { entries: 10 } },
      "limit of 10 files",
    ],
    ["of holes", tarOf([file("x", "x", { type: "S" })]), {}, "sparse"],
  ])("refuses an archive that is %s", async (_, content, policy, message) => {
    await expect(
      store(policy).importRootfs(`${PREFIX}refused:1`, await archive(content)),
    ).rejects.toEqual(refused(message));
    await expect(store().inspect(`${PREFIX}refused:1`)).rejects.toEqual(refused("not present"));
  });

  test("keeps a name that the session's next daemon assigned while an import was paused", async () => {
    const reference = `${PREFIX}committed:1`;
    const [older, newer] = await Promise.all(
      ["older", "newer"].map((content) => archive(tarOf([file("state", content)]))),
    );
    const stopped = Promise.withResolvers<void>();
    const goesOn = Promise.withResolvers<void>();
    const sessionId = "ses_0123456789";
    // Pauses after its check, like a stopped process.
    const late = store()
      .importRootfs(
        reference,
        older ?? "",
        undefined,
        {},
        {
          sessionId,
          check: async () => {
            stopped.resolve();
            await goesOn.promise;
          },
        },
      )
      .catch((error: unknown) => error);
    await stopped.promise;
    const check = (): Promise<void> => Promise.resolve();
    const committed = { sessionId, check };
    await store().importRootfs(reference, newer ?? "", undefined, {}, committed);
    goesOn.resolve();
    expect(await late).toMatchObject({ code: "CONFLICT" });
    expect(await fileOf(reference, "/state")).toContain("newer");
    const names = (await docker.listImages({ all: true })).flatMap(
      ({ RepoTags }) => RepoTags ?? [],
    );
    expect(names.filter((name) => name.includes(sessionId))).toEqual([]);
    await store().importRootfs(reference, older ?? "", undefined, {}, committed);
    expect(await fileOf(reference, "/state")).toContain("older");
  });

  test("refuses what is not a file, and a name with a digest", async () => {
    await expect(store().importRootfs(`${PREFIX}x:1`, place)).rejects.toEqual(
      refused("not a regular file"),
    );
    await expect(
      store().importRootfs(`${PREFIX}x:1@${sha256("x")}`, await archive(tarOf([file("x", "x")]))),
    ).rejects.toEqual(refused("Leave @sha256:… out"));
  });
});

describe("importOciArchive()", () => {
  const layers = [
    tarOf([file("one", "first layer"), file("both", "below")]),
    tarOf([file("both", "above")]),
  ];

  test.each<[string, (layer: Buffer) => Buffer]>([
    ["plain", (layer) => layer],
    ["gzip", (layer) => gzipSync(layer)],
    ["zstd", (layer) => zstdCompressSync(layer)],
  ])("loads an OCI archive whose layers are %s", async (name, compress) => {
    const reference = `${PREFIX}oci:${name}`;
    const { archive: content } = ociArchive(
      layers.map((bytes) => ({ bytes: compress(bytes) })),
      {
        env: ["FROM=oci"],
        diffIds: layers.map(sha256),
        nestedIndex: name === "gzip",
      },
    );
    const news: ImageProgress[] = [];
    const info = await store().importOciArchive(reference, await archive(content), (progress) =>
      news.push(progress),
    );
    expect(info).toMatchObject({ reference, env: { FROM: "oci" }, source: "oci-archive" });
    expect(await fileOf(reference, "/one")).toContain("first layer");
    expect(await fileOf(reference, "/both")).toContain("above");
    expect(news.at(-1)?.done).toBe(news.at(-1)?.total);
    expect(await readdir(place)).not.toContainEqual(expect.stringContaining("sandkasten-image-"));
  });

  test("loads the output of docker save under the given name only", async () => {
    const victim = `${PREFIX}victim:1`;
    const reference = `${PREFIX}saved:1`;
    const { digest } = await store().importRootfs(
      victim,
      await archive(tarOf([file("content", "the one that is trusted")])),
    );
    const hostile = dockerSaveArchive([tarOf([file("content", "hostile")])], [victim]);
    const info = await store().importOciArchive(reference, await archive(hostile));
    expect((await store().inspect(victim)).digest).toBe(digest);
    expect((await docker.getImage(info.digest).inspect()).RepoTags).toEqual([reference]);
  });

  test("refuses layers that do not match the image, and reveals no directory of the engine", async () => {
    const { archive: content } = ociArchive([{ bytes: layers[0] ?? Buffer.alloc(0) }], {
      diffIds: [sha256("something else")],
    });
    const failure: unknown = await store()
      .importOciArchive(`${PREFIX}wrong:1`, await archive(content))
      .catch((error: unknown) => error);
    expect(failure).toEqual(refused("The Docker engine cannot use the archive: "));
    expect(String(failure)).not.toContain("/tmp");
    await expect(store().inspect(`${PREFIX}wrong:1`)).rejects.toEqual(refused("not present"));
  });

  test("refuses layers that are too large when unpacked", async () => {
    const bomb = gzipSync(tarOf([file("zeros", Buffer.alloc(3_000_000))]));
    const { archive: content } = ociArchive([{ bytes: bomb }]);
    await expect(
      store({ limits: { totalBytes: 1_000_000 } }).importOciArchive(
        `${PREFIX}bomb:1`,
        await archive(content),
      ),
    ).rejects.toEqual(refused("exceeds the limit of 1000000 bytes"));
  });

  test("refuses archives without an image", async () => {
    await expect(
      store().importOciArchive(`${PREFIX}none:1`, await archive(tarOf([file("x", "x")]))),
    ).rejects.toEqual(refused("neither index.json nor manifest.json"));
  });
});
