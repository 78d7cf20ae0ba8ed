/** The thread of `BlockedTime`: looks at another process's main thread every few milliseconds. */
import { readFileSync } from "node:fs";
import { parentPort, workerData } from "node:worker_threads";

const SAMPLE_MS = 5;
/** epoll_wait, epoll_pwait and epoll_pwait2 on x86-64, and the latter two on arm64. */
const LOOP_CALLS = process.arch === "arm64" ? ["22", "441"] : ["232", "281", "441"];

const { pid, microseconds } = workerData as {
  readonly pid: number;
  readonly microseconds: BigInt64Array;
};
const thread = `/proc/${pid}/task/${pid}`;

/** The descriptor of the event loop, once it is known. */
let loop: string | undefined;

/** Identifies one sleep outside the event loop; undefined if the thread is not in one. */
function currentSleep(): string | undefined {
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
  // Each sleep is a voluntary switch: two samples with the same count are of the same sleep.
  const [, state] = /^State:\t([SD])/m.exec(status) ?? [];
  const [, switches] = /^voluntary_ctxt_switches:\t(\d+)/m.exec(status) ?? [];
  return state === undefined ? undefined : `${switches} ${call}`;
}

let last: { readonly sleep: string; readonly atMs: number } | undefined;
const sampling = setInterval(() => {
  const atMs = performance.now();
  let sleep: string | undefined;
  try {
    sleep = currentSleep();
  } catch {
    clearInterval(sampling); // The process has ended.
    return;
  }
  if (sleep !== undefined && sleep === last?.sleep)
    Atomics.add(microseconds, 0, BigInt(Math.round((atMs - last.atMs) * 1000)));
  last = sleep === undefined ? undefined : { sleep, atMs };
}, SAMPLE_MS);
