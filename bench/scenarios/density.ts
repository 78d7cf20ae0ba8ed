/** Many idle sandboxes at once: their cost for each other, and for a daemon that restarts. */
import type { SessionBody } from "@sandkasten/protocol";
import type { BenchDaemon } from "../bench-daemon.ts";
import type { BenchSession } from "../bench-session.ts";
import type { BenchContext, Scenario } from "../context.ts";
import { inParallel } from "../in-parallel.ts";
import { interleave, timeUs } from "../interleave.ts";
import type { Contestant } from "../interleave.ts";
import { availableBytes, chargedBytes, rssBytes } from "../process-memory.ts";
import type { Series } from "../series.ts";

const WARM_UP_ROUNDS = 50;
const LIST_PAGE = 100;

export const density: Scenario = {
  name: "density",
  what: "a command among many idle sandboxes, their memory, and the daemon's restart",
  run: measure,
};

async function measure(context: BenchContext): Promise<Series[]> {
  const { densitySandboxes: count, progress } = context;
  await using small = await context.startDaemon();
  await using daemon = await context.startDaemon({ QUOTAS_MAX_SESSIONS: String(count + 2) });
  const beside = await usedSession(small, 0);
  const first = await usedSession(daemon, 0);
  const before = await measureCommands(context, "one", { "exec true, one": first });
  const { sessions, series: populating } = await populate(context, daemon, first);
  const among = await measureCommands(context, "all", {
    "exec true, one beside all": beside,
    "exec true, all": first,
    "exec true, each in turn": sessions,
  });
  const restarts = await measureRestarts(context, small, daemon, sessions);
  progress(`destroying ${count - 1}`);
  await inParallel(sessions.slice(1), (session) => session.destroy());
  const after = await measureCommands(context, "one", { "exec true, one": first });
  return [...joined([...before, ...after]), ...among, ...restarts, ...populating];
}

/** Creates all the others, and measures the time and memory that they take. */
async function populate(
  { densitySandboxes: count, signal, progress }: BenchContext,
  daemon: BenchDaemon,
  first: BenchSession,
): Promise<{ readonly sessions: readonly BenchSession[]; readonly series: readonly Series[] }> {
  await daemon.collectGarbage();
  const rssBefore = rssBytes(daemon.pid);
  const availableBefore = availableBytes();
  const sessions = [first];
  const createUs: number[] = [];
  while (sessions.length < count) {
    signal.throwIfAborted();
    const number = sessions.length;
    if (number % 20 === 0) progress(`${number} of ${count} made`);
    createUs.push(
      await timeUs(async () => {
        sessions.push(await usedSession(daemon, number));
      }),
    );
  }
  await daemon.collectGarbage();
  const tenth = Math.ceil(count / 10);
  const added = count - 1;
  const daemonShare = (rssBytes(daemon.pid) - rssBefore) / added;
  const machineShare = (availableBefore - availableBytes()) / added;
  return {
    sessions,
    series: [
      timed("create + true, first tenth", createUs.slice(0, tenth)),
      timed("create + true, last tenth", createUs.slice(-tenth)),
      sized("memory, daemon's share", [daemonShare]),
      sized("memory, cgroup", await Promise.all((await daemon.memoryCgroups()).map(chargedBytes))),
      // Includes memory that other processes on the machine take or free meanwhile.
      sized("memory, all of the machine", [machineShare]),
    ],
  };
}

/** A session whose shell stores its number. */
async function usedSession(daemon: BenchDaemon, number: number): Promise<BenchSession> {
  const session = await daemon.open();
  await session.exec(`mark=${number}`);
  return session;
}

/**
 * `true` in sessions, or in each of many in turn, and a bare process that shows how busy the
 * machine is. Called before there are many, and after, which brackets the time in between.
 */
async function measureCommands(
  { spawnTimer, quick, signal, progress }: BenchContext,
  when: string,
  measured: Readonly<Record<string, BenchSession | readonly BenchSession[]>>,
): Promise<Series[]> {
  const contestants: Record<string, Contestant> = {
    [`fork+exec+wait, ${when}`]: () => spawnTimer.timeUs(["/bin/true"]),
  };
  for (const [name, one] of Object.entries(measured)) {
    const sessions = [one].flat();
    let next = 0;
    contestants[name] = () =>
      timeUs(async () => await sessions[next++ % sessions.length]?.exec("true"));
  }
  return await interleave(contestants, {
    scenario: density.name,
    rounds: quick ? 100 : 300,
    warmUpRounds: WARM_UP_ROUNDS,
    signal,
    onRound: (round, rounds) => {
      if (round % 100 === 0) progress(`commands with ${when}, round ${round} of ${rounds}`);
    },
  });
}

/** Kills and restarts the daemon, compared with one that has a single sandbox to adopt. */
async function measureRestarts(
  { quick, signal, progress }: BenchContext,
  small: BenchDaemon,
  daemon: BenchDaemon,
  sessions: readonly BenchSession[],
): Promise<Series[]> {
  return await interleave(
    {
      "restart, one": () => small.restart(),
      "restart, all": async () => {
        const elapsedUs = await daemon.restart();
        await mustBeAdopted(daemon, sessions);
        return elapsedUs;
      },
    },
    {
      scenario: density.name,
      rounds: quick ? 2 : 5,
      warmUpRounds: 0,
      signal,
      onRound: (round, rounds) => progress(`restart ${round + 1} of ${rounds}`),
    },
  );
}

/** All of them exist, and each shell still has its state. */
async function mustBeAdopted(
  daemon: BenchDaemon,
  sessions: readonly BenchSession[],
): Promise<void> {
  const path = `/v1/sessions?status=running&limit=${LIST_PAGE}`;
  const running = new Set((await daemon.client.list<SessionBody>(path)).map(({ id }) => id));
  const lost = sessions.filter(({ id }) => !running.has(id));
  if (lost.length > 0 || running.size !== sessions.length)
    throw new Error(
      `after a restart ${running.size} sessions run, and ${lost.length} of ${sessions.length} are lost`,
    );
  for (const [number, session] of sessions.entries()) {
    const { stdout } = await session.exec('echo "$mark"');
    if (stdout !== `${number}\n`)
      throw new Error(`after a restart the session ${session.id} has forgotten its state`);
  }
}

/** Merges series with the same name. */
function joined(series: readonly Series[]): Series[] {
  return [...Map.groupBy(series, ({ name }) => name)].map(([name, parts]) =>
    timed(
      name,
      parts.flatMap(({ samples }) => samples),
    ),
  );
}

function timed(name: string, samples: readonly number[]): Series {
  return { scenario: density.name, name, unit: "us", samples };
}

function sized(name: string, samples: readonly number[]): Series {
  return { scenario: density.name, name, unit: "bytes", samples };
}
