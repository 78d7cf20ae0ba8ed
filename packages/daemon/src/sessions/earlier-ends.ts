/**
 * Commands of a session that an earlier daemon left unfinished. That daemon may have answered their
 * callers, although only the sandbox knows their ends.
 */
import type { Channel } from "../ports/channel.ts";
import type { Log } from "../ports/log.ts";
import type { OrderedEvents, ReservedPlace } from "./ordered-events.ts";
import type { Recording } from "./recording.ts";
import { waitAtMost } from "./wait-at-most.ts";

/** A sandbox that is silent for longer may hold up its earlier commands, but no new ones. */
const PATIENCE_MS = 5_000;

export class EarlierEnds {
  readonly #events: OrderedEvents;
  /** Where ends belong among the session's events, by command. */
  readonly #places = new Map<string, ReservedPlace>();
  #recordings: Recording[] = [];
  #learnt: Promise<void> | undefined;

  constructor(events: OrderedEvents) {
    this.#events = events;
  }

  /** The command may have ended before what is told from now on, which waits for `learn`. */
  expect(execId: string): void {
    this.#places.set(execId, this.#events.reserve());
  }

  /** For the end of any of the session's commands, which has just happened or was expected. */
  placeOf(execId: string): ReservedPlace {
    const place = this.#places.get(execId);
    this.#places.delete(execId);
    return place ?? this.#events.reserve();
  }

  add(recording: Recording): void {
    this.#recordings.push(recording);
  }

  /**
   * Resolves when the commands that had ended are recorded as such, so their ends are told before
   * the next command's start. Undefined if nothing is left to learn.
   */
  learn(channel: () => Promise<Channel>, log: Log): Promise<void> | undefined {
    if (this.#recordings.length > 0) {
      const recordings = this.#recordings;
      this.#recordings = [];
      this.#learnt = waitAtMost(endsOf(recordings, channel), PATIENCE_MS, undefined)
        .catch((error: unknown) => {
          log.warn({ err: error }, "cannot ask a sandbox about its earlier commands");
        })
        .finally(() => {
          this.#learnt = undefined;
          this.#giveUpPlaces();
        });
    }
    return this.#learnt;
  }

  /** The next daemon asks the sandbox, so nothing that waits is told here. */
  release(): void {
    this.#places.clear();
  }

  /** These commands still run, or their sandbox is silent: their ends are told when they are known. */
  #giveUpPlaces(): void {
    for (const place of this.#places.values()) place[Symbol.dispose]();
    this.#places.clear();
  }
}

async function endsOf(
  recordings: readonly Recording[],
  channel: () => Promise<Channel>,
): Promise<void> {
  const known = await (await channel()).listExecs();
  const ended = new Set(known.flatMap(({ execId, state }) => (state === "done" ? [execId] : [])));
  await Promise.allSettled(
    recordings.flatMap(({ row, ended: end }) => (ended.has(row.id) ? [end] : [])),
  );
}
