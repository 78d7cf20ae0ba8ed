/** Keeps the output of ended sessions within the limits per owner and in total. */
import type { ExecJournal } from "../ports/exec-journal.ts";
import type { Log } from "../ports/log.ts";
import type { SessionStore } from "../ports/session-store.ts";
import type { LiveSessions } from "./live-sessions.ts";
import type { SessionSettings } from "./settings.ts";

export interface JournalPrunerParts {
  readonly store: SessionStore;
  readonly journal: ExecJournal;
  readonly table: LiveSessions;
  readonly log: Log;
  readonly settings: SessionSettings;
}

interface KeptOutput {
  readonly id: string;
  readonly owner: string;
  readonly bytes: number;
  /** Absent while the session is active: its output counts, but is kept. */
  readonly endedAtMs?: number;
}

export class JournalPruner {
  readonly #parts: JournalPrunerParts;
  /** Output of ended sessions, which no longer changes. */
  #ended = new Map<string, KeptOutput>();
  #bytes = 0;
  #pruned = 0;

  constructor(parts: JournalPrunerParts) {
    this.#parts = parts;
  }

  /** Disk space of all output as of the last round, and how many sessions have lost theirs. */
  get usage(): { readonly bytes: number; readonly prunedSessions: number } {
    return { bytes: this.#bytes, prunedSessions: this.#pruned };
  }

  /** Runs one round; called by the reaper. */
  async prune(): Promise<void> {
    const kept = await this.#measure();
    const byOwner = new Map<string, number>();
    for (const { owner, bytes } of kept) byOwner.set(owner, (byOwner.get(owner) ?? 0) + bytes);
    this.#bytes = kept.reduce((sum, { bytes }) => sum + bytes, 0);
    const { maxBytesPerOwner, maxBytes } = this.#parts.settings.journal;
    for (const { id, owner, bytes } of oldestFirst(kept)) {
      const ofOwner = byOwner.get(owner) ?? 0;
      if (ofOwner <= maxBytesPerOwner && this.#bytes <= maxBytes) continue;
      await this.#remove(id);
      byOwner.set(owner, ofOwner - bytes);
      this.#bytes -= bytes;
    }
  }

  async #measure(): Promise<readonly KeptOutput[]> {
    const { journal, table } = this.#parts;
    const found: KeptOutput[] = [];
    const ended = new Map<string, KeptOutput>();
    for (const id of await journal.sessions()) {
      const living = table.get(id)?.row;
      const output = living
        ? { id, owner: living.owner, bytes: await journal.size(id) }
        : (this.#ended.get(id) ?? (await this.#measureEnded(id)));
      if (output === undefined) continue;
      found.push(output);
      if (living === undefined) ended.set(id, output);
    }
    this.#ended = ended;
    return found;
  }

  async #measureEnded(id: string): Promise<KeptOutput | undefined> {
    const { store, journal } = this.#parts;
    const row = await store.getSession(id);
    if (row?.endedAtMs === undefined) return undefined;
    return { id, owner: row.owner, bytes: await journal.size(id), endedAtMs: row.endedAtMs };
  }

  async #remove(id: string): Promise<void> {
    await this.#parts.journal.remove(id);
    this.#ended.delete(id);
    this.#pruned++;
    this.#parts.log.info({ session: id }, "removed the output of an ended session to make room");
  }
}

function oldestFirst(kept: readonly KeptOutput[]): readonly KeptOutput[] {
  return kept
    .filter(({ endedAtMs }) => endedAtMs !== undefined)
    .toSorted((a, b) => (a.endedAtMs ?? 0) - (b.endedAtMs ?? 0));
}
