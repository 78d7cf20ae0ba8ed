/** Workspaces with every strategy: files behave alike, sandboxes are isolated, and nothing is left behind. */
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chmod, mkdir, readdir, rm, stat, symlink } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { channelSuite } from "@sandkasten/testkit";
import { describe, expect, test } from "vitest";
import { DOCKER_IMAGES, dockerUnderTest } from "../../../../../tests/support/docker-under-test.ts";
import { testSandbox } from "../../../../../tests/support/sandbox-machine.ts";
import type { StrategyName } from "./sandbox-labels.ts";
import { DockerMachine } from "./testing/docker-machine.ts";
import type { OwnSurroundings } from "./workspace/own-container.ts";

const run = promisify(execFile);
const STRATEGIES = ["bind", "shared-volume", "volume", "exec"] as const;

async function docker(...args: readonly string[]): Promise<string> {
  return (await run("docker", ["-H", dockerUnderTest(), ...args])).stdout.trim();
}

/** A volume, and where its files are: the engine runs on this machine. */
async function sharedVolume(): Promise<AsyncDisposable & { name: string; mountpoint: string }> {
  const name = `shared-${randomBytes(6).toString("hex")}`;
  await docker("volume", "create", name);
  const mountpoint = await docker("volume", "inspect", "-f", "{{.Mountpoint}}", name);
  return {
    name,
    mountpoint,
    [Symbol.asyncDispose]: async () => void (await docker("volume", "rm", name)),
  };
}

/** A machine with that strategy and, if the strategy needs one, a volume. */
async function machineWith(
  strategy: StrategyName,
): Promise<AsyncDisposable & { machine: DockerMachine; base: string }> {
  await using stack = new AsyncDisposableStack();
  const shared = strategy === "shared-volume" ? stack.use(await sharedVolume()) : undefined;
  const places = shared && { sharedVolume: shared.name, sharedDir: shared.mountpoint };
  const machine = stack.use(await DockerMachine.start({ workspace: { strategy, ...places } }));
  const moved = stack.move();
  return {
    machine,
    base: shared?.mountpoint ?? machine.options.workspace.dir,
    [Symbol.asyncDispose]: () => moved.disposeAsync(),
  };
}

for (const strategy of STRATEGIES)
  channelSuite(
    `docker with workspaces by ${strategy}`,
    async () => {
      const made = await machineWith(strategy);
      const { machine } = made;
      const { id } = await machine.create();
      return {
        channel: await machine.backend.open(id),
        reopen: () => machine.backend.open(id),
        close: async () => {
          await made[Symbol.asyncDispose]();
        },
      };
    },
    { parts: ["files"] },
  );

describe.each(STRATEGIES)("a workspace by %s", (strategy) => {
  test("is the same as /work, is visible to its own sandbox only, and is removed with it", async () => {
    await using made = await machineWith(strategy);
    const { machine, base } = made;
    const [one, two] = [await machine.create(), await machine.create()];
    const open = async (id: string): Promise<ReturnType<typeof testSandbox>> =>
      testSandbox(id, await machine.backend.open(id));
    const [first, second] = [await open(one.id), await open(two.id)];
    await first.channel.writeFile("secret", Buffer.from("of the first"));
    expect(
      (await first.sh("cat /work/secret; echo more > /work/more; cat /workspace/more")).stdout,
    ).toBe("of the firstmore\n");
    expect((await first.sh("touch ~/x && id -u && stat -c %u /workspace /work ~")).stdout).toBe(
      "1000\n1000\n1000\n1000\n",
    );
    // CT-13: a sandbox cannot see what is next to its own directory, by any path.
    const seen = await second.sh(
      "ls -a /workspace/.. /workspace /work/..; find / -name secret -not -path '/proc/*' 2>/dev/null; cat /proc/self/mountinfo",
    );
    expect(seen.stdout).not.toMatch(/secret/u);
    expect(seen.stdout).not.toContain(one.id);
    const mounted = await docker("inspect", "-f", "{{json .Mounts}}", one.id);
    if (strategy === "volume") expect(mounted).toContain(`station-sandbox-${one.id}`);
    if (strategy === "bind" || strategy === "shared-volume") {
      expect(mounted).toContain(`${join(base, one.id)}"`);
      expect((await stat(join(base, one.id))).mode & 0o777).toBe(0o755);
      expect((await readdir(base)).toSorted()).toEqual(
        [`.sandkasten-${machine.options.instance}`, one.id, two.id].toSorted(),
      );
    }
    for (const { id } of [one, two]) await machine.backend.destroy(id);
    if (strategy === "bind" || strategy === "shared-volume")
      expect(await readdir(base)).toEqual([]);
    const label = `label=sandkasten.instance=${machine.options.instance}`;
    expect(await docker("volume", "ls", "-q", "--filter", label)).toBe("");
    expect(await docker("ps", "-aq", "--filter", label)).toBe("");
  });
});

