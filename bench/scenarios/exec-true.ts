/** `true`: what a command costs in a sandbox that is there already. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Channel, ExecCommand } from "@sandkasten/daemon";
import { run, TRUE_IN_SHELL } from "../bench-machine.ts";
import type { BenchSession } from "../bench-session.ts";
import type { BenchContext, Scenario } from "../context.ts";
import { everyRounds, interleave, timeUs } from "../interleave.ts";
import type { Contestant } from "../interleave.ts";
import type { Series } from "../series.ts";

/** `docker exec` takes long; fewer samples of it do. */
const DOCKER_EVERY_ROUNDS = 20;
const PAUSE_MS = 100;
const TRUE_AS_PROCESS: ExecCommand = { kind: "process", argv: ["/bin/true"] };

export const execTrue: Scenario = {
  name: "exec true",
  what: "`true` in a sandbox that is there already, over the channel and over HTTP",
  run: measure,
};

/** Sandboxes that wait to be measured, and how each is reached. */
interface Measured {
  readonly channel: Channel;
  readonly session: BenchSession;
  readonly healthz: () => Promise<unknown>;
  /** A container's id, when there is a Docker. */
  readonly container: string | undefined;
}

async function measure(context: BenchContext): Promise<Series[]> {
  const { machine, docker } = context;
  await using daemon = await context.startDaemon();
  const sandbox = await machine.create();
  const measured: Measured = {
    channel: sandbox.channel,
    session: await daemon.open(),
    healthz: () => daemon.client.text("GET", "/healthz"),
    container: await docker?.startContainer(),
  };
  const series = [
    ...(await measureInARow(context, measured)),
    ...(await measureAfterPauses(context, measured)),
  ];
  await machine.destroy(sandbox);
  return series;
}

async function measureInARow(
  { spawnTimer, docker, quick, signal, progress }: BenchContext,
  { channel, session, healthz, container }: Measured,
): Promise<Series[]> {
  const contestants: Record<string, Contestant> = {
    "fork+exec+wait": () => spawnTimer.timeUs(["/bin/true"]),
    "shell, true": () => timeUs(() => run(channel, TRUE_IN_SHELL)),
    "HTTP, shell, true": () => timeUs(() => session.exec("true")),
    "HTTP, healthz": () => timeUs(healthz),
    "shell, /bin/true": () => timeUs(() => run(channel, { kind: "shell", text: "/bin/true" })),
    "process, /bin/true": () => timeUs(() => run(channel, TRUE_AS_PROCESS)),
    ping: () => timeUs(() => channel.ping()),
  };
  if (docker !== undefined && container !== undefined)
    contestants["docker exec"] = everyRounds(DOCKER_EVERY_ROUNDS, () =>
      spawnTimer.timeUs(docker.command("exec", container, "true")),
    );
  return await interleave(contestants, {
    scenario: execTrue.name,
    rounds: quick ? 100 : 600,
    warmUpRounds: 50,
    signal,
    onRound: (round, rounds) => {
      if (round % 50 === 0) progress(`round ${round} of ${rounds}`);
    },
  });
}

/** As people and agents do: one command, then a while nothing. What got warm gets cold again. */
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
