/** Many concurrent creates, each with a first command, while an existing session keeps working. */
import type { BenchDaemon } from "../bench-daemon.ts";
import type { BenchContext, Scenario } from "../context.ts";
import { inParallel } from "../in-parallel.ts";
import { timeUs } from "../interleave.ts";
import type { Series } from "../series.ts";

type OpenSession = Awaited<ReturnType<BenchDaemon["open"]>>;

const BURST = 100;
const QUICK_BURST = 20;
const IDLE_COMMANDS = 200;
const LONE_CREATES = 10;
/** Each yields one time for the first that is ready, and one for the last. */
const BURSTS = 5;
const QUICK_BURSTS = 2;

export const createBurst: Scenario = {
  name: "create burst",
  what: `${BURST} creates at once, each with its first \`true\`, beside a living session`,
  run: measure,
};

async function measure(context: BenchContext): Promise<Series[]> {
  const scenario = createBurst.name;
  const count = context.quick ? QUICK_BURST : BURST;
  await using daemon = await context.startDaemon({
    QUOTAS_MAX_SESSIONS: `${count + 10}`,
  });
  const living = await daemon.open();
  const lone: number[] = [];
  for (let made = 0; made < LONE_CREATES; made++) {
    const sessions: OpenSession[] = [];
    lone.push(await timeUs(async () => void sessions.push(await createAndRun(daemon))));
    for (const session of sessions) await session.destroy();
  }
  const idle: number[] = [];
  for (let run = 0; run < IDLE_COMMANDS; run++) idle.push(await timeUs(() => living.exec("true")));
  const busy: number[] = [];
  const first: number[] = [];
  const all: number[] = [];
  const bursts = context.quick ? QUICK_BURSTS : BURSTS;
  for (let burst = 1; burst <= bursts; burst++) {
    context.progress(`${count} at once, ${burst} of ${bursts}`);
    const measured = await createAtOnce(daemon, count, living);
    busy.push(...measured.busy);
    first.push(Math.min(...measured.ready));
    all.push(Math.max(...measured.ready));
  }
  const series = (name: string, samples: readonly number[]): Series => ({
    scenario,
    name,
    unit: "us",
    samples: [...samples],
  });
  return [
    series("HTTP, lone create, first true", lone),
    series("HTTP, first ready", first),
    series("HTTP, all ready", all),
    series("HTTP, living session, idle", idle),
    series("HTTP, living session, meanwhile", busy),
  ];
}

/** When each of them was ready, and how long commands of the existing session took meanwhile. */
async function createAtOnce(
  daemon: BenchDaemon,
  count: number,
  living: OpenSession,
): Promise<{ readonly ready: readonly number[]; readonly busy: readonly number[] }> {
  const busy: number[] = [];
  const ready: number[] = [];
  let going = true;
  const beside = (async () => {
    while (going) busy.push(await timeUs(() => living.exec("true")));
  })();
  const startedMs = performance.now();
  try {
    const made = await Promise.all(
      Array.from({ length: count }, async () => {
        const session = await createAndRun(daemon);
        ready.push((performance.now() - startedMs) * 1000);
        return session;
      }),
    );
    going = false;
    await beside;
    await inParallel(made, (session) => session.destroy());
  } finally {
    going = false;
  }
  return { ready, busy };
}

async function createAndRun(daemon: BenchDaemon): Promise<OpenSession> {
  const session = await daemon.open();
  await session.exec("true");
  return session;
}
