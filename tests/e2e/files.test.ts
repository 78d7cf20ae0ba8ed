/** The file API over HTTP and the SDK, on real sandboxes: what only a real file system can show. */
import { SandboxClient } from "@sandkasten/sdk";
import type { Session } from "@sandkasten/sdk";
import { readTar } from "@sandkasten/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TestDaemon } from "../support/test-daemon.ts";

let daemon: TestDaemon;
let client: SandboxClient;
let session: Session;
beforeAll(async () => {
  daemon = await TestDaemon.start();
  client = new SandboxClient({ baseUrl: daemon.url, apiKey: daemon.apiKey });
  session = await client.createSession();
});
afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
});

describe("files of a real sandbox", () => {
  it("with names that are not UTF-8 are listed, read, written, moved, copied and removed", async () => {
    const { files } = session;
    await session.exec("mkdir raw; printf one >$'raw/\\xff\\xfe'; printf two >$'raw/\\xc3('");
    const entries = await Array.fromAsync(files.list("raw"));
    expect(entries).toHaveLength(2);
    const texts = await Promise.all(entries.map((entry) => files.readText(entry)));
    expect(texts.toSorted()).toEqual(["one", "two"]);
    for (const entry of entries) {
      const { etag } = await files.stat(entry);
      await files.write(entry, "written", { ifMatch: etag });
      await files.append(entry, "!");
      expect(await files.readText(entry)).toBe("written!");
      expect(await files.realpath(entry)).toMatchObject({ rawPath: entry.rawPath });
      const moved = new Uint8Array([...new TextEncoder().encode("raw/moved-"), 0xff]);
      await files.copy(entry, "raw/copy");
      await files.move(entry, moved);
      await files.remove(moved);
      await files.remove("raw/copy");
    }
    await files.remove("raw");
    expect((await session.exec("ls")).stdout).not.toContain("raw");
  });

  it.each([
    [".", "/workspace/plain"],
    ["./sub/./", "/workspace/sub/plain"],
    ["/workspace/./sub//.", "/workspace/sub/plain"],
  ])(
    "have their usual path in responses, however it was asked for: %s",
    async (directory, path) => {
      for (const prefix of [`sessions/${session.id}`, "workspaces/plain"]) {
        const ask = async (
          query: string,
          method: string,
          body: string | FormData,
        ): Promise<unknown> => {
          const response = await fetch(`${daemon.url}/v1/${prefix}/fs/${query}`, {
            method,
            body,
            headers: { authorization: `Bearer ${daemon.apiKey}` },
          });
          return await response.json();
        };
        const form = new FormData();
        form.append("file", new Blob(["1"]), "plain");
        expect(await ask(`upload?path=${directory}`, "POST", form)).toMatchObject({
          paths: [path],
        });
        expect(await ask(`file?path=${directory}/plain`, "PUT", "2")).toMatchObject({ path });
      }
    },
  );

  it.each([
    ["sessions", "."],
    ["sessions", "./"],
    ["workspaces", "."],
    ["workspaces", "/"],
  ])("have their usual path in the list of a root: %s, %s", async (place, root) => {
    const headers = { authorization: `Bearer ${daemon.apiKey}` };
    const of = `${daemon.url}/v1/${place}/${place === "sessions" ? session.id : "plain"}/fs`;
    await fetch(`${of}/file?path=listed`, { method: "PUT", body: "1", headers });
    const response = await fetch(`${of}?path=${root}`, { headers });
    expect(await response.json()).toMatchObject({
      path: "/workspace",
      entries: expect.arrayContaining([
        expect.objectContaining({ path: "/workspace/listed", name: "listed" }),
      ]),
    });
  });

  it("of a workspace are not written by a path that ends in a slash either", async () => {
    await expect(client.workspaces.files("plain").write("/made/", "")).rejects.toMatchObject({
      code: "NOT_A_FILE",
    });
  });

  it("are not named by a path that ends in a slash", async () => {
    const { files } = session;
    await session.exec("mkdir -p slash/dir && touch slash/file && ln -s file slash/link");
    const notDirectory = expect.objectContaining({ code: "NOT_A_DIRECTORY" });
    const notFile = expect.objectContaining({ code: "NOT_A_FILE" });
    await expect(files.write("slash/file/", "")).rejects.toEqual(notDirectory);
    await expect(files.append("slash/file/", "")).rejects.toEqual(notDirectory);
    await expect(files.copy("slash/file/", "slash/copy")).rejects.toEqual(notDirectory);
    await expect(files.remove("slash/file/")).rejects.toEqual(notDirectory);
    await expect(files.remove("slash/link/")).rejects.toEqual(notDirectory);
    for (const path of ["slash/dir/", "slash/none/"]) {
      await expect(files.write(path, "")).rejects.toEqual(notFile);
      await expect(files.append(path, "")).rejects.toEqual(notFile);
    }
    await expect(files.copy("slash/file", "slash/none/")).rejects.toEqual(notFile);
    await expect(files.copy("slash/link", "slash/none/")).rejects.toEqual(notFile);
    const overwrite = { overwrite: true };
    await expect(files.copy("slash/link", "slash/file/", overwrite)).rejects.toEqual(notDirectory);
    expect((await session.exec("ls /workspace/slash")).stdout).toBe("dir\nfile\nlink\n");
    await files.copy("slash/dir/", "slash/copied/", { recursive: true });
    await files.remove("slash/copied/");
  });

  it("are told apart from what they are refused for, without the numbers of errors", async () => {
    const { files } = session;
    await session.exec("mkdir -p /workspace/outer/inner");
    await expect(files.move("outer", "outer/inner/outer")).rejects.toThrow(
      "/workspace/outer cannot be moved into itself",
    );
    await expect(files.readText("outer/none")).rejects.toThrow(
      /^open \/workspace\/outer\/none: No such file or directory$/,
    );
  });

  it.each([
    ["gzip", "1f8b08"],
    ["bzip2", "425a6839314159265359"],
    ["xz", "fd377a585a00"],
    ["zstd", "28b52ffd"],
  ])("are not unpacked from an archive that is compressed with %s", async (name, magic) => {
    const archive = Buffer.concat([Buffer.from(magic, "hex"), Buffer.alloc(2048, "x")]);
    await expect(session.files.untar("unpacked", archive)).rejects.toThrow(
      `the archive is compressed with ${name}; send it uncompressed`,
    );
  });

  it("are unpacked from an archive that begins with the name BZh", async () => {
    await session.exec("mkdir named; echo yes >named/BZh; tar -cf named.tar -C named BZh");
    await session.files.untar("named-again", await session.files.read("named.tar"));
    expect(await session.files.readText("named-again/BZh")).toBe("yes\n");
  });

  it("that cannot be read fail an archive before it starts, or are omitted and named", async () => {
    const { files } = session;
    await session.exec(
      "mkdir -p tree/closed tree/node_modules; touch tree/a 'tree/closed/b' tree/node_modules/c; chmod 000 tree/closed",
    );
    await expect(files.tar("tree")).rejects.toMatchObject({
      status: 403,
      code: "PERMISSION_DENIED",
      message: expect.stringContaining("/workspace/tree/closed") as string,
    });
    const skipped: unknown[] = [];
    const archive = await files.tar("tree", {
      exclude: ["node_modules"],
      onUnreadable: "skip",
      onSkipped: (count, paths) => void skipped.push(count, ...paths),
    });
    const packed = readTar(await new Response(archive).bytes());
    expect(packed.map(({ path }) => path)).toEqual(["a"]);
    expect(skipped).toEqual([1, "/workspace/tree/closed"]);
    const complete = await files.tar("tree", { exclude: ["closed"], on_unreadable: "fail" });
    expect(readTar(await new Response(complete).bytes())).toHaveLength(3);
  });

  it("that become unreadable later break the connection, so no client gets a complete archive", async () => {
    const { files } = session;
    await session.exec("mkdir -p late/z; head -c 30000000 /dev/zero >late/a; touch late/z/x");
    const archive = await files.tar("late");
    await session.exec("chmod 000 late/z");
    await expect(new Response(archive).bytes()).rejects.toMatchObject({
      code: "CONNECTION_FAILED",
    });
  });

  it("accept concurrent appends without mixing, also from streams", async () => {
    const { files } = session;
    const line = (letter: string): string => `${letter.repeat(300_000)}\n`;
    await Promise.all(
      ["a", "b", "c", "d", "e", "f"].map((letter) =>
        files.append("log", new Blob([line(letter)]).stream()),
      ),
    );
    const lines = (await files.readText("log")).split("\n");
    expect(lines.toSorted().map((text) => `${text[0] ?? ""}${text.length}`)).toEqual([
      "0",
      ...["a", "b", "c", "d", "e", "f"].map((letter) => `${letter}300000`),
    ]);
  });

  it("that are written and copied are watched without their temporary names", async () => {
    const { files } = session;
    await session.exec("mkdir watched");
    const paths = new Set<string>();
    const changes = files.watch("watched", { recursive: true });
    const seen = (async () => {
      for await (const { path } of changes) {
        paths.add(path);
        if (path.endsWith("/end")) return;
      }
    })();
    // A new directory is watched only after the watch has noticed it.
    const until = async (path: string, change: () => Promise<unknown>): Promise<void> => {
      while (!paths.has(`/workspace/watched/${path}`)) await change();
    };
    await until("start", () => session.exec("touch watched/start"));
    await files.writeText("watched/file", "text");
    await session.exec("mkdir watched/tree");
    await until("tree/leaf", () => files.writeText("watched/tree/leaf", "text"));
    await files.copy("watched/tree", "watched/copy", { recursive: true });
    await until("copy/leaf", () => files.writeText("watched/copy/leaf", "text"));
    await session.exec("touch watched/end");
    await seen;
    expect([...paths].map((path) => path.replace("/workspace/watched/", "")).toSorted()).toEqual([
      "copy",
      "copy/leaf",
      "end",
      "file",
      "start",
      "tree",
      "tree/leaf",
    ]);
  });

  it("of more directories than can be watched are refused with the right error", async () => {
    await session.exec("mkdir -p many/{1..70}/{1..70}");
    await expect(session.files.watch("many", { recursive: true }).next()).rejects.toMatchObject({
      status: 429,
      code: "QUOTA_EXCEEDED",
      message: expect.stringContaining("watch a smaller directory") as string,
    });
  });
});
