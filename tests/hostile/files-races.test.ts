/** Threats 31 and 32: links that are swapped while the file API looks give away nothing. */
import { chmod, copyFile, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { importTree } from "../support/images.ts";
import { aroundCase, warmUp } from "../support/oracles/around-case.ts";
import { runtimeUnderTest } from "../support/runtime-under-test.ts";
import { SandboxMachine } from "../support/sandbox-machine.ts";
import { installAttack } from "../torture/attacks/install-attack.ts";
import { bytesOf, outcomeOf, readAll } from "../torture/attacks/outcome.ts";

const SECRET = "for root's eyes only";
const SWAP_SECONDS = 10;

let machine: SandboxMachine;
let image: string;
beforeAll(async () => {
  machine = await SandboxMachine.start({ runtime: runtimeUnderTest() });
  image = await importImageWithSecret(machine);
  await warmUp(machine);
});
afterAll(() => machine[Symbol.asyncDispose]());

/** An image with files that only its root may read. */
async function importImageWithSecret(machine: SandboxMachine): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), "sandkasten-image-"));
  try {
    const root = join(directory, "root");
    await mkdir(join(root, "bin"), { recursive: true });
    await copyFile("/bin/busybox", join(root, "bin/busybox"));
    await symlink("busybox", join(root, "bin/sh"));
    for (const [name, mode] of [
      ["closed", 0o700],
      ["open", 0o755],
    ] as const) {
      await mkdir(join(root, "secret", name), { recursive: true });
      await writeFile(join(root, "secret", name, "key"), SECRET);
      await chmod(join(root, "secret", name, "key"), 0o600);
      await chmod(join(root, "secret", name), mode);
    }
    return await importTree(machine, "test-secret:latest", root);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

test("a file that only root inside may read is refused, whichever way it is asked for", async () => {
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
    expect(await outcomeOf(channel.remove("dir/key"))).toBe("PERMISSION_DENIED");
    expect(await outcomeOf(channel.move("/secret/open/key", "mine"))).toBe("PERMISSION_DENIED");
    expect(await outcomeOf(channel.move("/secret/open/key", "/tmp/mine"))).toBe(
      "PERMISSION_DENIED",
    );
    // Linking it into the workspace by an archive needs the right to it as well.
    expect(await outcomeOf(channel.extractTar("/secret/open", Buffer.alloc(1024)))).toMatch(
      /done|PERMISSION/u,
    );
  });
});

test("while names are swapped, nothing is read, written, listed or removed beyond them", async () => {
  await aroundCase(machine, async ({ sandbox, sentinel }) => {
    const { channel, sh, run } = await sandbox({ image });
    const exchange = await installAttack(channel, "exchange");
    const setUp = await sh(
      `busybox mkdir -p dir keep /home/sandbox/keep
       echo mine >file; echo mine >dir/key; echo precious >/home/sandbox/keep/precious
       busybox ln -s /secret/open/key file-link; busybox ln -s ${sentinel.path} host-link; echo mine >host
       busybox ln -s /secret/open dir-link; busybox ln -s /home/sandbox/keep tree-link; busybox mkdir tree`,
    );
    expect(setUp).toMatchObject({ exitCode: 0, stderr: "" });
    const pairs = ["file", "host", "dir", "tree"].flatMap((name) => [name, `${name}-link`]);
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
    ]);
    expect(results).toHaveLength(8);
    expect(Number((await swapping).stdout)).toBeGreaterThan(1_000);
    // Both sides of the race were seen, so it was one; and nothing ever hung.
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

test("a tree that is removed while its root becomes a link takes nothing else with it", async () => {
  await aroundCase(machine, async ({ sandbox }) => {
    const { channel, sh, run } = await sandbox();
    const exchange = await installAttack(channel, "exchange");
    await sh("mkdir keep doomed; touch keep/{1..50}; ln -s keep link");
    const swapping = run([exchange, "2", "doomed", "link"]);
    let removed = 0;
    const until = performance.now() + 2_000;
    while (performance.now() < until) {
      // Either name may be the link now; a link is removed itself, never what it leads to.
      for (const name of ["doomed", "link"])
        if ((await outcomeOf(channel.remove(name, { recursive: true }))) === "done") removed++;
      await sh(
        "[ -d doomed ] || [ -d link ] || mkdir -p doomed/sub/deep; [ -L link ] || [ -L doomed ] || ln -s keep link; touch doomed/{1..9} 2>/dev/null",
      );
    }
    await swapping;
    expect(removed).toBeGreaterThan(0);
    expect((await channel.listDirectory("keep")).entries.length).toBeGreaterThanOrEqual(50);
  });
});
