/** File tools, the file store and their limits in real sandboxes. */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { DirectoryFileStore } from "../file-store.ts";
import { type TestAgent, ToolFixture } from "../testing/tool-fixture.ts";
import type { FsReadOutput } from "./fs-read.ts";

let fixture: ToolFixture;
let agent: TestAgent;
beforeAll(async () => {
  fixture = await ToolFixture.start();
  agent = fixture.agent({ mode: "code" });
});
afterAll(async () => {
  await fixture[Symbol.asyncDispose]();
});

const read = async (path: string) => await agent.call("sandbox_fs_read", { path });

describe("sandbox_fs_write", () => {
  const bytes = Buffer.from([0, 255, 10, 128]).toString("base64");

  it.each([
    [{ contents: "text\n" }, "text\n"],
    [{ content: "text\n" }, "text\n"],
    [{ content: "text\n", encoding: "text" }, "text\n"],
    [{ content: "dGV4dAo=", encoding: "base64" }, "text\n"],
    [{ text: "text\n" }, "text\n"],
    [{ contents_b64: "dGV4dAo=" }, "text\n"],
    [{ content_base64: "dGV4dAo=" }, "text\n"],
    [{ contents: "", contents_b64: null }, ""],
    [{ contents: "text\n", text: "text\n", contents_b64: "dGV4dAo=" }, "text\n"],
  ])("accepts the content as %j", async (content, expected) => {
    const path = `written/${crypto.randomUUID()}`;
    const written = await agent.call("sandbox_fs_write", { path, ...content });
    expect(written).toEqual({
      ok: true,
      path: `/workspace/${path}`,
      size_bytes: Buffer.byteLength(expected),
    });
    expect((await read(path)).contents).toBe(expected);
  });

  it("refuses two different contents, and names them", async () => {
    const input = { path: "x", contents: "one", content_base64: "dHdv" };
    await expect(agent.call("sandbox_fs_write", input)).rejects.toMatchObject({
      code: "INVALID_INPUT",
      message: expect.stringContaining("`contents` and `content_base64`") as string,
    });
    await expect(agent.call("sandbox_fs_write", { path: "x" })).rejects.toMatchObject({
      code: "INVALID_INPUT",
    });
    const broken = { path: "x", contents_b64: "not base64!" };
    await expect(agent.call("sandbox_fs_write", broken)).rejects.toThrow("valid base64");
    await expect(read("x")).rejects.toMatchObject({ code: "FILE_NOT_FOUND" });
  });

  it("keeps bytes unchanged, sets the mode, and replaces only if allowed", async () => {
    const input = { path: "/work/bin/tool", contents_b64: bytes, mode: "0755" };
    const written = await agent.call("sandbox_fs_write", input);
    expect(written).toEqual({ ok: true, path: "/workspace/bin/tool", size_bytes: 4 });
    const stat = await agent.call("sandbox_exec", { cmd: ["stat", "-c", "%a %s", "bin/tool"] });
    expect(stat.stdout).toBe("755 4\n");
    expect(await read("bin/tool")).toMatchObject({
      contents_b64: bytes,
      content: bytes,
      encoding: "base64",
    });
    const again = { path: "bin/tool", contents: "new" };
    await expect(
      agent.call("sandbox_fs_write", { ...again, overwrite: false }),
    ).rejects.toMatchObject({ code: "FILE_EXISTS" });
    await agent.call("sandbox_fs_write", again);
    expect((await read("bin/tool")).contents).toBe("new");
  });
});

