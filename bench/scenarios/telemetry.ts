/**
 * What spans and metrics cost a command: in a daemon without any hooks for them, in one that sends
 * nothing, and in one with a collector. They are compared by the processor time of the daemon and
 * of its sandbox, because other work on the machine hides differences in elapsed time.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { BenchContext, Scenario } from "../context.ts";
import type { BenchDaemon } from "../bench-daemon.ts";
import type { BenchSession } from "../bench-session.ts";
import { interleave, timeUs } from "../interleave.ts";
import type { Series } from "../series.ts";
import { TelemetryHooks } from "../telemetry-hooks.ts";

/** The spans of this many commands fill one batch, so each turn sends about one. */
const IN_A_ROW = 256;
const WARM_UP_ROUNDS = 4;
const HOOK_ROUNDS = 30;

export const telemetry: Scenario = {
  name: "telemetry",
  what: "`true` over HTTP in a daemon without hooks, in one that sends nothing, and in one that sends spans and metrics",
  run: measure,
};

async function measure(context: BenchContext): Promise<Series[]> {
  const collector = await startCollector();
  try {
    const { port } = collector.address() as AddressInfo;
    const endpoint = `http://127.0.0.1:${port}`;
    return [
      ...(await measureDaemons(context, endpoint)),
      ...(await measureHooks(context, endpoint)),
    ];
  } finally {
    collector.closeAllConnections();
    collector.close();
  }
}

async function measureDaemons(
  { quick, signal, startDaemon }: BenchContext,
  endpoint: string,
): Promise<Series[]> {
  await using none = await startDaemon({}, "daemon-without-telemetry.ts");
  await using off = await startDaemon();
  await using on = await startDaemon({ TELEMETRY_ENDPOINT: endpoint });
  const meters = {
    "no hooks": new Meter(none, await none.open()),
    off: new Meter(off, await off.open()),
    on: new Meter(on, await on.open()),
  };
  const turns = Object.entries(meters).map(([name, meter]) => [name, () => meter.turn()] as const);
  await interleave(Object.fromEntries(turns), {
    scenario: telemetry.name,
    rounds: quick ? 8 : 40,
    warmUpRounds: WARM_UP_ROUNDS,
    signal,
    onRound: (round) => {
      if (round === 0) for (const meter of Object.values(meters)) meter.forgetWarmUp();
    },
  });
  return Object.entries(meters).flatMap(([name, meter]) => meter.series(name));
}

/** Runs commands in one daemon, turn by turn, and counts all processor time from turn to turn. */
class Meter {
  readonly #daemon: BenchDaemon;
  readonly #session: BenchSession;
  readonly #waitedUs: number[] = [];
  readonly #daemonUs: number[] = [];
  readonly #wholeUs: number[] = [];
  #before: { readonly daemonUs: number; readonly sandboxUs: number } | undefined;

  constructor(daemon: BenchDaemon, session: BenchSession) {
    this.#daemon = daemon;
    this.#session = session;
  }

  async turn(): Promise<undefined> {
    for (let command = 0; command < IN_A_ROW; command++)
      this.#waitedUs.push(await timeUs(() => this.#session.exec("true")));
    const daemonUs = await this.#daemon.processorTimeUs();
    const sandboxUs = await this.#daemon.sandboxProcessorTimeUs();
    if (this.#before !== undefined) {
      // Includes what it did during the others' turns, such as sending a batch.
      const daemon = (daemonUs - this.#before.daemonUs) / IN_A_ROW;
      this.#daemonUs.push(daemon);
      this.#wholeUs.push(daemon + (sandboxUs - this.#before.sandboxUs) / IN_A_ROW);
    }
    this.#before = { daemonUs, sandboxUs };
    return undefined;
  }

  forgetWarmUp(): void {
    for (const samples of [this.#waitedUs, this.#daemonUs, this.#wholeUs]) samples.length = 0;
  }

  series(name: string): Series[] {
    const of = (what: string, samples: readonly number[]): Series => ({
      scenario: telemetry.name,
      name: `${what}, ${name}`,
      unit: "us",
      samples,
    });
    return [
      of("HTTP, shell, true", this.#waitedUs),
      of("processor time of true", this.#wholeUs),
      of("processor time of the daemon for true", this.#daemonUs),
    ];
  }
}

async function measureHooks({ signal }: BenchContext, endpoint: string): Promise<Series[]> {
  await using off = await TelemetryHooks.start(undefined);
  await using on = await TelemetryHooks.start(endpoint);
  return await interleave(
    {
      "hooks of one command, off": () => off.processorTimeUs(),
      "hooks of one command, on": () => on.processorTimeUs(),
    },
    { scenario: telemetry.name, rounds: HOOK_ROUNDS, warmUpRounds: HOOK_ROUNDS, signal },
  );
}

/** Accepts everything and keeps nothing. */
async function startCollector(): Promise<Server> {
  const server = createServer((request, response) => {
    request.resume().once("end", () => response.writeHead(200).end());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return server;
}
