/** `true`: the cost of a command in an existing sandbox. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Channel, ExecCommand } from "@sandkasten/daemon";
import type { Session } from "@sandkasten/sdk";
import { run, TRUE_IN_SHELL } from "../bench-machine.ts";
import type { BenchSession } from "../bench-session.ts";
import type { BenchContext, Scenario } from "../context.ts";
import { everyRounds, inARow, interleave, timeUs } from "../interleave.ts";
import type { Contestant } from "../interleave.ts";
import type { Series } from "../series.ts";

/** Consecutive commands, like those of a script or a working agent. */
const IN_A_ROW = 10;
/** `docker exec` is slow, so fewer samples are taken. */
const DOCKER_EVERY_ROUNDS = 20;
const DOCKER_IN_A_ROW = 3;
const PAUSE_MS = 100;
/** A daemon's code is compiled while it runs; after a thousand commands it runs at full speed. */
const WARM_UP_ROUNDS = 100;
const TRUE_AS_PROCESS: ExecCommand = { kind: "process", argv: ["/bin/true"] };

export const execTrue: Scenario = {
  name: "exec true",
  what: "`true` in a sandbox that is there already, over the channel and over HTTP",
  run: measure,
};

/** The sandboxes to measure, and how each is reached. */
interface Measured {
  readonly channel: Channel;
  /** To a sandbox with strong isolation, if gVisor is installed. */
  readonly strong: Channel | undefined;
  readonly session: BenchSession;
  /** The same session, through the SDK. */
  readonly sdkSession: Session;
  readonly healthz: () => Promise<unknown>;
  /** A container's id, if there is a Docker engine. */
  readonly container: string | undefined;
}

async function measure(context: BenchContext): Promise<Series[]> {
  const { machine, machines, docker } = context;
  await using daemon = await context.startDaemon();
  const sandbox = await machine.create();
  const gvisor = machines.get("runsc");
  const strong = await gvisor?.create();
  const session = await daemon.open();
  const measured: Measured = {
    channel: sandbox.channel,
    strong: strong?.channel,
    session,
    sdkSession: await daemon.sdk.getSession(session.id),
    healthz: () => daemon.client.text("GET", "/healthz"),
    container: await docker?.startContainer(),
  };
  const series = [
    ...(await measureInARow(context, measured)),
    ...(await measureAfterPauses(context, measured)),
  ];
  await machine.destroy(sandbox);
  if (strong !== undefined) await gvisor?.destroy(strong);
  return series;
}

async function measureInARow(
  { spawnTimer, docker, quick, signal, progress }: BenchContext,
  { channel, strong, session, sdkSession, healthz, container }: Measured,
): Promise<Series[]> {
  const row = (act: () => Promise<unknown>): Contestant => inARow(IN_A_ROW, () => timeUs(act));
  const contestants: Record<string, Contestant> = {
    "fork+exec+wait": inARow(IN_A_ROW, () => spawnTimer.timeUs(["/bin/true"])),
    "shell, true": row(() => run(channel, TRUE_IN_SHELL)),
    "HTTP, shell, true": row(() => session.exec("true")),
    "SDK, shell, true": row(() => sdkSession.exec("true")),
    "HTTP, healthz": row(healthz),
    "HTTP, stats": row(() => session.stats()),
    "shell, /bin/true": row(() => run(channel, { kind: "shell", text: "/bin/true" })),
    "process, /bin/true": row(() => run(channel, TRUE_AS_PROCESS)),
    ping: row(() => channel.ping()),
    "HTTP, shell, true, alone": () => timeUs(() => session.exec("true")),
  };
  if (strong !== undefined) {
    contestants["runsc, shell, true"] = row(() => run(strong, TRUE_IN_SHELL));
    contestants["runsc, process, /bin/true"] = row(() => run(strong, TRUE_AS_PROCESS));
  }
  if (docker !== undefined && container !== undefined)
    contestants["docker exec"] = everyRounds(
      DOCKER_EVERY_ROUNDS,
      inARow(DOCKER_IN_A_ROW, () => spawnTimer.timeUs(docker.command("exec", container, "true"))),
    );
  return await interleave(contestants, {
    scenario: execTrue.name,
    rounds: quick ? 40 : 300,
    warmUpRounds: quick ? 20 : WARM_UP_ROUNDS,
    signal,
    onRound: (round, rounds) => {
      if (round % 50 === 0) progress(`round ${round} of ${rounds}`);
    },
  });
}

/** As people and agents do: one command, then a pause, so caches become cold again. */
async function measureAfterPauses(
  { spawnTimer, quick, signal, progress }: BenchContext,
  { channel, session, healthz }: Measured,
): Promise<Series[]> {
  const rested =
    (measureUs: Contestant): Contestant =>
    async () => {
      await sleep(PAUSE_MS);
      return await measureUs();
    };
  return await interleave(
    {
      "fork+exec+wait, rested": rested(() => spawnTimer.timeUs(["/bin/true"])),
      "shell, true, rested": rested(() => timeUs(() => run(channel, TRUE_IN_SHELL))),
      "process, /bin/true, rested": rested(() => timeUs(() => run(channel, TRUE_AS_PROCESS))),
      "HTTP, shell, true, rested": rested(() => timeUs(() => session.exec("true"))),
      "HTTP, healthz, rested": rested(() => timeUs(healthz)),
    },
    {
      scenario: execTrue.name,
      rounds: quick ? 10 : 40,
      warmUpRounds: 1,
      signal,
      onRound: (round, rounds) => {
        if (round % 10 === 0) progress(`after pauses, round ${round} of ${rounds}`);
      },
    },
  );
}
