/** Caches the output of recently ended commands, so their responses need no disk reads. */
import type { Recording } from "./recording.ts";

const MAX_BYTES = 16 * 1024 * 1024;
const MAX_RECORDINGS = 256;

export class FinishedRecordings {
  readonly #byId = new Map<string, Recording>();
  #bytes = 0;

  add(recording: Recording): void {
    if (recording.budget === undefined) return;
    this.#byId.set(recording.row.id, recording);
    this.#bytes += recording.budget.cost;
    for (const [id, oldest] of this.#byId) {
      if (this.#bytes <= MAX_BYTES && this.#byId.size <= MAX_RECORDINGS) return;
      this.#byId.delete(id);
      this.#bytes -= oldest.budget?.cost ?? 0;
    }
  }

  get(execId: string): Recording | undefined {
    return this.#byId.get(execId);
  }
}
