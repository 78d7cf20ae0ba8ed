/** Threats: hostile archives and images and links in downloads. Archives are unpacked and packed without leaving their directory. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  directory,
  file,
  hardLink,
  symlink,
  tarOf,
} from "../../packages/daemon/src/images/testing/tar-writer.ts";
import type { TarItem } from "../../packages/daemon/src/images/testing/tar-writer.ts";
import { aroundCase, warmUp } from "../support/oracles/around-case.ts";
import { runtimeUnderTest } from "../support/runtime-under-test.ts";
import { SandboxMachine } from "../support/sandbox-machine.ts";
import { bytesOf, outcomeOf, readAll } from "../torture/attacks/outcome.ts";

let machine: SandboxMachine;
beforeAll(async () => {
  machine = await SandboxMachine.start({ runtime: runtimeUnderTest() });
  await warmUp(machine);
});
afterAll(() => machine[Symbol.asyncDispose]());

interface Limits {
  readonly maxBytes?: number;
  readonly maxEntries?: number;
}

interface Unpacked {
  readonly outcome: string;
  /** Path, type and mode of everything that now exists. */
  readonly inside: readonly string[];
}

type Unpack = (items: readonly TarItem[] | Buffer, limits?: Limits) => Promise<Unpacked>;

/** Provides a function that unpacks into /workspace/in, next to which nothing may change. */
async function withUnpack(attack: (unpack: Unpack) => Promise<void>): Promise<void> {
  await aroundCase(machine, async ({ sandbox }) => {
    const { channel, sh } = await sandbox();
    await sh("mkdir outside; echo old >outside/file; chmod 600 outside/file; echo bait >bait");
    await attack(async (items, limits) => {
      await sh("rm -rf in");
      const archive = Buffer.isBuffer(items) ? items : tarOf(items);
      const outcome = await outcomeOf(channel.extractTar("in", archive, limits));
      const { stdout } = await sh(
        `find . -path ./in -prune -o -print | sort; stat -c %a outside/file; cat outside/file bait
         echo ===; find in -mindepth 1 -printf '%P %y %m\\n' | sort`,
      );
      const [beside, inside] = stdout.split("===\n");
      expect(beside).toBe(".\n./bait\n./outside\n./outside/file\n600\nold\nbait\n");
      return { outcome, inside: inside?.split("\n").filter(Boolean) ?? [] };
    });
  });
}

