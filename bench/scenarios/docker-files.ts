/**
 * File operations in containers of an engine, for every workspace strategy, compared with `docker
 * cp` and `docker exec`.
 */
import { randomBytes } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Channel } from "@sandkasten/daemon";
import { openDockerBackend } from "../../packages/daemon/src/backends/docker/docker-backend.ts";
import { DockerImageStore } from "../../packages/daemon/src/backends/docker/docker-image-store.ts";
import type { BenchDocker } from "../bench-docker.ts";
import { MIB } from "../bench-machine.ts";
import type { BenchContext, Scenario } from "../context.ts";
import { everyRounds, interleave, timeUs } from "../interleave.ts";
import type { Contestant } from "../interleave.ts";
import type { Series } from "../series.ts";

const CONTENT = Buffer.alloc(1024, "sandkasten ");
const NAME = "small.txt";
/** Docker's own commands are slow, so fewer samples are taken. */
const DOCKER_EVERY_ROUNDS = 10;
const RUNNER = join(import.meta.dirname, "../../native/bin/runner");

export const WORKSPACE_STRATEGIES = ["bind", "shared-volume", "volume", "exec"] as const;
export const DOCKER_FILE_OPERATIONS = ["write 1 KB", "read 1 KB", "list 100"] as const;

export const dockerFiles: Scenario = {
  name: "docker files",
  what: "1 KB written and read, a directory listed, by every workspace strategy",
  run: async (context) =>
    context.docker === undefined ? [] : await measure(context, context.docker),
};

async function measure(context: BenchContext, docker: BenchDocker): Promise<Series[]> {
  const { quick, signal, progress, spawnTimer } = context;
  await using stack = new AsyncDisposableStack();
  const directory = join(context.scratchDir, "docker-files");
  await mkdir(directory);
  const local = join(directory, NAME);
  await writeFile(local, CONTENT);
  const container = await docker.startContainer();
  stack.defer(async () => void (await docker.engine.docker("rm", "-f", container)));
  const contestants: Record<string, Contestant> = {};
  for (const strategy of WORKSPACE_STRATEGIES)
    Object.assign(
      contestants,
      operations(strategy, await openSandbox(docker, directory, strategy, stack)),
    );
  const place = `${container}:/tmp-${NAME}`;
  const slow = (...args: readonly string[]): Contestant =>
    everyRounds(DOCKER_EVERY_ROUNDS, () => spawnTimer.timeUs(docker.command(...args)));
  contestants["docker cp, in"] = slow("cp", "--quiet", local, place);
  contestants["docker cp, out"] = slow("cp", "--quiet", place, join(directory, "out"));
  contestants["docker exec, cat"] = slow("exec", container, "cat", `/tmp-${NAME}`);
  contestants["docker exec, ls"] = slow("exec", container, "ls", "/bin");
  return await interleave(contestants, {
    scenario: dockerFiles.name,
    rounds: quick ? 50 : 400,
    warmUpRounds: 10,
    signal,
    onRound: (round, rounds) => {
      if (round % 50 === 0) progress(`round ${round} of ${rounds}`);
    },
  });
}

async function openSandbox(
  docker: BenchDocker,
  directory: string,
  strategy: (typeof WORKSPACE_STRATEGIES)[number],
  stack: AsyncDisposableStack,
): Promise<Channel> {
  const connection = { host: docker.engine.host };
  const sharedVolume = `shared-${randomBytes(4).toString("hex")}`;
  const shared = strategy === "shared-volume";
  if (shared) {
    await docker.engine.docker("volume", "create", sharedVolume);
    stack.defer(async () => void (await docker.engine.docker("volume", "rm", sharedVolume)));
  }
  const backend = await openDockerBackend({
    connection,
    instance: randomBytes(6).toString("hex"),
    runner: RUNNER,
    images: new DockerImageStore({
      connection,
      policy: { allowedImages: [] },
      pullPolicy: "never",
      dockerConfigDir: directory,
    }),
    workspace: {
      strategy,
      dir: join(directory, "workspaces"),
      sharedVolume,
      sharedDir: shared
        ? await docker.engine.docker("volume", "inspect", "-f", "{{.Mountpoint}}", sharedVolume)
        : join(directory, "shared"),
    },
  });
  const id = `sbx_${randomBytes(8).toString("hex")}`;
  await backend.create({
    id,
    image: docker.image,
    limits: {
      memoryBytes: 256 * MIB,
      cpuMillicores: 2000,
      pids: 128,
      diskBytes: 256 * MIB,
      diskInodes: 16_384,
    },
    profile: "restricted",
    env: {},
  });
  stack.defer(() => backend.destroy(id));
  const channel = await backend.open(id);
  stack.defer(() => channel.close());
  for (let i = 0; i < 100; i++) await channel.writeFile(`many/file-${i}`, CONTENT);
  return channel;
}

function operations(strategy: string, channel: Channel): Record<string, Contestant> {
  const [write, read, list] = DOCKER_FILE_OPERATIONS;
  return {
    [`${strategy}, ${write}`]: () => timeUs(() => channel.writeFile(NAME, CONTENT)),
    [`${strategy}, ${read}`]: () =>
      timeUs(async () => {
        const { body } = await channel.readFile(NAME);
        if (!Buffer.concat(await Array.fromAsync(body)).equals(CONTENT))
          throw new Error("the file came back changed");
      }),
    [`${strategy}, ${list}`]: () => timeUs(() => channel.listDirectory("many")),
  };
}
