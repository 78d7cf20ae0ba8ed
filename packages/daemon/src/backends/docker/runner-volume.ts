/**
 * The volume that brings the runner into every sandbox, whatever its image. It is filled through the
 * engine's API, so that it comes about on an engine of another machine just the same. Each daemon has its
 * own: while one fills it or removes it, another may need the same.
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

/** ELF's numbers of processors, as Node names them. */
const MACHINES: ReadonlyMap<number, string> = new Map([
  [62, "x64"],
  [183, "arm64"],
]);

export interface RunnerProgram {
  readonly bytes: Buffer;
  /** Tells one build from another. */
  readonly digest: string;
  /** The processor that it is for, as Node names it. */
  readonly architecture: string;
}

export async function readRunner(path: string): Promise<RunnerProgram> {
  const bytes = await readFile(path);
  if (bytes.length < 64 || bytes.readUInt32BE(0) !== 0x7f_45_4c_46)
    throw new SandboxError("INTERNAL_ERROR", `${path} is no program; build it by npm run setup`);
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

  /** Sees to it that the volume is there and whole. One at a time; `remove` is not called meanwhile. */
  async ensure(imageId: string): Promise<void> {
    const engine = this.#engine;
    const labels = { [LABEL.instance]: this.#daemon, [LABEL.role]: ROLE };
    // Somebody may have removed it by hand; what an engine makes instead has no labels.
    const present = await engine.inspectVolume(this.name);
    if (this.#filled && present?.labels[LABEL.role] === ROLE) return;
    this.#filled = false;
    await removeIdleContainers(engine, this.#daemon);
    if (present !== undefined && present.labels[LABEL.role] !== ROLE)
      await engine.removeVolume(this.name);
    await engine.createVolume(this.name, labels);
    const source = { kind: "volume", name: this.name } as const;
    const idle = { daemon: this.#daemon, imageId, source };
    // A daemon before us may have been killed while it did the same, so it is done anew each time.
    await withIdleContainer(engine, idle, (container, directory) =>
      engine.putArchive(container, directory, archiveOf([program(this.#runner)])),
    );
    this.#filled = true;
  }

  /** Removes the volume, and those of earlier builds, unless a container has them. */
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
