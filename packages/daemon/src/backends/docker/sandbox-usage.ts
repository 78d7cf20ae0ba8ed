/** What containers use, and what was last found of it for as long as one cannot be asked. */
import { SandboxError } from "@sandkasten/protocol";
import type { SandboxStats } from "../../ports/backend.ts";
import type { Channel } from "../../ports/channel.ts";
import { measureDisk } from "./disk-usage.ts";
import type { Engine } from "./engine.ts";
import type { EngineContainer } from "./engine-view.ts";
import type { SandboxNotes } from "./sandbox-labels.ts";

/** A container that lives, and what is written on it. */
export interface Living {
  readonly id: string;
  readonly container: EngineContainer;
  readonly notes: SandboxNotes;
}

export class SandboxUsage {
  readonly #engine: Engine;
  readonly #diskBytes = new Map<string, number>();
  readonly #memoryKills = new Map<string, number>();

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /** @param channel - Absent while the sandbox is paused, so that it cannot say what its files take up. */
  async of(living: Living, channel: Channel | undefined, probeId: string): Promise<SandboxStats> {
    const { id, notes } = living;
    const usage = await this.#engine.usage(id);
    if (usage === undefined)
      throw new SandboxError("SANDBOX_NOT_FOUND", `there is no sandbox ${id}`);
    if (channel !== undefined) {
      const inVolumes = await this.#ask(channel, notes, probeId);
      const inRoot = notes.profile === "root" ? await this.#engine.writtenBytes(id) : 0;
      if (inVolumes !== undefined) this.#diskBytes.set(id, inVolumes + inRoot);
    }
    return {
      ...usage,
      diskBytes: this.#diskBytes.get(id) ?? 0,
      diskLimitBytes: notes.limits.diskBytes,
      oomKills: await this.#countMemoryKills(living),
    };
  }

  /** Undefined when the sandbox cannot count, because code in it has taken all processes or memory. */
  async #ask(channel: Channel, notes: SandboxNotes, probeId: string): Promise<number | undefined> {
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

  /** An engine forgets what happened long ago; what was counted before still counts. */
  async #countMemoryKills({ id, container, notes }: Living): Promise<number> {
    const remembered = await this.#engine.countMemoryKills(id, notes.createdAtMs);
    const before = this.#memoryKills.get(id) ?? (container.outOfMemory ? 1 : 0);
    const kills = Math.max(before, remembered);
    this.#memoryKills.set(id, kills);
    return kills;
  }
}