describe("sandbox_fs_read", () => {
  it("returns text under both names, and base64 on request", async () => {
    await agent.call("sandbox_fs_write", { path: "t.txt", contents: "Grüße\n" });
    expect(await read("/work/t.txt")).toEqual({
      path: "/workspace/t.txt",
      contents: "Grüße\n",
      content: "Grüße\n",
      encoding: "text",
      truncated: false,
      size_bytes: 8,
    });
    const asked = { path: "t.txt", encoding: "base64" };
    const encoded = Buffer.from("Grüße\n").toString("base64");
    expect(await agent.call("sandbox_fs_read", asked)).toMatchObject({
      contents_b64: encoded,
      content: encoded,
      encoding: "base64",
    });
  });

  it("reads a large file in parts, of whole characters, with its actual size", async () => {
    const text = "aé€😀".repeat(40_000);
    await agent.call("sandbox_fs_write", { path: "large.txt", contents: text });
    let whole = "";
    let parts = 0;
    for (let offset: number | undefined = 0; offset !== undefined; parts++) {
      const part: FsReadOutput = await agent.call("sandbox_fs_read", { path: "large.txt", offset });
      expect(part).toMatchObject({ size_bytes: 400_000, encoding: "text" });
      expect(part.truncated).toBe(part.next_offset !== undefined);
      whole += part.contents ?? "";
      offset = part.next_offset;
    }
    expect(parts).toBe(2);
    expect(whole).toBe(text);
    const little = await agent.call("sandbox_fs_read", { path: "large.txt", max_bytes: 5 });
    expect(little).toMatchObject({ contents: "aé", truncated: true, next_offset: 3 });
    const beyond = await agent.call("sandbox_fs_read", { path: "large.txt", offset: 500_000 });
    expect(beyond).toMatchObject({ contents: "", truncated: false, size_bytes: 400_000 });
  });

  it("says what is wrong with a path", async () => {
    await expect(read("nothing/here")).rejects.toMatchObject({ code: "FILE_NOT_FOUND" });
    await expect(read(".")).rejects.toMatchObject({ code: "NOT_A_FILE" });
    await expect(read("t.txt/x")).rejects.toMatchObject({ name: "ToolError" });
  });
});

describe("sandbox_fs_list", () => {
  it("describes entries under all names", async () => {
    const one = fixture.agent({ mode: "code" });
    await one.call("sandbox_fs_write", { path: "src/main.py", contents: "print()\n" });
    await one.call("sandbox_exec", { cmd: "ln -s src/main.py link" });
    const { entries, path } = await one.call("sandbox_fs_list", { recursive: true });
    expect(path).toBe("/workspace");
    expect(entries.map((entry) => [entry.path, entry.name, entry.type])).toEqual([
      ["link", "link", "symlink"],
      ["src", "src", "dir"],
      ["src/main.py", "main.py", "file"],
    ]);
    const file = entries.at(-1);
    expect(file).toMatchObject({ size: 8, size_bytes: 8, mode: "0644" });
    expect(file?.mtime_unix).toBeGreaterThan(1_600_000_000);
    const below = await one.call("sandbox_fs_list", { path: "/work/src" });
    expect(below.entries.map((entry) => entry.path)).toEqual(["src/main.py"]);
    expect(one.tool("sandbox_fs_list").forModel(below)).toEqual({
      path: "/workspace/src",
      truncated: false,
      entries: [
        {
          path: "src/main.py",
          type: "file",
          size: 8,
          mode: "0644",
          mtime_unix: below.entries[0]?.mtime_unix,
        },
      ],
    });
  });

  it("returns many entries in parts", async () => {
    const one = fixture.agent({ mode: "code" });
    await one.call("sandbox_exec", { cmd: "for i in $(seq 1000 2199); do : > $i; done" });
    const first = await one.call("sandbox_fs_list");
    expect(first).toMatchObject({ truncated: true, next_offset: 500 });
    const rest = await one.call("sandbox_fs_list", { offset: first.next_offset, limit: 5000 });
    expect(rest).toMatchObject({ truncated: false });
    expect([...first.entries, ...rest.entries].map(({ name }) => Number(name))).toEqual(
      Array.from({ length: 1200 }, (_, index) => index + 1000),
    );
  });
});

