/** Threats: links to the host and path races. Links that are swapped during a file call reveal nothing. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { file, hardLink, tarOf } from "../../packages/daemon/src/images/testing/tar-writer.ts";
import type { TarItem } from "../../packages/daemon/src/images/testing/tar-writer.ts";
import { aroundCase, warmUp } from "../support/oracles/around-case.ts";
import { runtimeUnderTest } from "../support/runtime-under-test.ts";
import { SandboxMachine } from "../support/sandbox-machine.ts";
import { importImageWithSecret, SECRET } from "../support/secret-image.ts";
import { installAttack } from "../torture/attacks/install-attack.ts";
import { bytesOf, outcomeOf, readAll } from "../torture/attacks/outcome.ts";

const SWAP_SECONDS = 10;

let machine: SandboxMachine;
let image: string;
beforeAll(async () => {
  machine = await SandboxMachine.start({ runtime: runtimeUnderTest() });
  image = await importImageWithSecret(machine);
  await warmUp(machine);
});
afterAll(() => machine[Symbol.asyncDispose]());

test("a file that only root inside can read is refused, however it is requested", async () => {
  await aroundCase(machine, async ({ sandbox }) => {
    const { channel, sh } = await sandbox({ image });
    await sh("busybox ln -s /secret/open/key link; busybox ln -s /secret/open dir");
    for (const path of ["/secret/open/key", "/secret/closed/key", "link", "dir/key"])
      expect(await outcomeOf(readAll(channel, path)), `read ${path}`).toBe("PERMISSION_DENIED");
    for (const path of ["/secret/open/new", "/secret/open/key", "dir/key", "dir/new"])
      expect(await outcomeOf(channel.writeFile(path, Buffer.from("x"))), `write ${path}`).toBe(
        "PERMISSION_DENIED",
      );
    expect(await outcomeOf(channel.listDirectory("/secret/closed"))).toBe("PERMISSION_DENIED");
    expect(await outcomeOf(channel.createTar("/secret").then(bytesOf))).toBe("PERMISSION_DENIED");
    for (const path of ["/secret/open/key", "/secret/closed/key", "link", "dir/key"])
      expect(await outcomeOf(channel.appendFile(path, Buffer.from("x"))), `append ${path}`).toBe(
        "PERMISSION_DENIED",
      );
    for (const path of ["/secret", "/secret/open", "/secret/open/key", "dir/key"])
      expect(await outcomeOf(channel.copy(path, "copy", { recursive: true })), `copy ${path}`).toBe(
        "PERMISSION_DENIED",
      );
    expect(await outcomeOf(channel.copy("link", "dir/new"))).toBe("PERMISSION_DENIED");
    expect(await outcomeOf(channel.realpath("/secret/closed/key"))).toBe("PERMISSION_DENIED");
    expect(await outcomeOf(channel.stat("/secret/closed/key", { follow: true }))).toBe(
      "PERMISSION_DENIED",
    );
    expect((await channel.listDirectory(".")).entries.map(({ name }) => name)).toEqual([
      "dir",
      "link",
    ]);
    expect(await outcomeOf(channel.remove("dir/key"))).toBe("PERMISSION_DENIED");
    expect(await outcomeOf(channel.move("/secret/open/key", "mine"))).toBe("PERMISSION_DENIED");
    expect(await outcomeOf(channel.move("/secret/open/key", "/tmp/mine"))).toBe(
      "PERMISSION_DENIED",
    );
    const unpack = (into: string, ...items: TarItem[]): Promise<string> =>
      outcomeOf(channel.extractTar(into, tarOf(items)));
    expect(await unpack("/secret/open", file("new", "x"))).toBe("PERMISSION_DENIED");
    expect(await unpack("/secret/open", file("key", "x"))).toBe("PERMISSION_DENIED");
    // An archive cannot link it into the workspace either: its links only lead into the archive.
    for (const target of ["/secret/open/key", "../secret/open/key", "dir/key"])
      expect(await unpack(".", hardLink("mine", target)), `hard link to ${target}`).not.toBe(
        "done",
      );
    expect(await outcomeOf(channel.stat("mine"))).toBe("FILE_NOT_FOUND");
  });
});

test("while names are swapped, nothing is read, written, listed or removed behind them", async () => {
  await aroundCase(machine, async ({ sandbox, sentinel }) => {
    const { channel, sh, run } = await sandbox({ image });
    const exchange = await installAttack(channel, "exchange");
    const setUp = await sh(
      `busybox mkdir -p dir keep /home/sandbox/keep
       echo mine >file; echo mine >version; echo mine >dir/key; echo precious >/home/sandbox/keep/precious
       busybox ln -s /secret/open/key file-link; busybox ln -s /secret/open/key version-link; busybox ln -s ${sentinel.path} host-link; echo mine >host
       busybox ln -s /secret/open dir-link; busybox ln -s /home/sandbox/keep tree-link; busybox mkdir tree`,
    );
    expect(setUp).toMatchObject({ exitCode: 0, stderr: "" });
    const pairs = ["file", "version", "host", "dir", "tree"].flatMap((name) => [
      name,
      `${name}-link`,
    ]);
    const swapping = run([exchange, String(SWAP_SECONDS), ...pairs]);
    const until = performance.now() + SWAP_SECONDS * 1_000;
    const seen = new Map<string, number>();
    const count = (what: string): void => void seen.set(what, (seen.get(what) ?? 0) + 1);
    const attempt = async (name: string, operation: () => Promise<unknown>): Promise<void> => {
      while (performance.now() < until) count(`${name} ${await outcomeOf(operation())}`);
    };
    const read = async (path: string): Promise<void> => {
      const text = String(await readAll(channel, path));
      if (text !== "mine\n") throw new Error(`${path} gave away ${text}`);
    };
    const results = await Promise.all([
      attempt("read", () => read("file")),
      attempt("read below", () => read("dir/key")),
      attempt("read host", () => read("host")),
      attempt("write", () => channel.writeFile("dir/new", Buffer.from("new"))),
      attempt("pack", async () => {
        const archive = await bytesOf(await channel.createTar("dir"));
        if (archive.includes(SECRET)) throw new Error("the archive gave away the secret");
        sentinel.expectNotIn("the archive", archive);
      }),
      attempt("list", () => channel.listDirectory("tree", { recursive: true })),
      attempt("remove", async () => {
        await channel.makeDirectory("tree/sub/deep", { parents: true }).catch(() => undefined);
        await channel.remove("tree/sub", { recursive: true });
      }),
      attempt("move", () => channel.move("dir/new", "moved", { overwrite: true })),
      attempt("append", () => channel.appendFile("dir/log", Buffer.from("new"))),
      attempt("copy", async () => {
        await channel.copy("dir", "copy", { recursive: true });
        const archive = await bytesOf(await channel.createTar("copy"));
        await channel.remove("copy", { recursive: true });
        if (archive.includes(SECRET)) throw new Error("the copy gave away the secret");
        sentinel.expectNotIn("the copy", archive);
      }),
      attempt("copy to", () => channel.copy("host", "dir/copied", { overwrite: true })),
      attempt("write the version", async () => {
        // It replaces the link with a new file, so no other attempt can share the name.
        const { version } = await channel.stat("version", { follow: true });
        await channel.writeFile("version", Buffer.from("mine\n"), { ifVersion: version });
      }),
    ]);
    expect(results).toHaveLength(12);
    expect(Number((await swapping).stdout)).toBeGreaterThan(1_000);
    // Both sides of the race occurred, so it was one; and nothing hung.
    expect([...seen.keys()]).toEqual(
      expect.arrayContaining(["read done", "read PERMISSION_DENIED"]),
    );
    expect([...seen.keys()].filter((what) => what.endsWith("HANGS"))).toEqual([]);
    expect((await sh("busybox cat /home/sandbox/keep/precious")).stdout).toBe("precious\n");
    expect((await channel.listDirectory("/secret/open")).entries.map(({ name }) => name)).toEqual([
      "key",
    ]);
  });
});

test("a tree that is removed while its root becomes a link removes nothing else", async () => {
  await aroundCase(machine, async ({ sandbox }) => {
    const { channel, sh, run } = await sandbox();
    const swap = await installAttack(channel, "swap-link");
    // The content of `locked` cannot be removed, so the tree is there for every attempt.
    await sh(
      `mkdir -p keep doomed/locked; touch swapping keep/{1..50} doomed/locked/file
       chmod a-w doomed/locked; ln -s keep link`,
    );
    const swapped = run([swap, "swapping", "doomed", "link", "keep"]);
    const seen = { tree: 0, link: 0, linkInsteadOfTree: 0 };
    const hasStruck = (): boolean => Object.values(seen).every((count) => count >= 5);
    const worker = async (name: string): Promise<void> => {
      while (!hasStruck()) {
        const outcome = await channel.remove(name, { recursive: true }).then(
          () => "removed",
          (error: unknown) => String(error),
        );
        if (outcome === "removed") seen.link++;
        if (outcome.includes("Permission denied")) seen.tree++;
        // A tree when it could not be removed at once, and a link when it was opened.
        if (/remove in .*Not a directory/u.test(outcome)) seen.linkInsteadOfTree++;
        const { entries } = await channel.listDirectory("keep");
        expect(entries, `after ${outcome}`).toHaveLength(50);
      }
    };
    await Promise.all(["doomed", "link"].map(worker));
    await channel.remove("swapping");
    expect(await swapped).toMatchObject({ exitCode: 0 });
  });
});

test("a real path that is read with a file is never that of another file", async () => {
  await aroundCase(machine, async ({ sandbox }) => {
    const { channel, sh, run } = await sandbox();
    const exchange = await installAttack(channel, "exchange");
    await sh("echo /workspace/a >a; echo /workspace/b >b; ln -s a link; ln -s b other");
    const swapping = run([exchange, "600", "link", "other"]);
    const seen = new Map<string, number>();
    while (seen.size < 2 || [...seen.values()].some((count) => count < 200)) {
      const { realPath, body } = await channel.readFile("link", { realPath: true });
      const content = Buffer.concat(await Array.fromAsync(body)).toString();
      expect(`${realPath?.path}\n`).toBe(content);
      seen.set(content, (seen.get(content) ?? 0) + 1);
    }
    await sh("pkill exchange");
    await swapping;
  });
});
