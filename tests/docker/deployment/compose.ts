/** The compose files: the daemon in a container, and an agent that works through it. */
import { join } from "node:path";
import { SandboxClient } from "@sandkasten/sdk";
import type { Session } from "@sandkasten/sdk";
import { expect, test } from "vitest";
import { ComposeStack } from "../../support/compose-stack.ts";
import type { DockerEngine } from "../../support/docker-engine.ts";
import { BASES } from "../../support/image-builds.ts";
import type { Built } from "./images.ts";

/** Writes a program, sees it fail, fixes it and sees it work, in a stateful shell. */
async function workLikeAnAgent(session: Session): Promise<void> {
  await session.write("sum.py", "print(sum(numbers))\n");
  const failed = await session.exec(["python3", "sum.py"]);
  expect([failed.exitCode, failed.stderr]).toEqual([
    1,
    expect.stringContaining("NameError: name 'numbers' is not defined"),
  ]);
  await session.write("sum.py", "import sys\nnumbers = map(int, sys.stdin)\nprint(sum(numbers))\n");
  await session.exec(
    "mkdir -p data && cd data && printf '%s\\n' 1 2 3 > numbers && export ROUND=2",
  );
  const mended = await session.exec('echo "round $ROUND in $PWD"; python3 ../sum.py < numbers');
  expect([mended.exitCode, mended.output]).toEqual([0, "round 2 in /workspace/data\n6\n"]);
  expect(await session.files.readText("data/numbers")).toBe("1\n2\n3\n");
  const entries = await Array.fromAsync(session.files.list("/workspace"));
  expect(entries.map(({ name }) => name).toSorted()).toEqual(["data", "sum.py"]);
}

interface Rights {
  readonly user: string;
  readonly capabilities: readonly string[] | null;
}

/** Few privileges for a process that controls an engine. */
async function expectHardened(
  engine: DockerEngine,
  container: string,
  { user, capabilities }: Rights,
): Promise<void> {
  const inspected = JSON.parse(await engine.docker("inspect", container)) as unknown;
  expect(inspected).toMatchObject([
    {
      Config: { StopSignal: "SIGTERM" },
      HostConfig: {
        Privileged: false,
        ReadonlyRootfs: true,
        CapDrop: ["ALL"],
        CapAdd: capabilities,
        SecurityOpt: ["no-new-privileges:true"],
        PortBindings: { "8080/tcp": [{ HostIp: "127.0.0.1" }] },
      },
    },
  ]);
  expect(await engine.docker("exec", container, "id", "--user")).toBe(user);
}

async function networks(engine: DockerEngine): Promise<readonly string[]> {
  const listed = await engine.docker("network", "ls", "--format", "{{.Name}}");
  return listed.split("\n").toSorted();
}

/** @param built - Resolves when the tests run. */
export function testCompose(built: () => Built): void {
  test("an agent works through the daemon beside its sandboxes, and nothing is left of it", async () => {
    const { engine } = built();
    const stack = await ComposeStack.of(engine, {
      project: "socket",
      files: ["compose.yaml"],
    });
    try {
      await stack.up();
      await expectHardened(engine, await stack.container("sandkasten"), {
        user: "0",
        capabilities: ["DAC_OVERRIDE", "FOWNER"],
      });
      const client = new SandboxClient({ baseUrl: stack.url, apiKey: stack.apiKey });
      await using session = await client.createSession({ image: "python" });
      expect(session.image).toBe("sandbox-runtime:python");
      await workLikeAnAgent(session);

      // SECURITY: sessions share a volume and must not see each other in it (threat: reaching
      // another sandbox).
      await using other = await client.createSession({ image: "python", profile: "root" });
      const seen = await other.exec(
        "ls -A /workspace; find / -name sum.py 2>/dev/null; ls -d /shared-sandboxes",
      );
      expect(seen.stdout).toBe("");
      // Pooled sandboxes are there as well.
      const container = async (): Promise<string> => await stack.container("sandkasten");
      const directories = async (): Promise<readonly string[]> =>
        (await engine.docker("exec", await container(), "ls", "/shared-sandboxes")).split("\n");
      const own = [session.id, other.id];
      expect(await directories()).toEqual(expect.arrayContaining(own));

      await stack.restart();
      expect((await session.exec('echo "$ROUND $PWD"')).stdout).toBe("2 /workspace/data\n");

      // Files that only their owner could remove.
      const traps =
        "mkdir shut sticky && touch shut/file sticky/file && chmod 0 shut && chmod 1777 sticky";
      for (const one of [session, other]) {
        expect((await one.exec(`cd /workspace && ${traps}`)).exitCode).toBe(0);
        await one.destroy();
      }
      expect((await directories()).filter((name) => own.includes(name))).toEqual([]);
    } finally {
      await stack.down();
    }
    expect(await engine.leftovers()).toEqual([]);
    expect(await networks(engine)).toEqual(["host", "none"]);
  });

  test("a daemon with a separate engine, in a container, leaves the other engine alone", async () => {
    const { engine, directory } = built();
    const stack = await ComposeStack.of(engine, {
      project: "dind",
      files: ["compose.dind.yaml", "tests/docker/deployment/dind-without-privileges.yaml"],
      env: { ENGINE_IMAGE: BASES.debian, ENGINE_PRIVILEGED: "false" },
    });
    try {
      await stack.up();
      await expectHardened(engine, await stack.container("sandkasten"), {
        user: "10000",
        capabilities: null,
      });
      const own = await stack.container("engine");
      const inside = async (...args: readonly string[]): Promise<string> =>
        await engine.docker("exec", own, "docker", ...args);
      const archive = join(directory, "small.tar");
      await engine.importSmallImage("small:latest", "busybox");
      await engine.docker("save", `--output=${archive}`, "small:latest");
      await engine.docker("cp", archive, `${own}:/tmp/small.tar`);
      await inside("load", "--input=/tmp/small.tar");
      const client = new SandboxClient({ baseUrl: stack.url, apiKey: stack.apiKey });
      await using session = await client.createSession({ image: "small:latest" });
      await session.write("greeting", "hello\n");
      expect((await session.exec("cd / && cat workspace/greeting")).stdout).toBe("hello\n");
      expect((await session.exec("pwd")).stdout).toBe("/\n");
      expect(await inside("volume", "ls", "--quiet")).toMatch(/^station-sandbox-/mu);
      // The two containers of the stack itself.
      expect((await engine.docker("ps", "--all", "--quiet")).split("\n")).toHaveLength(2);
      await session.destroy();
      expect(await inside("ps", "--all", "--quiet")).toBe("");
      expect(await inside("volume", "ls", "--quiet")).toBe("");
    } finally {
      await stack.down();
    }
    expect(await engine.leftovers()).toEqual([]);
  });
}
