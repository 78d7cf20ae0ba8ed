/** The built dashboard, read once and kept in memory, so page requests need no disk access. */
import { hash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { extname, join } from "node:path";

export type Encoding = "br" | "gzip";

/** One file of the dashboard, plain and compressed. */
export interface Asset {
  readonly type: string;
  readonly etag: string;
  readonly plain: Buffer;
  readonly compressed: Readonly<Partial<Record<Encoding, Buffer>>>;
}

export const PAGE = "index.html";

const TYPES: Readonly<Record<string, string>> = {
  ".css": "text/css; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".svg": "image/svg+xml",
};
const SUFFIXES: Readonly<Record<Encoding, string>> = { br: ".br", gzip: ".gz" };

export class DashboardAssets {
  readonly #directory: string;
  #loaded: Promise<ReadonlyMap<string, Asset>> | undefined;

  constructor(directory: string) {
    this.#directory = directory;
  }

  /** All files by name; undefined if the dashboard is not built. A later build is found without a restart. */
  async load(): Promise<ReadonlyMap<string, Asset> | undefined> {
    this.#loaded ??= readAssets(this.#directory);
    try {
      return await this.#loaded;
    } catch (error) {
      this.#loaded = undefined;
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
      throw error;
    }
  }
}

async function readAssets(directory: string): Promise<ReadonlyMap<string, Asset>> {
  const page = await readAsset(directory, PAGE);
  const names = await readdir(join(directory, "assets"));
  const files = names.filter((name) => TYPES[extname(name)] !== undefined);
  const assets = await Promise.all(
    files.map(async (name) => [name, await readAsset(join(directory, "assets"), name)] as const),
  );
  return new Map([[PAGE, page], ...assets]);
}

async function readAsset(directory: string, name: string): Promise<Asset> {
  const path = join(directory, name);
  const plain = await readFile(path);
  const compressed: Partial<Record<Encoding, Buffer>> = {};
  for (const encoding of ["br", "gzip"] as const) {
    const bytes = await readIfThere(path + SUFFIXES[encoding]);
    if (bytes !== undefined) compressed[encoding] = bytes;
  }
  const type = TYPES[extname(name)] ?? "application/octet-stream";
  return { type, etag: `"${hash("sha256", plain, "base64url").slice(0, 22)}"`, plain, compressed };
}

async function readIfThere(path: string): Promise<Buffer | undefined> {
  try {
    return await readFile(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
