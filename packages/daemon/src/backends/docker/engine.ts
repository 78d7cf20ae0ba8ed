/**
 * The containers and volumes of one Docker engine, through its API. Every call has a timeout and
 * names its step when it fails; the types and errors of the client library do not leave the engine.
 */
import { Readable } from "node:stream";
import type Docker from "dockerode";
import { EngineClient, SLOW_CALL_TIMEOUT_MS } from "./engine-client.ts";
import type { DockerConnection } from "./engine-connection.ts";
import { creationRefusal, startRefusal } from "./engine-errors.ts";
import type { EngineRefusal } from "./engine-errors.ts";
import { startExec } from "./engine-exec.ts";
import type { NoExec } from "./engine-exec.ts";
import { nodeOfAnswer } from "./engine-node.ts";
import type { EngineNode } from "./engine-node.ts";
import type { EngineStream } from "./engine-stream.ts";
import type {
  EngineContainer,
  EngineFacts,
  EngineUsage,
  EngineVolume,
  Labels,
} from "./engine-view.ts";
import { containerOf, factsOf, usageOf, volumeOf } from "./engine-view.ts";

const PING_TIMEOUT_MS = 3_000;
const MAX_FILE_BYTES = 64 * 1024;

/** Settings of a container; the fields are those of the engine's API. */
export type ContainerSettings = Docker.ContainerCreateOptions;
export type MountSettings = Docker.MountSettings;

export interface EngineListing {
  readonly containerId: string;
  readonly name: string;
  readonly state: string;
  readonly labels: Labels;
}

const absentOn404 = ({ status }: EngineRefusal): "absent" | undefined =>
  status === 404 ? "absent" : undefined;

export class Engine {
  readonly connection: DockerConnection;
  readonly #client: EngineClient;

  constructor(connection: DockerConnection) {
    this.connection = connection;
    this.#client = new EngineClient(connection);
  }