describe("an archive that is unpacked", () => {
  test("cannot climb by `..`", () =>
    withUnpack(async (unpack) => {
      for (const path of ["../outside/file", "a/../../outside/file", "..", "a/.."])
        expect(await unpack([file(path, "new")]), `path ${path}`).toEqual({
          outcome: "INVALID_REQUEST",
          inside: [],
        });
    }));

  test("has its absolute paths treated as relative", () =>
    withUnpack(async (unpack) => {
      expect(await unpack([file("/workspace/outside/file", "new"), file("//x", "y")])).toEqual({
        outcome: "done",
        inside: [
          "workspace d 755",
          "workspace/outside d 755",
          "workspace/outside/file f 644",
          "x f 644",
        ],
      });
    }));

  test("cannot write through a link that it created itself", () =>
    withUnpack(async (unpack) => {
      for (const target of ["/workspace/outside", "../outside", "/workspace/outside/"])
        expect(
          await unpack([symlink("link", target), file("link/file", "new")]),
          `link to ${target}`,
        ).toEqual({
          outcome: "NOT_A_DIRECTORY",
          inside: ["link l 777"],
        });
      // A file with the name of a link replaces it.
      expect(await unpack([symlink("link", "../outside/file"), file("link", "new")])).toEqual({
        outcome: "done",
        inside: ["link f 644"],
      });
      expect(await unpack([symlink("link", "../outside"), directory("link")])).toEqual({
        outcome: "FILE_EXISTS",
        inside: ["link l 777"],
      });
    }));

  test("cannot escape with two links and a hard link", () =>
    withUnpack(async (unpack) => {
      const { outcome, inside } = await unpack([
        symlink("a", "."),
        symlink("a/b", "../outside"),
        hardLink("c", "a/b/file"),
        file("c", "new"),
      ]);
      expect(outcome).not.toBe("done");
      expect(inside).toEqual(["a l 777"]);
      for (const target of ["../bait", "/workspace/bait", "link", "a/../../bait"])
        expect(
          (await unpack([symlink("link", "../bait"), hardLink("c", target), file("c", "new")]))
            .outcome,
          `hard link to ${target}`,
        ).toMatch(/INVALID_REQUEST|FILE_NOT_FOUND/u);
    }));

  test("creates no devices and no pipes", () =>
    withUnpack(async (unpack) => {
      for (const type of ["3", "4", "6", "S"] as const)
        expect(await unpack([{ path: "special", type }]), `type ${type}`).toEqual({
          outcome: "PERMISSION_DENIED",
          inside: [],
        });
    }));

  test("sets no set-id or sticky bits", () =>
    withUnpack(async (unpack) => {
      const items = [file("program", "x", { mode: 0o7755 }), directory("dir", { mode: 0o7777 })];
      expect(await unpack(items)).toEqual({
        outcome: "done",
        inside: ["dir d 777", "program f 755"],
      });
    }));

  test("is stopped at its limits of bytes and entries", () =>
    withUnpack(async (unpack) => {
      const large = file("large", Buffer.alloc(100_000));
      expect(await unpack([large], { maxBytes: 99_999 })).toEqual({
        outcome: "PAYLOAD_TOO_LARGE",
        inside: [],
      });
      expect((await unpack([large], { maxBytes: 100_000 })).outcome).toBe("done");
      const many = Array.from({ length: 11 }, (_, i) => file(`f${i}`, ""));
      const { outcome, inside } = await unpack(many, { maxEntries: 10 });
      expect(outcome).toBe("PAYLOAD_TOO_LARGE");
      expect(inside).toHaveLength(10);
      // The claimed size counts, not the actual one: it is refused before any content.
      const claims = [
        { path: "bomb", claimedBytes: 2 ** 43 },
        { path: "pax", pax: { size: "18446744073709551615" } },
      ];
      for (const claim of claims)
        expect(await unpack([claim]), `claim of ${claim.path}`).toEqual({
          outcome: "PAYLOAD_TOO_LARGE",
          inside: [],
        });
    }));

  test("is refused if it is truncated or not an archive", () =>
    withUnpack(async (unpack) => {
      const whole = tarOf([file("whole", "first"), file("cut", Buffer.alloc(5_000, 1))]);
      expect(await unpack(whole.subarray(0, 4_000))).toMatchObject({ outcome: "INVALID_REQUEST" });
      expect(await unpack(whole.subarray(0, 700))).toMatchObject({ outcome: "INVALID_REQUEST" });
      for (const garbage of [
        Buffer.alloc(100, 7),
        Buffer.alloc(2_048, 0xff),
        Buffer.from("PK\u0003\u0004".padEnd(512, "x")),
        tarOf([{ path: "x", pax: { path: "a/../../b" } }]),
        tarOf([{ path: "x", type: "x", content: "99999 path=cut\n" }]),
        tarOf([{ path: "x", type: "x", content: "0 =\n" }]),
        tarOf([{ path: "x", type: "L", claimedBytes: 2 ** 40 }]),
      ])
        expect((await unpack(garbage)).outcome).toMatch(/INVALID_REQUEST|PAYLOAD_TOO_LARGE/u);
    }));
});

test("a packed archive has links as links, and nothing of their targets", async () => {
  await aroundCase(machine, async ({ sandbox, sentinel }) => {
    const { channel, sh } = await sandbox();
    await sh(
      `mkdir -p tree/sub; echo content >tree/sub/file; cd tree
       ln -s ${sentinel.path} host; ln -s ${sentinel.directory} hosts; ln -s / root; ln -s ../.. up
       ln -s /etc/passwd passwd; ln -s /proc/self/environ environ; mkfifo pipe`,
    );
    const archive = await bytesOf(await channel.createTar("tree"));
    sentinel.expectNotIn("the archive", archive);
    await channel.writeFile("/tmp/tree.tar", archive);
    const { stdout } = await sh(
      "tar -tvf /tmp/tree.tar | sed -E 's/^(.).{9}.* [0-9:]+ /\\1 /' | sort",
    );
    expect(stdout.split("\n").filter(Boolean)).toEqual([
      "- sub/file",
      "d sub/",
      "l environ -> /proc/self/environ",
      `l host -> ${sentinel.path}`,
      `l hosts -> ${sentinel.directory}`,
      "l passwd -> /etc/passwd",
      "l root -> /",
      "l up -> ../..",
    ]);
    // The tree's own name can also be a link; it is stored as one, too.
    await sh("ln -s /etc ../link");
    expect(String(await bytesOf(await channel.createTar("link")))).not.toContain("passwd");
    expect(String(await readAll(channel, "tree/sub/file"))).toBe("content\n");
  });
});
