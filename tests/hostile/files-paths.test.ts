/** Threats: path traversal and links to the host. Whatever a path looks like, file work sees the sandbox and nothing else. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
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

describe("path tricks (threat: path traversal)", () => {
  test("lead only into the sandbox's own root", async () => {
    await aroundCase(machine, async ({ sandbox, sentinel }) => {
      const { channel } = await sandbox();
      await channel.writeFile("plain.txt", Buffer.from("mine"));
      const up = "../".repeat(64);
      for (const path of [
        "plain.txt",
        "./plain.txt",
        "//workspace//plain.txt",
        "../workspace/plain.txt",
        `${up}workspace/plain.txt`,
        "/workspace/./../workspace/plain.txt",
      ])
        expect(String(await readAll(channel, path)), `read ${path}`).toBe("mine");
      for (const path of [
        sentinel.path,
        `${up}${sentinel.path}`,
        `//${sentinel.path}`,
        `/proc/self/root${sentinel.path}`,
        `/proc/1/root${sentinel.path}`,
        `/proc/self/cwd/${up}${sentinel.path}`,
      ])
        expect(await outcomeOf(readAll(channel, path)), `read ${path}`).toMatch(
          /FILE_NOT_FOUND|PERMISSION_DENIED|INVALID_REQUEST/u,
        );
      // A name is used literally: nothing is decoded.
      await channel.writeFile("%2e%2e%2fodd", Buffer.from("odd"));
      expect((await channel.stat("/workspace/%2e%2e%2fodd")).size).toBe(3);
    });
  });

  test("a NUL or an empty path is refused before it is sent", async () => {
    await aroundCase(machine, async ({ sandbox }) => {
      const { channel } = await sandbox();
      for (const path of ["plain.txt\0.png", "\0", "/etc/passwd\0", ""])
        for (const operation of [
          () => channel.stat(path),
          () => channel.readFile(path),
          () => channel.writeFile(path, Buffer.from("x")),
          () => channel.listDirectory(path),
          () => channel.makeDirectory(path),
          () => channel.move(path, "b"),
          () => channel.move("b", path),
          () => channel.remove(path),
          () => channel.extractTar(path, Buffer.alloc(1024)),
          () => channel.createTar(path),
        ])
          expect(await outcomeOf((async () => await operation())())).toBe("INVALID_REQUEST");
    });
  });

  test("names of 255 bytes, with newlines, and that are not UTF-8 are all listed, removed and packed", async () => {
    await aroundCase(machine, async ({ sandbox }) => {
      const { channel, sh } = await sandbox();
      const longest = "ü".repeat(127) + "x";
      await channel.writeFile(`/workspace/names/${longest}`, Buffer.from("1"));
      expect(String(await readAll(channel, `names/${longest}`))).toBe("1");
      expect(await outcomeOf(channel.writeFile(`names/${longest}y`, Buffer.from("1")))).toBe(
        "PAYLOAD_TOO_LARGE",
      );
      await channel.writeFile("names/two\nlines\u001b[31m", Buffer.from("2"));
      await sh(`printf 3 > $'names/\\xff\\xfe'; printf 4 > $'names/\\xf0\\x9f'`);
      const { entries } = await channel.listDirectory("names");
      expect(entries).toHaveLength(4);
      expect(entries.map(({ name }) => name)).toContain("two\nlines\u001b[31m");
      const raw = entries.flatMap(({ rawPath }) => rawPath ?? []);
      expect(raw.map((path) => Buffer.from(path, "base64").toString("latin1"))).toEqual([
        "/workspace/names/\u00f0\u009f",
        "/workspace/names/\u00ff\u00fe",
      ]);
      const archive = await bytesOf(await channel.createTar("names"));
      await channel.extractTar("copy", archive);
      expect((await channel.listDirectory("copy")).entries).toHaveLength(4);
      await channel.remove("names", { recursive: true });
      expect(await outcomeOf(channel.stat("names"))).toBe("FILE_NOT_FOUND");
    });
  });

  test("cursors that no page ever returned are refused", async () => {
    await aroundCase(machine, async ({ sandbox }) => {
      const { channel } = await sandbox();
      await channel.writeFile("a/b", Buffer.from("x"));
      const forged = ["..", "../etc", "a/../..", "/etc", "a//b", ".", "a\0b"];
      for (const cursor of [
        "not base64!",
        "====",
        "A",
        ...forged.map((path) => Buffer.from(path).toString("base64")),
      ])
        expect(
          await outcomeOf(channel.listDirectory("/workspace", { cursor, recursive: true })),
          `cursor ${cursor}`,
        ).toBe("INVALID_REQUEST");
      // A well-formed cursor that names nothing is only a position in the order.
      const beyond = Buffer.from("zzz/no/such").toString("base64");
      const page = await channel.listDirectory("/workspace", { cursor: beyond, recursive: true });
      expect(page.entries).toEqual([]);
    });
  });
});

describe("the runner's own /proc (threats: links to the host and attacks on PID 1)", () => {
  test("nothing that only root can access can be read or written there", async () => {
    await aroundCase(machine, async ({ sandbox }) => {
      const { channel } = await sandbox();
      for (const directory of ["/proc/self", "/proc/1", "/proc/thread-self"]) {
        for (const name of ["environ", "mem", "auxv", "syscall", "stack", "io", "pagemap"])
          expect(
            await outcomeOf(readAll(channel, `${directory}/${name}`, { length: 14 })),
            `${directory}/${name}`,
          ).toMatch(/PERMISSION_DENIED|FILE_NOT_FOUND/u);
        for (const name of [
          "oom_score_adj",
          "mem",
          "comm",
          "fd/0",
          "root/x",
          "exe",
          "attr/current",
        ])
          expect(
            await outcomeOf(channel.writeFile(`${directory}/${name}`, Buffer.from("1000"))),
            `${directory}/${name}`,
          ).not.toBe("done");
      }
      expect(await outcomeOf(channel.ping())).toBe("done");
    });
  });

  test("descriptors of the runner give access to nothing", async () => {
    await aroundCase(machine, async ({ sandbox }) => {
      const { channel } = await sandbox();
      const reached: string[] = [];
      const tryOn = async (what: string, operation: Promise<unknown>): Promise<void> => {
        const outcome = await outcomeOf(operation);
        if (outcome === "done" || outcome === "HANGS") reached.push(`${what}: ${outcome}`);
      };
      const links = ["self", "1"].flatMap((directory) =>
        Array.from({ length: 14 }, (_, fd) => `/proc/${directory}/fd/${fd}`),
      );
      for (const link of links) {
        await tryOn(`read ${link}`, readAll(channel, link, { length: 64 }));
        await tryOn(`list ${link}`, channel.listDirectory(link));
        await tryOn(`list ${link}/..`, channel.listDirectory(`${link}/..`));
        await tryOn(`read ${link}/cgroup.stat`, readAll(channel, `${link}/cgroup.stat`));
        await tryOn(`stat ${link}/cgroup.stat`, channel.stat(`${link}/cgroup.stat`));
        await tryOn(
          `pack ${link}/cgroup.stat`,
          channel.createTar(`${link}/cgroup.stat`).then(bytesOf),
        );
        await tryOn(`mkdir ${link}/x`, channel.makeDirectory(`${link}/x`));
        await tryOn(`write ${link}/x`, channel.writeFile(`${link}/x`, Buffer.from("1")));
        await tryOn(`unpack ${link}`, channel.extractTar(`${link}/.`, Buffer.alloc(1024)));
        await tryOn(`remove ${link}/init`, channel.remove(`${link}/init`));
        await tryOn(`watch ${link}`, channel.watch(link));
      }
      expect(reached).toEqual([]);
      expect(await outcomeOf(channel.ping())).toBe("done");
    });
  });
});

describe("symlinks (threat: links to the host)", () => {
  test("to host paths show the sandbox's own view", async () => {
    await aroundCase(machine, async ({ sandbox, sentinel }) => {
      const { channel, sh } = await sandbox();
      await sh(`ln -s ${sentinel.path} file; ln -s ${sentinel.directory} dir; ln -s /root root`);
      for (const path of ["file", "dir/sentinel"])
        expect(await outcomeOf(readAll(channel, path)), `read ${path}`).toBe("FILE_NOT_FOUND");
      expect(await outcomeOf(channel.listDirectory("dir"))).toBe("FILE_NOT_FOUND");
      expect(await outcomeOf(channel.listDirectory("root"))).toBe("PERMISSION_DENIED");
      expect(await channel.stat("file")).toMatchObject({ type: "symlink", target: sentinel.path });
      // Written through, the link leads to a file of that name inside.
      await channel.writeFile("file", Buffer.from("inside"));
      expect((await sh(`cat ${sentinel.path}`)).stdout).toBe("inside");
      await channel.remove("dir");
      expect((await sh(`ls ${sentinel.directory}`)).stdout).toBe("sentinel\n");
    });
  });

  test("loops end in an error", async () => {
    await aroundCase(machine, async ({ sandbox }) => {
      const { channel, sh } = await sandbox();
      await sh("ln -s b a; ln -s a b; ln -s self/x self; mkdir d; ln -s ../d d/again");
      for (const operation of [
        () => readAll(channel, "a"),
        () => readAll(channel, "self"),
        () => channel.writeFile("a", Buffer.from("x")),
        () => channel.writeFile("self/y", Buffer.from("x")),
        () => channel.listDirectory("b"),
        () => channel.extractTar("a/in", Buffer.alloc(1024)),
      ])
        expect(await outcomeOf(operation())).toMatch(/INVALID_REQUEST|FILE_EXISTS/u);
      const { entries } = await channel.listDirectory("/workspace", { recursive: true });
      expect(entries.map(({ path }) => path)).toEqual(
        ["a", "b", "d", "d/again", "self"].map((name) => `/workspace/${name}`),
      );
    });
  });
});