  async responds(): Promise<boolean> {
    const pinged = this.#client.call("pinging the engine", (docker) => docker.ping(), {
      timeoutMs: PING_TIMEOUT_MS,
    });
    return await pinged.then(
      () => true,
      () => false,
    );
  }

  async facts(): Promise<EngineFacts> {
    return await this.#client.call("reading the engine's capabilities", async (docker) =>
      factsOf(await docker.version(), await docker.info()),
    );
  }

  async hasNetwork(name: string): Promise<boolean> {
    const found = await this.#client.call(
      "inspecting a network",
      (docker) => docker.getNetwork(name).inspect() as Promise<unknown>,
      { refused: absentOn404 },
    );
    return found !== "absent";
  }

  /** The id of any local image, for containers that are never started. */
  async anyImage(): Promise<string | undefined> {
    const images = await this.#client.call("listing images", (docker) => docker.listImages());
    return images[0]?.Id;
  }

  /** Returns the container's id. */
  async createContainer(settings: ContainerSettings): Promise<string> {
    const created = await this.#client.call(
      "creating the container",
      (docker) => docker.createContainer(settings),
      { timeoutMs: SLOW_CALL_TIMEOUT_MS, translate: creationRefusal },
    );
    return created.id;
  }

  async startContainer(name: string): Promise<void> {
    await this.#client.call(
      "starting the container",
      (docker) => docker.getContainer(name).start(),
      {
        timeoutMs: SLOW_CALL_TIMEOUT_MS,
        translate: startRefusal,
      },
    );
  }

  async inspectContainer(name: string): Promise<EngineContainer | undefined> {
    const found = await this.#client.call(
      "inspecting the container",
      (docker) => docker.getContainer(name).inspect(),
      { refused: absentOn404 },
    );
    return found === "absent" ? undefined : containerOf(found);
  }

  /** Containers with all of these labels, in any state. */
  async listContainers(labels: Labels): Promise<EngineListing[]> {
    const filters = { label: labelFilters(labels) };
    const found = await this.#client.call("listing containers", (docker) =>
      docker.listContainers({ all: true, filters }),
    );
    return found.map(({ Id, Names, State, Labels: own }) => ({
      containerId: Id,
      name: (Names[0] ?? "").replace(/^\//u, ""),
      state: State,
      labels: own,
    }));
  }

  /** Including its unnamed volumes. Idempotent; `going` if another process is removing it. */
  async removeContainer(name: string): Promise<"removed" | "absent" | "going"> {
    return await this.#client.call(
      "removing the container",
      async (docker) => {
        await docker.getContainer(name).remove({ force: true, v: true });
        return "removed" as const;
      },
      {
        timeoutMs: SLOW_CALL_TIMEOUT_MS,
        refused: ({ status, message }) => {
          if (status === 404) return "absent";
          return status === 409 && message.includes("already in progress") ? "going" : undefined;
        },
      },
    );
  }

  async renameContainer(name: string, to: string): Promise<"done" | "absent"> {
    return await this.#client.call(
      "renaming the container",
      async (docker) => {
        await docker.getContainer(name).rename({ name: to });
        return "done" as const;
      },
      { refused: absentOn404 },
    );
  }

  async pauseContainer(name: string): Promise<"done" | "absent"> {
    return await this.#client.call(
      "pausing the container",
      async (docker) => {
        await docker.getContainer(name).pause();
        return "done" as const;
      },
      {
        refused: ({ status, message }) => {
          if (status === 404) return "absent";
          return message.includes("already paused") ? "done" : undefined;
        },
      },
    );
  }

  async resumeContainer(name: string): Promise<"done" | "absent"> {
    return await this.#client.call(
      "resuming the container",
      async (docker) => {
        await docker.getContainer(name).unpause();
        return "done" as const;
      },
      {
        refused: ({ status, message }) => {
          if (status === 404) return "absent";
          return message.includes("is not paused") ? "done" : undefined;
        },
      },
    );
  }

  async usage(name: string): Promise<EngineUsage | undefined> {
    const options = { stream: false as const, "one-shot": true };
    const found = await this.#client.call(
      "measuring the container",
      (docker) => docker.getContainer(name).stats(options),
      { refused: absentOn404 },
    );
    return found === "absent" ? undefined : usageOf(found);
  }

  /**
   * How often the kernel killed a process in a container because memory ran out, as far as the
   * engine remembers.
   */
  async countMemoryKills(name: string, sinceMs: number): Promise<number> {
    const options = {
      since: Math.floor(sinceMs / 1000),
      until: Math.floor(Date.now() / 1000),
      filters: { container: [name], event: ["oom"] },
    };
    return await this.#client.call("reading events", async (docker) => {
      let lines = 0;
      for await (const chunk of (await docker.getEvents(options)) as AsyncIterable<Buffer>)
        lines += chunk.toString().split("\n").length - 1;
      return lines;
    });
  }

  /** Bytes that the container wrote outside of its volumes. */
  async writtenBytes(name: string): Promise<number> {
    const found = await this.#client.call("measuring the container", (docker) =>
      docker.getContainer(name).inspect({ size: true } as object),
    );
    return (found as { readonly SizeRw?: number }).SizeRw ?? 0;
  }

  /** An existing volume with that name is returned unchanged. Without a name the engine generates one. */
  async createVolume(name: string | undefined, labels: Labels): Promise<EngineVolume> {
    const wanted = { ...(name !== undefined && { Name: name }), Labels: { ...labels } };
    return volumeOf(
      await this.#client.call("creating a volume", async (docker) => {
        // The library drops the engine's response, so inspect the volume.
        const { name: given } = (await docker.createVolume(wanted)) as unknown as {
          readonly name: string;
        };
        return await docker.getVolume(given).inspect();
      }),
    );
  }

  async inspectVolume(name: string): Promise<EngineVolume | undefined> {
    const found = await this.#client.call(
      "inspecting a volume",
      (docker) => docker.getVolume(name).inspect(),
      { refused: absentOn404 },
    );
    return found === "absent" ? undefined : volumeOf(found);
  }

  async listVolumes(labels: Labels): Promise<EngineVolume[]> {
    const filters = { label: labelFilters(labels) };
    const { Volumes } = await this.#client.call("listing volumes", (docker) =>
      docker.listVolumes({ filters }),
    );
    return ((Volumes as typeof Volumes | null) ?? []).map(volumeOf);
  }

  async removeVolume(name: string): Promise<"removed" | "absent" | "in use"> {
    return await this.#client.call(
      "removing a volume",
      async (docker) => {
        await docker.getVolume(name).remove();
        return "removed" as const;
      },
      {
        refused: ({ status }) =>
          status === 404 ? "absent" : status === 409 ? "in use" : undefined,
      },
    );
  }

  /** Unpacks an archive in a container, which need not be running. */
  async putArchive(name: string, directory: string, archive: Buffer): Promise<void> {
    await this.#client.call(
      "putting files into a volume",
      // As a stream, which is sent in chunks, so the engine waits for the last one. After a body of
      // known length Node writes an empty chunk, which fails with a broken pipe if the engine has
      // already responded and closed the connection.
      (docker) =>
        docker.getContainer(name).putArchive(Readable.from([archive]), { path: directory }),
      { timeoutMs: SLOW_CALL_TIMEOUT_MS },
    );
  }

  /** What a path in a container is, without following a link in its last part. */
  async lookAt(name: string, path: string): Promise<EngineNode> {
    return await this.#client.call(
      "inspecting the image",
      async (docker) => {
        const answer: unknown = await docker.getContainer(name).infoArchive({ path });
        return nodeOfAnswer(answer);
      },
      // The engine only fails on circular links.
      {
        refused: ({ status }) =>
          status === 404 ? { kind: "missing" } : status === 500 ? { kind: "other" } : undefined,
      },
    );
  }

  /** An archive of a small file in a container, which need not run; undefined when there is none. */
  async getArchive(
    name: string,
    path: string,
    maxBytes = MAX_FILE_BYTES,
  ): Promise<Buffer | undefined> {
    const archive = await this.#client.call(
      "reading from a container",
      async (docker) => {
        const stream = await docker.getContainer(name).getArchive({ path });
        const chunks: Buffer[] = [];
        let bytes = 0;
        for await (const chunk of stream as AsyncIterable<Buffer>) {
          bytes += chunk.length;
          if (bytes > maxBytes) break;
          chunks.push(chunk);
        }
        return Buffer.concat(chunks);
      },
      { refused: absentOn404 },
    );
    return archive === "absent" ? undefined : archive;
  }

  /**
   * Starts a program in a running container and returns its standard streams. The signal aborts the
   * attempt, not the streams.
   */
  async exec(
    name: string,
    options: Docker.ExecCreateOptions,
    signal: AbortSignal,
  ): Promise<EngineStream | NoExec> {
    return await startExec(await this.#client.patient(), name, options, signal);
  }
}

function labelFilters(labels: Labels): string[] {
  return Object.entries(labels).map(([name, value]) => (value === "" ? name : `${name}=${value}`));
}