describe("sandbox_fs_delete", () => {
  it("deletes files, and directories only on request", async () => {
    await agent.call("sandbox_fs_write", { path: "gone/a", contents: "" });
    await agent.call("sandbox_fs_write", { path: "gone/b", contents: "" });
    expect(await agent.call("sandbox_fs_delete", { path: "gone/a" })).toEqual({
      ok: true,
      deleted: "/workspace/gone/a",
      path: "/workspace/gone/a",
    });
    await expect(agent.call("sandbox_fs_delete", { path: "gone" })).rejects.toMatchObject({
      name: "ToolError",
    });
    await agent.call("sandbox_fs_delete", { path: "gone", recursive: true });
    await expect(agent.call("sandbox_fs_list", { path: "gone" })).rejects.toMatchObject({
      code: "FILE_NOT_FOUND",
    });
    for (const path of [".", "/work", "/"])
      await expect(
        agent.call("sandbox_fs_delete", { path, recursive: true }),
      ).rejects.toMatchObject({ code: "REFUSED" });
  });
});

describe("blocked paths", () => {
  const blocked = ["/etc/passwd", "/root/x", "/work/../etc/shadow", "../proc/self/environ"];

  it.each(blocked)("%s is refused by every file tool", async (path) => {
    const calls = [
      agent.call("sandbox_fs_read", { path }),
      agent.call("sandbox_fs_write", { path, contents: "x" }),
      agent.call("sandbox_fs_list", { path }),
      agent.call("sandbox_fs_delete", { path }),
    ];
    for (const call of calls)
      await expect(call).rejects.toMatchObject({
        code: "REFUSED",
        message: expect.stringContaining("/workspace") as string,
      });
  });

  // The attack: a link in the workspace has an innocent name.
  it("are refused behind links, for an ordinary user and for root", async () => {
    for (const profile of ["restricted", "root"]) {
      const one = fixture.agent({ mode: "code", profile });
      const links =
        "ln -s /etc/passwd accounts; ln -s /root home; ln -s / all; ln -s accounts twice";
      await one.call("sandbox_exec", { cmd: links });
      for (const path of ["accounts", "twice", "all/etc/passwd", "all/work/accounts"])
        await expect(one.call("sandbox_fs_read", { path })).rejects.toMatchObject({
          code: "REFUSED",
        });
      for (const path of ["home", "all/root", "all/proc"])
        await expect(one.call("sandbox_fs_list", { path })).rejects.toMatchObject({
          code: "REFUSED",
        });
      for (const path of ["accounts", "home/planted", "all/etc/passwd"])
        await expect(
          one.call("sandbox_fs_write", { path, contents: "root::0:0::/:/bin/sh\n" }),
        ).rejects.toMatchObject({ code: "REFUSED" });
      await expect(one.call("sandbox_fs_delete", { path: "all/etc/passwd" })).rejects.toMatchObject(
        { code: "REFUSED" },
      );
      const accounts = await one.call("sandbox_exec", { cmd: ["head", "-1", "/etc/passwd"] });
      expect(accounts.stdout).toMatch(/^root:x:0:0:/);
    }
  });
});

