/** The resource usage of sessions, sampled only for those on the screen. */
import { effect, signal } from "@preact/signals";
import type { SessionStats } from "@sandkasten/sdk";
import { connection } from "./connection.ts";
import { sessionHandle } from "./session-handle.ts";
import { sessionById } from "./sessions.ts";
import { isVisible } from "./visibility.ts";

const SAMPLE_MS = 2000;
/** Browsers limit connections to a host, and other requests need some, too. */
const AT_ONCE = 3;
const KEPT_SAMPLES = 300;
/** Rows appear in groups. */
const SETTLE_MS = 100;

export interface Sample {
  readonly atMs: number;
  /** Average number of busy cores since the previous sample; undefined for the first. */
  readonly cores: number | undefined;
  readonly stats: SessionStats;
}

/** Samples by session, oldest first. */
export const usage = signal<ReadonlyMap<string, readonly Sample[]>>(new Map());

const watched = new Map<string, number>();
/** Ends the pause between two samples, so that a new row gets its first sample at once. */
let wake: (() => void) | undefined;

/** Samples a session until the returned function is called. */
export function watchUsage(id: string): () => void {
  watched.set(id, (watched.get(id) ?? 0) + 1);
  wake?.();
  return () => {
    const left = (watched.get(id) ?? 1) - 1;
    if (left === 0) watched.delete(id);
    else watched.set(id, left);
  };
}

export function startUsage(): void {
  effect(() => {
    if (connection.value === undefined) usage.value = new Map();
    if (connection.value === undefined || !isVisible.value) return undefined;
    const stop = new AbortController();
    void sampleUntil(stop.signal);
    return () => stop.abort();
  });
}

async function sampleUntil(stopped: AbortSignal): Promise<void> {
  while (!stopped.aborted) {
    const ids = [...watched.keys()].filter((id) => sessionById(id)?.status === "running");
    const fresh = new Map<string, Sample>();
    const queue = ids.values();
    await Promise.all(
      Array.from({ length: AT_ONCE }, async () => {
        for (const id of queue) {
          const sample = await sampleOne(id, stopped);
          if (sample !== undefined) fresh.set(id, sample);
        }
      }),
    );
    if (stopped.aborted) return;
    if (fresh.size > 0) usage.value = withSamples(usage.peek(), fresh);
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, SAMPLE_MS);
      wake = () => {
        clearTimeout(timer);
        setTimeout(resolve, SETTLE_MS);
      };
    });
  }
}

async function sampleOne(id: string, stopped: AbortSignal): Promise<Sample | undefined> {
  try {
    const session = await sessionHandle(id, stopped);
    const stats = await session.stats({ signal: stopped });
    const atMs = performance.timeOrigin + performance.now();
    const before = usage.peek().get(id)?.at(-1);
    return { atMs, stats, cores: before && coresBetween(before, stats, atMs) };
  } catch {
    // A session that has just ended has no stats; its row will show its end next.
    return undefined;
  }
}

function coresBetween(before: Sample, stats: SessionStats, atMs: number): number {
  const usedUsec = Math.max(0, stats.cpuUsageUsec - before.stats.cpuUsageUsec);
  return usedUsec / 1000 / Math.max(1, atMs - before.atMs);
}

function withSamples(
  all: ReadonlyMap<string, readonly Sample[]>,
  fresh: ReadonlyMap<string, Sample>,
): ReadonlyMap<string, readonly Sample[]> {
  const next = new Map(all);
  for (const [id, sample] of fresh)
    next.set(id, [...(next.get(id) ?? []), sample].slice(-KEPT_SAMPLES));
  return next;
}
