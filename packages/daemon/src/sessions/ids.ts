/** Ids that the core generates: unguessable and never reused. */
import { randomFillSync } from "node:crypto";
import type { SessionRow } from "../ports/session-store.ts";

const BYTES = 12;
/** Random bytes for the next ids: to get a few at a time costs more than all else about an id. */
const random = Buffer.alloc(256 * BYTES);
let used = random.length;

/** Each byte is used once. */
function letters(): string {
  if (used === random.length) {
    randomFillSync(random);
    used = 0;
  }
  used += BYTES;
  return random.toString("hex", used - BYTES, used);
}

const MS_DIGITS = 11;
const COUNT_DIGITS = 3;

export const newSessionId = (): string => `ses_${letters()}`;
/** For a sandbox that never belongs to a session. */
export const newSandboxId = (): string => `sbx_${letters()}`;
/** The backend's id for a session's sandbox. */
export const sandboxIdOf = ({ id, sandboxId = id }: SessionRow): string => sandboxId;
export const newDiskId = (): string => `wsp_${letters()}`;

/**
 * Ids of commands, each greater than the one before: they begin with the time and a counter within
 * the millisecond. Lists and restarts keep the order, and a database appends cheaply.
 */
export class ExecIds {
  #lastMs = 0;
  #count = 0;

  next(nowMs: number): string {
    const isSame = nowMs <= this.#lastMs && this.#count < 16 ** COUNT_DIGITS - 1;
    this.#count = isSame ? this.#count + 1 : 0;
    if (!isSame) this.#lastMs = Math.max(nowMs, this.#lastMs + 1);
    const start = hex(this.#lastMs, MS_DIGITS) + hex(this.#count, COUNT_DIGITS);
    return `exe_${start}${letters().slice(start.length)}`;
  }
}

function hex(value: number, digits: number): string {
  return value.toString(16).padStart(digits, "0").slice(-digits);
}
