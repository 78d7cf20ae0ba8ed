/** A real store in a temporary directory, with a sentinel beside it that no image may touch. */
import { createHash } from "node:crypto";
import { lstatSync, readdirSync, readlinkSync, readFileSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LocalImageStore } from "../local-image-store.ts";
import type { ImagePolicy, LocalImageStoreOptions } from "../local-image-store.ts";

export interface StoreFixture extends AsyncDisposable {
  readonly directory: string;
  readonly dataDir: string;
  /** A directory outside the store that hostile images target. */
  readonly outside: string;
  readonly store: LocalImageStore;
  open(
    policy?: Partial<ImagePolicy>,
    more?: Partial<LocalImageStoreOptions>,
  ): Promise<LocalImageStore>;
  /** Writes an archive and returns its path. */
  archive(content: Buffer): Promise<string>;
  /** Equal before and after if nothing outside has changed. */
  outsideState(): string;
  /** Names in the store that only an import in progress may use. */
  temporaries(): string[];
}

export const TOOLS = {
  xz: "/usr/bin/xz",
  sync: "/bin/sync",
  env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", HOME: "/nonexistent" },
};

export async function storeFixture(policy: Partial<ImagePolicy> = {}): Promise<StoreFixture> {
  const directory = await mkdtemp(join(tmpdir(), "sandkasten-images-"));
  const dataDir = join(directory, "data");
  const outside = join(directory, "outside");
  await mkdir(join(outside, "sub"), { recursive: true });
  await writeFile(join(outside, "sentinel"), "untouched");
  await writeFile(join(outside, "sub", "sentinel"), "untouched");
  const open = async (
    morePolicy: Partial<ImagePolicy> = {},
    more: Partial<LocalImageStoreOptions> = {},
  ): Promise<LocalImageStore> =>
    await LocalImageStore.open({
      dataDir,
      policy: { allowedImages: [], ...policy, ...morePolicy },
      tools: TOOLS,
      nowMs: () => 1_700_000_000_000,
      ...more,
    });
  let archives = 0;
  return {
    directory,
    dataDir,
    outside,
    store: await open(),
    open,
    archive: async (content) => {
      const path = join(directory, `archive-${(archives += 1)}`);
      await writeFile(path, content);
      return path;
    },
    outsideState: () => treeState(outside).join("\n"),
    temporaries: () =>
      readdirSync(join(dataDir, "images")).filter((name) => name.startsWith("tmp-")),
    [Symbol.asyncDispose]: async () => {
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/** One line per file below a directory: kind, mode, owner, time, content. */
function treeState(root: string, relative = ""): string[] {
  const path = join(root, relative);
  const stats = lstatSync(path);
  const head = `${relative} ${stats.mode.toString(8)} ${stats.uid}:${stats.gid} ${stats.nlink} ${stats.mtimeMs}`;
  if (stats.isSymbolicLink()) return [`${head} -> ${readlinkSync(path)}`];
  if (stats.isFile())
    return [`${head} ${createHash("sha256").update(readFileSync(path)).digest("hex")}`];
  if (!stats.isDirectory()) return [head];
  return [
    head,
    ...readdirSync(path)
      .sort()
      .flatMap((name) => treeState(root, join(relative, name))),
  ];
}
