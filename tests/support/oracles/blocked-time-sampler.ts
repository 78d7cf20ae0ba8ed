/** The thread of `BlockedTime`: looks at another process's main thread every few milliseconds. */
import { readdirSync, readFileSync } from "node:fs";
import { parentPort, workerData } from "node:worker_threads";

const SAMPLE_MS = 5;
/** epoll_wait, epoll_pwait and epoll_pwait2 on x86-64, and the latter two on arm64. */
const LOOP_CALLS = process.arch === "arm64" ? ["22", "441"] : ["232", "281", "441"];
/** The call in which a thread waits for another. */
const FUTEX = process.arch === "arm64" ? "98" : "202";

const { pid, microseconds } = workerData as {
  readonly pid: number;
  readonly microseconds: BigInt64Array;
};
const threads = `/proc/${pid}/task`;
const thread = `${threads}/${pid}`;

/** The descriptor of the event loop, once it is known. */
let loop: string | undefined;

interface Sleep {
  /** Identifies it: two samples with the same name are of the same sleep. */
  readonly name: string;
  readonly atMs: number;
  /** The processor time of each other thread that could run, if this sleep is a wait for one. */
  readonly runnable: ReadonlyMap<string, number>;
}

/** A sleep outside the event loop; undefined if the thread is not in one. */
function currentSleep(): Sleep | undefined {
  const atMs = performance.now();
  const status = readFileSync(`${thread}/status`, "utf8");
  const call = readFileSync(`${thread}/syscall`, "utf8");
  const [number = "", descriptor] = call.split(" ", 2);
  if (number === "running\n") return undefined;
  if (LOOP_CALLS.includes(number)) {
    if (loop === undefined) parentPort?.postMessage("ready");
    // To wait for a child, Node runs another loop inside.
    loop ??= descriptor;
    if (descriptor === loop) return undefined;
  }
  const [, state] = /^State:\t([SD])/m.exec(status) ?? [];
  if (state === undefined) return undefined;
  // Each sleep is a voluntary switch.
  const [, switches] = /^voluntary_ctxt_switches:\t(\d+)/m.exec(status) ?? [];
  const runnable = number === FUTEX ? otherRunnableThreads() : new Map<string, number>();
  return { name: `${switches} ${call}`, atMs, runnable };
}

function otherRunnableThreads(): Map<string, number> {
  const others = readdirSync(threads).filter((id) => id !== String(pid));
  return new Map(others.flatMap((id) => runnableThread(id) ?? []));
}

/** With its processor time; undefined if it sleeps, or has ended. */
function runnableThread(id: string): [readonly [string, number]] | undefined {
  try {
    if (!/\) R /u.test(readFileSync(`${threads}/${id}/stat`, "utf8"))) return undefined;
    const [nanoseconds] = readFileSync(`${threads}/${id}/schedstat`, "utf8").split(" ");
    return [[id, Number(nanoseconds) / 1e6]];
  } catch (error) {
    if (["ENOENT", "ESRCH"].includes((error as NodeJS.ErrnoException).code ?? "")) return undefined;
    throw error;
  }
}

/**
 * How much of the time between two samples of a sleep counts. The collector of garbage, for one, works
 * in several threads: while those wait for a processor, so does the thread that waits for them.
 */
function blockedMs(from: Sleep, to: Sleep): number {
  const elapsed = to.atMs - from.atMs;
  if (to.runnable.size === 0) return elapsed;
  const worked = [...to.runnable].map(([id, ms]) => ms - (from.runnable.get(id) ?? ms));
  return Math.min(elapsed, Math.max(...worked));
}

let last: Sleep | undefined;
const sampling = setInterval(() => {
  let sleep: Sleep | undefined;
  try {
    sleep = currentSleep();
  } catch {
    clearInterval(sampling); // The process has ended.
    return;
  }
  if (sleep !== undefined && sleep.name === last?.name)
    Atomics.add(microseconds, 0, BigInt(Math.round(blockedMs(last, sleep) * 1000)));
  last = sleep;
}, SAMPLE_MS);
