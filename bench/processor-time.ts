/** How long processes have been on a processor: steadier than the clock on a machine with other work. */
import { readdir, readFile } from "node:fs/promises";

/** Of all threads of a process that still run, in microseconds. */
export async function processorTimeUs(pid: number): Promise<number> {
  const threads = await readdir(`/proc/${pid}/task`);
  const times = await Promise.all(
    threads.map(async (thread) => {
      const text = await readFile(`/proc/${pid}/task/${thread}/schedstat`, "utf8");
      return Number(text.split(" ", 1)[0]) / 1000;
    }),
  );
  return times.reduce((total, one) => total + one, 0);
}