test("a tree that is deeper than any path is removed with its directory", async () => {
  await using made = await machineWith("bind");
  const { machine, base } = made;
  const { id } = await machine.create({ image: DOCKER_IMAGES.debian });
  const { run: inside } = testSandbox(id, await machine.backend.open(id));
  const deep = "for (1..3000) { mkdir 'd' x 10 and chdir 'd' x 10 or die $! }";
  expect(await inside(["perl", "-e", deep])).toMatchObject({ exitCode: 0 });
  await machine.backend.destroy(id);
  expect(await readdir(base)).toEqual([]);
});

describe("auto", () => {
  const outside = async (): Promise<OwnSurroundings> =>
    await Promise.resolve({ inContainer: false, candidates: [] });

  async function chosen(
    workspace: {
      readonly sharedDir?: string;
      readonly dir?: string;
      readonly strategy?: StrategyName;
    },
    surroundings: () => Promise<OwnSurroundings>,
  ): Promise<string> {
    await using machine = await DockerMachine.start({
      workspace: { strategy: "auto", ...workspace },
      surroundings,
    });
    const { checks } = await machine.backend.health();
    return checks.find(({ name }) => name === "workspace")?.detail ?? "";
  }

  /** A container of the engine that plays the daemon's own container. */
  async function ownContainer(
    ...flags: readonly string[]
  ): Promise<AsyncDisposable & { surroundings: () => Promise<OwnSurroundings> }> {
    const id = await docker("create", "--network=none", ...flags, DOCKER_IMAGES.busybox, "true");
    return {
      surroundings: () => Promise.resolve({ inContainer: true, candidates: ["nonsense", id] }),
      [Symbol.asyncDispose]: async () => void (await docker("rm", id)),
    };
  }

  test("on the engine's own machine uses directories that both see", async () => {
    expect(await chosen({}, outside)).toMatch(/^bind: the daemon and its engine both see/u);
  });

  test("in a container with the shared volume uses it, whatever its name", async () => {
    await using shared = await sharedVolume();
    await using own = await ownContainer(`--volume=${shared.name}:${shared.mountpoint}`);
    expect(await chosen({ sharedDir: shared.mountpoint }, own.surroundings)).toBe(
      "shared-volume: the daemon runs in a container that has the shared volume",
    );
  });

  test("in a container with a directory of the machine uses that directory, by its path there", async () => {
    await using machine = await DockerMachine.start();
    const [real, view] = [join(machine.directory, "real"), join(machine.directory, "view")];
    await mkdir(real);
    await symlink(real, view);
    await using own = await ownContainer(`--volume=${real}:${view}`);
    expect(await chosen({ dir: join(view, "workspaces") }, own.surroundings)).toMatch(
      /^bind: the daemon and its engine both see .*view\/workspaces$/u,
    );
  });

  test("in a container without either uses volumes, and says why", async () => {
    await using own = await ownContainer();
    expect(await chosen({}, own.surroundings)).toMatch(
      /^volume: the daemon runs in a container, .*\/shared does not exist, and .*\/workspaces is inside the container$/u,
    );
  });

  test("with signs of a container that the engine does not know, depends on what both see", async () => {
    const surroundings = (): Promise<OwnSurroundings> =>
      Promise.resolve({ inContainer: true, candidates: ["nonsense"] });
    expect(await chosen({}, surroundings)).toMatch(/^bind: /u);
  });

  test("never trusts a path: it detects another directory, or none, with that name", async () => {
    await using machine = await DockerMachine.start();
    const [ours, theirs] = [join(machine.directory, "ours"), join(machine.directory, "theirs")];
    await mkdir(theirs);
    await using own = await ownContainer(`--volume=${theirs}:${ours}`);
    expect(await chosen({ dir: ours }, own.surroundings)).toMatch(/^volume: /u);
    // If requested anyway, it is refused with a helpful message.
    expect(await chosen({ dir: ours, strategy: "bind" }, own.surroundings)).toMatch(
      /^the workspace strategy bind does not work: the engine does not see .*; set docker\.workspace to volume/u,
    );
  });

  test("does not use a directory that others can access", async () => {
    await using machine = await DockerMachine.start();
    const dir = join(machine.directory, "open");
    await mkdir(dir);
    await chmod(dir, 0o755);
    expect(await chosen({ dir }, outside)).toMatch(/^volume: .*no other user may enter/u);
    await rm(dir, { recursive: true });
    await symlink("/tmp", dir);
    expect(await chosen({ dir }, outside)).toMatch(/^volume: .*no other user may enter/u);
  });
});