describe("limits of the file tools", () => {
  it("limit the size of a file", async () => {
    const one = fixture.agent({ mode: "code", limits: { max_file_size_bytes: 100 } });
    await one.call("sandbox_fs_write", { path: "fits", contents: "x".repeat(100) });
    await expect(
      one.call("sandbox_fs_write", { path: "large", contents: "x".repeat(101) }),
    ).rejects.toMatchObject({
      code: "LIMIT_EXCEEDED",
      message: expect.stringContaining("limits.max_file_size_bytes") as string,
    });
  });

  it("limit the number of files, also for concurrent calls", async () => {
    const one = fixture.agent({ mode: "code", limits: { max_files: 3 } });
    const write = async (path: string) =>
      await one.call("sandbox_fs_write", { path, contents: "x" }).then(
        () => "written",
        (error: { code: string }) => error.code,
      );
    await one.call("sandbox_open");
    const results = await Promise.all(["a", "b", "c", "d", "e"].map(write));
    expect(results).toEqual(["written", "written", "written", "LIMIT_EXCEEDED", "LIMIT_EXCEEDED"]);
    expect(await write("a")).toBe("written");
    await one.call("sandbox_fs_delete", { path: "b" });
    expect(await write("d")).toBe("written");
    expect(await write("e")).toBe("LIMIT_EXCEEDED");
    // A failed write does not count towards the limit.
    await one.call("sandbox_fs_delete", { path: "a" });
    await expect(
      one.call("sandbox_fs_write", { path: "c/below-a-file", contents: "x" }),
    ).rejects.toMatchObject({ name: "ToolError" });
    expect(await write("e")).toBe("written");
  });

  it("allow files of 10 MiB by default, and say when the disk is full", async () => {
    const one = fixture.agent({ mode: "code", limits: { workspace_mb: 16 } });
    const contents = "x".repeat(10_485_760);
    expect((await one.call("sandbox_fs_write", { path: "one", contents })).size_bytes).toBe(
      10_485_760,
    );
    await expect(
      one.call("sandbox_fs_write", { path: "more", contents: `${contents}x` }),
    ).rejects.toMatchObject({ code: "LIMIT_EXCEEDED" });
    await expect(one.call("sandbox_fs_write", { path: "two", contents })).rejects.toMatchObject({
      code: "LIMIT_EXCEEDED",
      message: expect.stringMatching(/space|full/) as string,
    });
  });
});

describe("the file store", () => {
  let directory: string;
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), "sandkasten-store-"));
    await writeFile(join(directory, "numbers.csv"), "1\n2\n3\n");
  });
  afterAll(async () => {
    await rm(directory, { recursive: true, force: true });
  });

  it("copies files into a sandbox and publishes its results", async () => {
    const fileStore = new DirectoryFileStore(directory);
    const one = fixture.agent({ mode: "code" }, { fileStore });
    expect(await one.call("sandbox_stage_file", { name: "numbers.csv", path: "in/n.csv" })).toEqual(
      {
        ok: true,
        name: "numbers.csv",
        path: "/workspace/in/n.csv",
        size_bytes: 6,
      },
    );
    await one.call("sandbox_exec", { cmd: "mkdir out; paste -sd+ in/n.csv | bc > out/sum.txt" });
    const published = await one.call("sandbox_publish_file", {
      path: "out/sum.txt",
      name: "results/sum.txt",
    });
    expect(published).toEqual({
      ok: true,
      name: "results/sum.txt",
      path: "/workspace/out/sum.txt",
      size_bytes: 2,
    });
    expect(await readFile(join(directory, "results/sum.txt"), "utf8")).toBe("6\n");
    expect(await one.call("sandbox_stage_file", { file_key: "numbers.csv" })).toMatchObject({
      path: "/workspace/numbers.csv",
    });
  });

  it("lists the available files if one is missing, and refuses to publish forbidden ones", async () => {
    const fileStore = new DirectoryFileStore(directory);
    const policy = { maxArtifactBytes: 10 };
    const one = fixture.agent({ mode: "code" }, { fileStore, policy });
    await expect(one.call("sandbox_stage_file", { name: "number.csv" })).rejects.toMatchObject({
      code: "FILE_NOT_FOUND",
      message: expect.stringContaining("Did you mean numbers.csv?") as string,
    });
    await one.call("sandbox_exec", { cmd: "ln -s /etc/passwd p; seq 100 > large" });
    await expect(one.call("sandbox_publish_file", { path: "p" })).rejects.toMatchObject({
      code: "REFUSED",
    });
    await expect(one.call("sandbox_publish_file", { path: "large" })).rejects.toMatchObject({
      code: "LIMIT_EXCEEDED",
    });
    await one.call("sandbox_exec", { cmd: "echo x > small" });
    for (const name of ["../outside", "/etc/outside", "a//b", "..", "a/../../b"])
      await expect(one.call("sandbox_publish_file", { path: "small", name })).rejects.toMatchObject(
        { code: "INVALID_INPUT" },
      );
  });
});
