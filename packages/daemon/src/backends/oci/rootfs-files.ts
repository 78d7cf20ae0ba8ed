/** Looks at the files of an unpacked image as a program inside would see them. */
import { lstatSync, readFileSync, readlinkSync } from "node:fs";
import type { Stats } from "node:fs";
import { join } from "node:path";
import type { ImageNode } from "../container/trust-store.ts";

/** As many as the kernel follows. */
const MAX_LINKS = 40;

/**
 * SECURITY: images are hostile (threat: linked mount points). Links are followed by hand, each from the
 * root of the image, so that none leads out of it. An unpacked image never changes, so that what was
 * looked at is what is read. Guarded by rootfs-files.test.ts.
 */
export class RootfsFiles {
  readonly #root: string;

  constructor(root: string) {
    this.#root = root;
  }

  lookAt(path: string): ImageNode {
    const real: string[] = [];
    const rest = partsOf(path).toReversed();
    let links = 0;
    for (let part = rest.pop(); part !== undefined; part = rest.pop()) {
      if (part === "..") {
        real.pop();
        continue;
      }
      const stats = this.#stats([...real, part]);
      if (stats === undefined) return missing([...real, part, ...rest.toReversed()]);
      if (stats.isSymbolicLink()) {
        if (++links > MAX_LINKS) return { path, kind: "other" };
        const target = readlinkSync(this.#absolute([...real, part]));
        if (target.startsWith("/")) real.length = 0;
        rest.push(...partsOf(target).toReversed());
        continue;
      }
      real.push(part);
      if (rest.length > 0 && !stats.isDirectory()) return { path, kind: "other" };
    }
    return { path: `/${real.join("/")}`, kind: kindOf(this.#stats(real)) };
  }

  /** The text of a regular file, by its path without links; undefined when it is something else or too large. */
  readText(path: string, maxBytes: number): string | undefined {
    const stats = this.#stats(partsOf(path));
    if (stats?.isFile() !== true || stats.size > maxBytes) return undefined;
    return readFileSync(this.#absolute(partsOf(path)), "utf8");
  }

  #absolute(parts: readonly string[]): string {
    return join(this.#root, ...parts);
  }

  #stats(parts: readonly string[]): Stats | undefined {
    return lstatSync(this.#absolute(parts), { throwIfNoEntry: false });
  }
}

function partsOf(path: string): string[] {
  return path.split("/").filter((part) => part !== "" && part !== ".");
}

/** A path that would climb back from a directory that does not exist leads nowhere. */
function missing(parts: readonly string[]): ImageNode {
  const path = `/${parts.join("/")}`;
  return { path, kind: parts.includes("..") ? "other" : "missing" };
}

function kindOf(stats: Stats | undefined): ImageNode["kind"] {
  if (stats === undefined) return "missing";
  if (stats.isFile()) return "file";
  return stats.isDirectory() ? "directory" : "other";
}
