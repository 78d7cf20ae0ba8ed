/** Copies installed npm packages into a published tree, without files that only developers read. */
import { cp } from "node:fs/promises";
import { basename, join } from "node:path";
import type { PlacedTree } from "./dependency-tree.ts";
import { root } from "./versions.ts";

/** Types, source maps and documentation: Node loads none of them. Licences are always kept. */
const leftOut = /\.([cm]?ts|map|md|markdown|flow)$/i;
const licence = /licen[cs]e|copying|notice|copyright/i;

export async function copyTree(tree: PlacedTree, directory: string): Promise<void> {
  for (const [location, source] of tree.placed) {
    const from = join(root, source);
    await cp(from, join(directory, location), {
      recursive: true,
      filter: (path) => {
        const name = basename(path);
        // Nested packages have their own location in the tree.
        if (path === join(from, "node_modules")) return false;
        return !leftOut.test(name) || licence.test(name);
      },
    });
  }
}
