import { mkdtemp, readdir, readlink, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { KernelFiles } from "./kernel-files.ts";

describe("files that stay open", () => {
  let directory: string;
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), "sandkasten-test-"));
  });
  afterAll(async () => {
    await rm(directory, { recursive: true, force: true });
  });

  /** How many descriptors of this process are files of the directory. */
  const openFiles = async (): Promise<number> => {
    const names = await readdir("/proc/self/fd");
    const targets = await Promise.all(
      names.map((name) => readlink(`/proc/self/fd/${name}`).catch(() => "")),
    );
    return targets.filter((target) => target.startsWith(directory)).length;
  };

  it("are read again each time, and never return another sandbox's content", async () => {
    const files = new KernelFiles();
    const path = join(directory, "memory.current");
    await writeFile(path, "1000\n");
    expect(files.readerFor("one")(path)).toBe("1000\n");
    await writeFile(path, "7\n");
    expect(files.readerFor("one")(path)).toBe("7\n");
    await writeFile(`${path}.new`, "another sandbox's\n");
    await rename(`${path}.new`, path);
    expect(files.readerFor("one")(path)).toBe("7\n");
    expect(files.readerFor("two")(path)).toBe("another sandbox's\n");
    files.forget("one");
    expect(files.readerFor("one")(path)).toBe("another sandbox's\n");
    for (const id of ["one", "two"]) files.forget(id);
    expect(await openFiles()).toBe(0);
  });

  it("can be longer than usual", async () => {
    const files = new KernelFiles();
    const path = join(directory, "long");
    for (const size of [4095, 4096, 10_000]) {
      await writeFile(path, "x".repeat(size));
      expect(files.readerFor("one")(path)).toHaveLength(size);
    }
    files.forget("one");
  });

  it("are limited to a few sandboxes", async () => {
    const files = new KernelFiles();
    const path = join(directory, "pids.current");
    await writeFile(path, "1\n");
    const ids = Array.from({ length: 100 }, (_, at) => `sandbox-${at}`);
    for (const id of ids) expect(files.readerFor(id)(path)).toBe("1\n");
    expect(await openFiles()).toBe(32);
    for (const id of ids) files.forget(id);
    expect(await openFiles()).toBe(0);
  });

  it("stay open only for sandboxes whose stats are requested", async () => {
    const files = new KernelFiles();
    const path = join(directory, "cgroup.events");
    await writeFile(path, "frozen 0\n");
    expect(files.readerIfOpen("one")(path)).toBe("frozen 0\n");
    expect(await openFiles()).toBe(0);
    files.readerFor("one")(path);
    files.readerIfOpen("one")(path);
    expect(await openFiles()).toBe(1);
    files.forget("one");
  });

  it("fail like the missing file itself", () => {
    const files = new KernelFiles();
    expect(() => files.readerFor("one")(join(directory, "nothing"))).toThrow("ENOENT");
    files.forget("one");
  });
});
