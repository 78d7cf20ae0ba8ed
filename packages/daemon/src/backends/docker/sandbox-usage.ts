/** Resource usage of containers, with the last known values while one cannot be asked. */
import { SandboxError } from "@sandkasten/protocol";
import type { SandboxStats } from "../../ports/backend.ts";
import type { Channel } from "../../ports/channel.ts";
import type { AskSandbox, Container } from "../container/container-driver.ts";
import { measureDisk } from "./disk-usage.ts";
import type { Engine } from "./engine.ts";
import type { SandboxNotes } from "./sandbox-labels.ts";

/** A sandbox and its container's labels. */
export interface DockerContainer extends Container {
  /** The engine's id for it. */
  readonly containerId: string;
  /** Changes when another daemon takes the sandbox over. */
  readonly name: string;
  readonly notes: SandboxNotes;
  /** Whether the engine has seen the kernel kill a process in it because memory ran out. */
  readonly outOfMemory: boolean;
}

export class SandboxUsage {
  readonly #engine: Engine;
  readonly #diskBytes = new Map<string, number>();
  readonly #memoryKills = new Map<string, number>();

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /** @param ask - Absent while the sandbox is paused, so it cannot report its disk usage. */
  async of(
    container: DockerContainer,
    ask: AskSandbox | undefined,
    probeId: string,
  ): Promise<SandboxStats> {
    const { notes, handle, containerId } = container;
    const { id } = handle;
    const usage = await this.#engine.usage(containerId);
    if (usage === undefined)
      throw new SandboxError("SANDBOX_NOT_FOUND", `there is no sandbox ${id}`);
    if (ask !== undefined) {
      const inVolumes = await ask((channel) => this.#measure(channel, notes, probeId));
      const inRoot = notes.profile === "root" ? await this.#engine.writtenBytes(containerId) : 0;
      if (inVolumes !== undefined) this.#diskBytes.set(id, inVolumes + inRoot);
    }
    return {
      ...usage,
      diskBytes: this.#diskBytes.get(id) ?? 0,
      diskLimitBytes: notes.limits.diskBytes,
      oomKills: await this.#countMemoryKills(container),
    };
  }

  /** Undefined if the sandbox cannot count, because code in it has used up all processes or memory. */
  async #measure(
    channel: Channel,
    notes: SandboxNotes,
    probeId: string,
  ): Promise<number | undefined> {
    try {
      return await measureDisk(channel, notes, probeId);
    } catch (error) {
      if (error instanceof SandboxError) return undefined;
      throw error;
    }
  }

  forget(id: string): void {
    this.#diskBytes.delete(id);
    this.#memoryKills.delete(id);
  }

  /** An engine forgets old events; what was counted before still counts. */
  async #countMemoryKills(container: DockerContainer): Promise<number> {
    const { handle, containerId, notes, outOfMemory } = container;
    const { id } = handle;
    const remembered = await this.#engine.countMemoryKills(containerId, notes.createdAtMs);
    const before = this.#memoryKills.get(id) ?? (outOfMemory ? 1 : 0);
    const kills = Math.max(before, remembered);
    this.#memoryKills.set(id, kills);
    return kills;
  }
}
