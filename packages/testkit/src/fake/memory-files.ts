/** An in-memory file tree that behaves like a sandbox's files. */
import { posix } from "node:path";
import { SandboxError } from "@sandkasten/protocol";
import type { FileEntry } from "@sandkasten/protocol";
import type { FileChange } from "../ports.ts";
import { MountedDisks } from "./memory-disk.ts";
import type { MemoryDisk, MemoryNode } from "./memory-disk.ts";
import { namedPath } from "./memory-path.ts";

let versions = 0;

export class MemoryFiles {
  readonly workspace: string;
  readonly #nodes: MountedDisks;

  constructor(workspace: string, workspaceDisk?: MemoryDisk) {
    this.workspace = workspace;
    this.#nodes = new MountedDisks(workspace, workspaceDisk);
    for (let path = workspace; path !== "/"; path = posix.dirname(path))
      if (!this.#nodes.has(path)) this.#nodes.set(path, directory());
    this.#nodes.set("/", directory());
    this.#nodes.set("/tmp", directory());
  }

  /** For the sandbox's own disk. */
  get totalBytes(): number {
    let bytes = 0;
    for (const node of this.#nodes.own.nodes.values()) bytes += node.bytes.byteLength;
    return bytes;
  }

  resolve(path: string, from = this.workspace): string {
    return posix.resolve(from, path);
  }

  find(path: string): MemoryNode | undefined {
    return this.#nodes.get(path);
  }

  get(path: string): MemoryNode {
    const node = this.#nodes.get(path);
    if (node !== undefined) return node;
    for (let parent = posix.dirname(path); parent !== "/"; parent = posix.dirname(parent)) {
      if (this.#nodes.get(parent)?.type === "file")
        throw new SandboxError("NOT_A_DIRECTORY", `${parent} is not a directory`);
    }
    throw new SandboxError("FILE_NOT_FOUND", `${path} does not exist`);
  }

  /** The target of a path whose last part is a link. */
  follow(path: string): string {
    const { target } = this.get(path);
    return target === undefined ? path : this.follow(posix.resolve(posix.dirname(path), target));
  }

  /** The bytes of a regular file. */
  bytes(path: string): { readonly node: MemoryNode; readonly bytes: Buffer } {
    const node = this.get(this.follow(path));
    if (node.type !== "file") throw new SandboxError("NOT_A_FILE", `${path} is not a regular file`);
    return { node, bytes: node.bytes };
  }

  entry(path: string, shown = path): FileEntry {
    const node = this.get(path);
    return {
      ...namedPath(shown),
      name: posix.basename(shown).toWellFormed(),
      type: node.type,
      size: node.bytes.byteLength,
      mode: node.mode,
      mtimeMs: node.mtimeMs,
      uid: 1000,
      gid: 1000,
      ...(node.target !== undefined && { target: node.target }),
      version: String(node.version),
    };
  }

  /** Entries below a directory, ordered by path bytes, each directory before its contents. */
  children(path: string, recursive: boolean): FileEntry[] {
    if (this.get(path).type !== "dir")
      throw new SandboxError("NOT_A_DIRECTORY", `${path} is not a directory`);
    return this.#below(path)
      .filter((child) => recursive || posix.dirname(child) === path)
      .sort((a, b) => compareParts(a.split("/"), b.split("/")))
      .map((child) => this.entry(child));
  }

  put(
    path: string,
    node: Partial<MemoryNode>,
    options: { overwrite: boolean; parents: boolean; ifVersion?: string | undefined },
  ): MemoryNode {
    const before = this.#nodes.get(path);
    const { ifVersion } = options;
    if (ifVersion !== undefined && ifVersion !== String(before?.version))
      throw new SandboxError("FILE_CHANGED", `${path} is not at version ${ifVersion}`);
    if (before?.type === "dir") throw new SandboxError("NOT_A_FILE", `${path} is a directory`);
    if (before !== undefined && !options.overwrite)
      throw new SandboxError("FILE_EXISTS", `${path} exists already`);
    this.#requireParent(path, options.parents);
    const mode = node.mode ?? before?.mode ?? 0o644;
    const made: MemoryNode = {
      type: "file",
      bytes: Buffer.alloc(0),
      ...node,
      mode,
      mtimeMs: Date.now(),
      version: ++versions,
    };
    this.#nodes.set(path, made);
    this.#report(before === undefined ? "create" : "modify", path);
    return made;
  }

  makeDirectory(path: string, options: { mode?: number; parents: boolean }): void {
    const before = this.#nodes.get(path);
    if (before?.type === "dir" && options.parents) return;
    if (before !== undefined) throw new SandboxError("FILE_EXISTS", `${path} exists already`);
    this.#requireParent(path, options.parents);
    this.#nodes.set(path, { ...directory(), mode: options.mode ?? 0o755 });
    this.#report("create", path);
  }

  move(from: string, to: string, overwrite: boolean): void {
    const { type } = this.get(from);
    const replaced = this.#nodes.get(to);
    if (replaced !== undefined && !overwrite)
      throw new SandboxError("FILE_EXISTS", `${to} exists already`);
    if (type !== "dir" && replaced?.type === "dir")
      throw new SandboxError("NOT_A_FILE", `${to} is a directory`);
    this.#requireParent(to, false);
    for (const path of [from, ...this.#below(from)]) {
      const node = this.get(path);
      this.#nodes.delete(path);
      this.#nodes.set(to + path.slice(from.length), node);
    }
    this.#report("move", to);
  }

  copy(
    from: string,
    to: string,
    { overwrite = false, recursive = false }: { overwrite?: boolean; recursive?: boolean },
  ): { readonly entries: number; readonly bytes: number } {
    if (this.get(from).type === "dir" && !recursive)
      throw new SandboxError("NOT_A_FILE", `${from} is a directory`);
    if (to === from || to.startsWith(`${from}/`))
      throw new SandboxError("INVALID_REQUEST", `${from} cannot be copied into itself`);
    if (this.#nodes.has(to) && !overwrite)
      throw new SandboxError("FILE_EXISTS", `${to} exists already`);
    this.#requireParent(to, false);
    const paths = [from, ...this.#below(from)];
    const nodes = paths.map((path) => this.get(path));
    for (const [index, node] of nodes.entries())
      this.#nodes.set(to + (paths[index] ?? "").slice(from.length), {
        ...node,
        version: ++versions,
      });
    this.#report("create", to);
    return {
      entries: nodes.length,
      bytes: nodes.reduce((sum, { bytes }) => sum + bytes.byteLength, 0),
    };
  }

  remove(path: string, recursive: boolean): void {
    this.get(path);
    if (!recursive && this.#below(path).length > 0)
      throw new SandboxError("FILE_EXISTS", `${path} is not empty`);
    for (const child of [...this.#below(path), path]) this.#nodes.delete(child);
    this.#report("remove", path);
  }

  watch(tell: (change: FileChange) => void): () => void {
    const disks = this.#nodes.all;
    for (const disk of disks) disk.watchers.add(tell);
    return () => {
      for (const disk of disks) disk.watchers.delete(tell);
    };
  }

  #below(path: string): string[] {
    const prefix = path === "/" ? "/" : `${path}/`;
    return this.#nodes.paths().filter((key) => key !== "/" && key.startsWith(prefix));
  }

  #requireParent(path: string, make: boolean): void {
    const parent = posix.dirname(path);
    const node = this.#nodes.get(parent);
    if (node !== undefined && node.type !== "dir")
      throw new SandboxError("NOT_A_DIRECTORY", `${parent} is not a directory`);
    if (node !== undefined) return;
    if (!make) throw new SandboxError("FILE_NOT_FOUND", `${parent} does not exist`);
    this.makeDirectory(parent, { parents: true });
  }

  #report(kind: FileChange["kind"], path: string): void {
    for (const report of this.#nodes.of(path).watchers) report({ kind, ...namedPath(path) });
  }
}

function directory(): MemoryNode {
  return {
    type: "dir",
    mode: 0o755,
    mtimeMs: Date.now(),
    bytes: Buffer.alloc(0),
    version: ++versions,
  };
}

function compareParts(a: readonly string[], b: readonly string[]): number {
  for (let i = 0; i < Math.min(a.length, b.length); i++) {
    const order = Buffer.compare(Buffer.from(a[i] ?? ""), Buffer.from(b[i] ?? ""));
    if (order !== 0) return order;
  }
  return a.length - b.length;
}
