/** Names of what the core makes; unguessable, and unique for ever. */
import { randomBytes } from "node:crypto";

const letters = (): string => randomBytes(12).toString("hex");
const MS_DIGITS = 11;
const COUNT_DIGITS = 3;

export const newSessionId = (): string => `ses_${letters()}`;
export const newSandboxId = (): string => `sbx_${letters()}`;
/** Of a sandbox that is made for a session: an administrator finds the container by the same letters. */
export const sandboxIdOf = (sessionId: string): string => sessionId.replace(/^ses_/u, "sbx_");
export const newDiskId = (): string => `wsp_${letters()}`;

/**
 * Ids of commands, each greater than the one before: they begin with the time and a count within the
 * millisecond. Lists and restarts keep the order, and a database adds most cheaply at the end.
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
