/** In-memory disks, and how a sandbox combines two of them into one tree. */
import type { FileChange } from "../ports.ts";

export interface MemoryNode {
  type: "file" | "dir" | "symlink";
  mode: number;
  mtimeMs: number;
  bytes: Buffer;
  target?: string;
  /** Different for each content. */
  version: number;
}

/** Nodes by full path, and change listeners. Several sandboxes may share a disk. */
export class MemoryDisk {
  readonly nodes = new Map<string, MemoryNode>();
  readonly watchers = new Set<(change: FileChange) => void>();
}

/** A sandbox's own disk, with another, if any, at the workspace. */
export class MountedDisks {
  readonly own = new MemoryDisk();
  readonly #workspace: string;
  readonly #workspaceDisk: MemoryDisk | undefined;

  constructor(workspace: string, workspaceDisk?: MemoryDisk) {
    this.#workspace = workspace;
    this.#workspaceDisk = workspaceDisk;
  }

  get all(): MemoryDisk[] {
    return this.#workspaceDisk === undefined ? [this.own] : [this.own, this.#workspaceDisk];
  }

  /** The disk that a path is on. */
  of(path: string): MemoryDisk {
    const inWorkspace = path === this.#workspace || path.startsWith(`${this.#workspace}/`);
    return inWorkspace ? (this.#workspaceDisk ?? this.own) : this.own;
  }

  get(path: string): MemoryNode | undefined {
    return this.of(path).nodes.get(path);
  }

  has(path: string): boolean {
    return this.of(path).nodes.has(path);
  }

  set(path: string, node: MemoryNode): void {
    this.of(path).nodes.set(path, node);
  }

  delete(path: string): void {
    this.of(path).nodes.delete(path);
  }

  paths(): string[] {
    return this.all.flatMap(({ nodes }) => [...nodes.keys()]);
  }
}
