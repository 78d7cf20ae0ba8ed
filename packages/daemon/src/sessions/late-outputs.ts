/** Ended commands whose background processes can still print, and their recordings. */
import type { ExecRow, SessionStore } from "../ports/session-store.ts";
import { LateOutput } from "./late-output.ts";
import type { LateOutputParts } from "./late-output.ts";
import type { LiveSession } from "./live-session.ts";
import type { LiveSessions } from "./live-sessions.ts";

/** Commands of one session whose background is recorded without a waiting reader; each holds a file open. */
const MAX_OPEN = 16;
/** Ended ones to remember, so older information about a command is not taken for newer. */
const MAX_REMEMBERED = 256;

export interface LateOutputsParts extends LateOutputParts {
  readonly store: SessionStore;
  readonly table: LiveSessions;
}

export class LateOutputs {
  readonly #parts: LateOutputsParts;
  readonly #underWay = new Set<Promise<void>>();

  constructor(parts: LateOutputsParts) {
    this.#parts = parts;
  }

  /** A command's row with the current state of its background. */
  shown(row: ExecRow): ExecRow {
    if (!row.background) return row;
    const session = this.#parts.table.get(row.sessionId);
    const late = session?.lateOutputs.get(row.id);
    const isLiving = session !== undefined && session.ending === undefined;
    return {
      ...row,
      background: isLiving && late?.state !== "over",
      backgroundBytes: late?.bytes ?? row.backgroundBytes,
    };
  }

  /** Starts recording a command's background output; undefined if no more can come. */
  record(row: ExecRow): LateOutput | undefined {
    if (!row.background) return undefined;
    const session = this.#parts.table.get(row.sessionId);
    if (session === undefined || session.ending !== undefined || session.isReleased)
      return undefined;
    const known = session.lateOutputs.get(row.id);
    if (known !== undefined && known.state !== "stopped") return known;
    if (session.row.status !== "running") return undefined;
    return this.#begin(session, this.shown(row), known?.finished);
  }

  /** Resolves when all recordings have ended. */
  async settled(): Promise<void> {
    await Promise.all(this.#underWay);
  }

  #begin(session: LiveSession, row: ExecRow, before: Promise<void> | undefined): LateOutput {
    const channel = Promise.resolve(before).then(() => session.channel());
    const late = new LateOutput(channel, row, session.row.fence, this.#parts);
    session.lateOutputs.delete(row.id);
    session.lateOutputs.set(row.id, late);
    this.#makeRoom(session);
    const work = late.finished.then(() => this.#save(row, session.row.fence, late));
    this.#underWay.add(work);
    void work.finally(() => this.#underWay.delete(work));
    return late;
  }

  #makeRoom({ lateOutputs }: LiveSession): void {
    const open = [...lateOutputs.values()].filter(({ state }) => state === "open");
    // Recordings with waiting readers are not stopped, or two readers could block each other.
    for (const oldest of open.slice(0, -MAX_OPEN)) if (!oldest.isAttended) oldest.stop();
    for (const [id, { state }] of lateOutputs) {
      if (lateOutputs.size <= MAX_REMEMBERED) return;
      if (state !== "open") lateOutputs.delete(id);
    }
  }

  async #save(row: ExecRow, fence: number, late: LateOutput): Promise<void> {
    try {
      await this.#parts.store.updateExec(row.sessionId, row.id, fence, {
        background: late.state !== "over",
        backgroundBytes: late.bytes,
      });
    } catch (error) {
      // The next daemon asks the sandbox again.
      this.#parts.log.error({ err: error, exec: row.id }, "cannot save the end of late output");
    }
  }
}
