import {
  chmod,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  stat,
  symlink,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readTar } from "@sandkasten/testkit";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { TestDaemon } from "../testing/test-daemon.ts";

let daemon: TestDaemon;
let session: string;
let scratch: string;
beforeAll(async () => {
  daemon = await TestDaemon.start();
});
beforeEach(async () => {
  session = await daemon.open();
  scratch = await mkdtemp(join(tmpdir(), "sandkasten-cli-"));
});
afterEach(async () => {
  await rm(scratch, { recursive: true, force: true });
});
afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
});

async function cp(from: string, to: string, stdin?: string) {
  const run = await daemon.run(["cp", from, to], {
    cwd: scratch,
    ...(stdin !== undefined && { stdin }),
  });
  expect([run.code, run.stderr]).toEqual([0, ""]);
  return run;
}

async function inside(path: string): Promise<string> {
  return (await daemon.run(["exec", session, "--", "cat", path])).stdout;
}

describe("cp with files", () => {
  it("copies a file in and out, byte for byte", async () => {
    const bytes = Buffer.from(Array.from({ length: 300_000 }, (_, i) => (i * 7) % 256));
    await writeFile(join(scratch, "data"), bytes);
    await cp("data", `${session}:/tmp/data`);
    await cp(`${session}:/tmp/data`, "back");
    expect((await readFile(join(scratch, "back"))).equals(bytes)).toBe(true);
  });

  it("copies a file into a directory under its own name, on both sides", async () => {
    await writeFile(join(scratch, "notes"), "hello");
    await cp("notes", `${session}:`);
    expect(await inside("/workspace/notes")).toBe("hello");
    await mkdir(join(scratch, "dir"));
    await cp(`${session}:notes`, "dir");
    expect(await readFile(join(scratch, "dir/notes"), "utf8")).toBe("hello");
  });

  it("copies from stdin and to stdout with -", async () => {
    await cp("-", `${session}:piped`, "through a pipe");
    expect((await cp(`${session}:piped`, "-")).stdout).toBe("through a pipe");
  });

  it("copies an empty file", async () => {
    await cp("-", `${session}:nothing`, "");
    await cp(`${session}:nothing`, "nothing");
    expect((await stat(join(scratch, "nothing"))).size).toBe(0);
  });

  it("keeps the permissions of a replaced file", async () => {
    await cp("-", `${session}:secret`, "new");
    await writeFile(join(scratch, "secret"), "old");
    await chmod(join(scratch, "secret"), 0o600);
    await cp(`${session}:secret`, "secret");
    expect(await readFile(join(scratch, "secret"), "utf8")).toBe("new");
    expect((await stat(join(scratch, "secret"))).mode & 0o777).toBe(0o600);
  });

  it("keeps the old file if the copy fails", async () => {
    await writeFile(join(scratch, "kept"), "old");
    const { code } = await daemon.run(["cp", `${session}:missing`, "kept"], { cwd: scratch });
    expect(code).toBe(1);
    expect(await readFile(join(scratch, "kept"), "utf8")).toBe("old");
    expect(await readdir(scratch)).toEqual(["kept"]);
  });

  it("copies between sessions", async () => {
    const other = await daemon.open();
    await cp("-", `${session}:a`, "shared");
    await cp(`${session}:a`, `${other}:b`);
    expect((await cp(`${other}:b`, "-")).stdout).toBe("shared");
  });
});

describe("cp with directories", () => {
  beforeEach(async () => {
    await mkdir(join(scratch, "tree/deep"), { recursive: true });
    await writeFile(join(scratch, "tree/deep/leaf"), "green");
    await symlink("deep/leaf", join(scratch, "tree/link"));
  });

  it("copies a directory in and out", async () => {
    await cp("tree", `${session}:/tmp/copy`);
    expect(await inside("/tmp/copy/deep/leaf")).toBe("green");
    await cp(`${session}:/tmp/copy`, "back");
    expect(await readFile(join(scratch, "back/link"), "utf8")).toBe("green");
  });

  it("copies it into an existing directory, and with /. only its contents", async () => {
    await cp("tree", `${session}:/tmp`);
    expect(await inside("/tmp/tree/deep/leaf")).toBe("green");
    await mkdir(join(scratch, "here"));
    await cp(`${session}:/tmp/tree`, "here");
    expect(await readFile(join(scratch, "here/tree/deep/leaf"), "utf8")).toBe("green");
    await cp("tree/.", `${session}:/workspace`);
    expect(await inside("/workspace/deep/leaf")).toBe("green");
  });

  it("writes a directory to stdout as a tar archive", async () => {
    await cp("tree", `${session}:tree`);
    const { stdoutBytes } = await cp(`${session}:tree`, "-");
    const leaf = readTar(stdoutBytes).find(({ path }) => path === "deep/leaf");
    expect(Buffer.from(leaf?.bytes ?? []).toString()).toBe("green");
  });

  it("refuses to replace a file with a directory", async () => {
    await writeFile(join(scratch, "file"), "");
    await cp("-", `${session}:file`, "");
    await cp("tree", `${session}:tree`);
    for (const [from, to] of [
      ["tree", `${session}:file`],
      [`${session}:tree`, "file"],
    ] as const) {
      const { code, stderr } = await daemon.run(["cp", from, to], { cwd: scratch });
      expect([code, stderr]).toEqual([1, expect.stringContaining("is a file")]);
    }
  });
});

describe("cp", () => {
  it("refuses two local sides as invalid usage", async () => {
    expect((await daemon.run(["cp", "a", "b"], { cwd: scratch })).code).toBe(2);
  });

  it("names a missing local file", async () => {
    const { code, stderr } = await daemon.run(["cp", "nope", `${session}:x`], { cwd: scratch });
    expect([code, stderr]).toEqual([1, expect.stringContaining("nope does not exist")]);
  });

  it("reports with --json what was copied", async () => {
    await writeFile(join(scratch, "five"), "12345");
    const run = await daemon.run(["cp", "five", `${session}:five`, "--json"], { cwd: scratch });
    expect(JSON.parse(run.stdout)).toEqual({ from: "five", to: "five", kind: "file", bytes: 5 });
  });

  it("shows a progress bar on a terminal and removes it again", async () => {
    await writeFile(join(scratch, "bar"), "x".repeat(200_000));
    const { stderr } = await daemon.run(["cp", "bar", `${session}:bar`], {
      cwd: scratch,
      columns: 100,
    });
    expect(stderr).toContain("100 %");
    expect(stderr.endsWith("\r\u001b[2K")).toBe(true);
  });
});
