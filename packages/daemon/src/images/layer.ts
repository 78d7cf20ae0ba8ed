/** Applies the entries of one archive (a layer, or a whole root file system) to an image's tree. */
import { ownTurn } from "../event-loop-turn.ts";
import type { TarEntry } from "../tar/tar-reader.ts";
import { invalidImage } from "./image-failure.ts";
import { cleanImagePath, nameOf, parentOf, shown } from "./image-path.ts";
import type { ImageTree } from "./image-tree.ts";
import type { UnpackBudget } from "./unpack-budget.ts";

const WHITEOUT = ".wh.";
const OPAQUE = ".wh..wh..opq";
const RESERVED = ".wh..wh.";

export interface LayerOptions {
  /** Treat `.wh.` names as removals, as in OCI layers; a plain root file system has none. */
  readonly whiteouts: boolean;
  /** `root`: everything belongs to root, independent of the archive. */
  readonly owners: "keep" | "root";
}

/** Returns the number of entries applied. */
export async function applyLayer(
  tree: ImageTree,
  entries: AsyncIterable<TarEntry>,
  budget: UnpackBudget,
  options: LayerOptions,
): Promise<number> {
  const layer = new Layer(tree, budget, options);
  for await (const entry of entries) {
    await ownTurn();
    await layer.apply(entry);
  }
  await tree.applyDirectoryTimes();
  return layer.count;
}

class Layer {
  count = 0;
  readonly #tree: ImageTree;
  readonly #budget: UnpackBudget;
  readonly #options: LayerOptions;
  /** Paths of this layer and their parents: removals apply only to the layers below. */
  readonly #own = new Set<string>();
  readonly #cleared = new Set<string>();

  constructor(tree: ImageTree, budget: UnpackBudget, options: LayerOptions) {
    this.#tree = tree;
    this.#budget = budget;
    this.#options = options;
  }

  async apply(entry: TarEntry): Promise<void> {
    this.#budget.spendEntry();
    this.count += 1;
    const path = cleanImagePath(entry.path, this.#budget.limits);
    // SECURITY: the runtime mounts its own /dev, so an image's /dev is useless, and device nodes
    // are never created on the host (threats: device access and hostile archives and images).
    // Guarded by hostile-images.test.ts.
    if (path.startsWith("dev/")) return;
    if (this.#options.whiteouts && nameOf(path).startsWith(WHITEOUT)) {
      await this.#applyWhiteout(path);
      return;
    }
    await this.#create(path, entry);
    this.#remember(path);
  }

  async #create(path: string, entry: TarEntry): Promise<void> {
    const { mode, mtimeSeconds } = entry;
    const owner =
      this.#options.owners === "keep" ? { uid: entry.uid, gid: entry.gid } : { uid: 0, gid: 0 };
    const attributes = { ...owner, mode, mtimeSeconds };
    switch (entry.type) {
      case "directory":
        return await this.#tree.makeDirectory(path, attributes);
      case "file":
        this.#budget.checkFile(path, entry.sizeBytes);
        return await this.#tree.writeFile(path, attributes, entry.body());
      case "symlink":
        return await this.#tree.makeSymlink(path, entry.linkTarget, attributes);
      case "hardlink":
        return await this.#tree.makeHardLink(
          path,
          cleanImagePath(entry.linkTarget, this.#budget.limits),
        );
      case "device":
        throw invalidImage(
          `The image has a device node at ${shown(`/${path}`)}. Remove it from the image, or move it below /dev.`,
        );
      case "fifo":
        throw invalidImage(
          `The image has a named pipe at ${shown(`/${path}`)}, which is not supported. Remove it from the image.`,
        );
    }
  }

  async #applyWhiteout(path: string): Promise<void> {
    const name = nameOf(path);
    const parent = parentOf(path);
    if (name === OPAQUE) {
      await this.#removeLowerChildren(parent);
      return;
    }
    if (name.startsWith(RESERVED)) return;
    const hidden = name.slice(WHITEOUT.length);
    // SECURITY: `.wh...` would remove the parent directory (threat: hostile archives and images).
    // Guarded by hostile-images.test.ts.
    if (hidden === "" || hidden === "." || hidden === "..") {
      throw invalidImage(`The image has a whiteout without a file name: ${shown(`/${path}`)}.`);
    }
    await this.#removeLower(parent === "" ? hidden : `${parent}/${hidden}`);
  }

  /** Removes what the layers below have at a path, and keeps what this layer added. */
  async #removeLower(path: string): Promise<void> {
    if (this.#own.has(path)) await this.#removeLowerChildren(path);
    else await this.#tree.remove(path);
  }

  /** Once per directory is enough: entries of the layers below cannot come back. */
  async #removeLowerChildren(directory: string): Promise<void> {
    if (this.#cleared.has(directory)) return;
    this.#cleared.add(directory);
    for (const child of await this.#tree.list(directory)) {
      await ownTurn();
      await this.#removeLower(directory === "" ? child : `${directory}/${child}`);
    }
  }

  #remember(path: string): void {
    for (let at = path; at !== "" && !this.#own.has(at); at = parentOf(at)) this.#own.add(at);
  }
}
