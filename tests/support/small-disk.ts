/** A disk for a daemon's data directory that tests fill up and empty again. */
import { execFile } from "node:child_process";
import { mkdtemp, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

export class SmallDisk implements AsyncDisposable {
  readonly path: string;

  private constructor(path: string) {
    this.path = path;
  }

  static async mount(megabytes: number): Promise<SmallDisk> {
    const path = await mkdtemp(join(tmpdir(), "sandkasten-full-"));
    await run("mount", ["-t", "tmpfs", "-o", `size=${megabytes}m,mode=0700`, "tmpfs", path]);
    return new SmallDisk(path);
  }

  /** Uses up all free space. */
  async fill(): Promise<void> {
    const file = await open(this.#filler, "w");
    try {
      for (const size of [1 << 20, 1 << 12])
        for (;;) {
          const { bytesWritten } = await file
            .write(Buffer.alloc(size))
            .catch(() => ({ bytesWritten: 0 }));
          if (bytesWritten < size) break;
        }
    } finally {
      await file.close();
    }
  }

  async makeRoom(): Promise<void> {
    await rm(this.#filler);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await run("umount", ["--lazy", this.path]);
    await rm(this.path, { recursive: true, force: true });
  }

  get #filler(): string {
    return join(this.path, "filler");
  }
}
