/**
 * The volume that brings the runner into every sandbox, for any image. It is filled through the
 * engine's API, so it also works on an engine on another machine. Each daemon has its own volume:
 * another daemon may need its volume while this one is filled or removed.
 */
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { basename } from "node:path";
import { SandboxError } from "@sandkasten/protocol";
import { RUNNER_PATH } from "../container/paths.ts";
import { archiveOf } from "./archives.ts";
import type { ArchivedFile } from "./archives.ts";
import type { Engine } from "./engine.ts";
import { removeIdleContainers, withIdleContainer } from "./idle-container.ts";
import { LABEL } from "./sandbox-labels.ts";

const ROLE = "runner";

/** ELF machine numbers, with Node's names for the processors. */
const MACHINES: ReadonlyMap<number, string> = new Map([
  [62, "x64"],
  [183, "arm64"],
]);

export interface RunnerProgram {
  readonly bytes: Buffer;
  /** Distinguishes builds. */
  readonly digest: string;
  /** Its target processor, by Node's name. */
  readonly architecture: string;
}

export async function readRunner(path: string): Promise<RunnerProgram> {
  const bytes = await readFile(path);
  if (bytes.length < 64 || bytes.readUInt32BE(0) !== 0x7f_45_4c_46)
    throw new SandboxError(
      "INTERNAL_ERROR",
      `${path} is not an executable; build it with npm run setup`,
    );
  return {
    bytes,
    digest: createHash("sha256").update(bytes).digest("hex").slice(0, 12),
    architecture: MACHINES.get(bytes.readUInt16LE(18)) ?? "unknown",
  };
}

export class RunnerVolume {
  readonly name: string;
  readonly #engine: Engine;
  readonly #daemon: string;
  readonly #runner: RunnerProgram;
  #filled = false;

  constructor(engine: Engine, daemon: string, runner: RunnerProgram) {
    this.#engine = engine;
    this.#daemon = daemon;
    this.#runner = runner;
    this.name = `sandkasten-runner-${daemon}-${runner.digest}`;
  }

  /** Ensures that the volume exists and is complete. Calls are serialized, also with `remove`. */
  async ensure(imageId: string): Promise<void> {
    const engine = this.#engine;
    const labels = { [LABEL.instance]: this.#daemon, [LABEL.role]: ROLE };
    // It may have been removed by hand; the engine's replacement has no labels.
    const present = await engine.inspectVolume(this.name);
    if (this.#filled && present?.labels[LABEL.role] === ROLE) return;
    this.#filled = false;
    await removeIdleContainers(engine, this.#daemon);
    if (present !== undefined && present.labels[LABEL.role] !== ROLE)
      await engine.removeVolume(this.name);
    await engine.createVolume(this.name, labels);
    const source = { kind: "volume", name: this.name } as const;
    const idle = { daemon: this.#daemon, imageId, source };
    // A previous daemon may have been killed while doing this, so it is always repeated.
    await withIdleContainer(engine, idle, (container, directory) =>
      engine.putArchive(container, directory, archiveOf([program(this.#runner)])),
    );
    this.#filled = true;
  }

  /** Removes the volume, and those of earlier builds, unless a container uses them. */
  async removeUnused(): Promise<void> {
    await removeIdleContainers(this.#engine, this.#daemon);
    const labels = { [LABEL.instance]: this.#daemon, [LABEL.role]: ROLE };
    this.#filled = false;
    for (const { name } of await this.#engine.listVolumes(labels))
      await this.#engine.removeVolume(name);
  }
}

function program({ bytes }: RunnerProgram): ArchivedFile {
  return { name: basename(RUNNER_PATH), mode: 0o755, bytes };
}
