/**
 * What spans and metrics cost a command: in a daemon without any hooks for them, in one that sends
 * nothing, and in one whose collector takes them. The processor's time of the daemon includes what is
 * sent later, in batches, and other work on the machine hardly changes it.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { BenchDaemon } from "../bench-daemon.ts";
import type { BenchSession } from "../bench-session.ts";
import type { BenchContext, Scenario } from "../context.ts";
import { inARow, interleave, timeUs } from "../interleave.ts";
import type { Contestant } from "../interleave.ts";
import { processorTimeUs } from "../processor-time.ts";
import type { Series } from "../series.ts";

/** Many, so that each sample of the processor's time has its share of what is sent in batches. */
const IN_A_ROW = 100;
const WARM_UP_ROUNDS = 20;

export const telemetry: Scenario = {
  name: "telemetry",
  what: "`true` over HTTP in a daemon without hooks, in one that sends nothing, and in one that sends spans and metrics",
  run: measure,
};

async function measure(context: BenchContext): Promise<Series[]> {
  const { quick, signal } = context;
  const collector = await startCollector();
  try {
    const { port } = collector.address() as AddressInfo;
    await using none = await context.startDaemon({}, "daemon-without-telemetry.ts");
    await using off = await context.startDaemon();
    await using on = await context.startDaemon({
      TELEMETRY_ENDPOINT: `http://127.0.0.1:${port}`,
    });
    const rows = {
      "no hooks": new Row(none, await none.open()),
      off: new Row(off, await off.open()),
      on: new Row(on, await on.open()),
    };
    const times = await interleave(
      Object.fromEntries(
        Object.entries(rows).map(([name, row]) => [`HTTP, shell, true, ${name}`, row.measure]),
      ),
      {
        scenario: telemetry.name,
        rounds: quick ? 20 : 80,
        warmUpRounds: WARM_UP_ROUNDS,
        signal,
      },
    );
    const processor = Object.entries(rows).map(([name, row]) => ({
      scenario: telemetry.name,
      name: `processor time of the daemon, ${name}`,
      unit: "us" as const,
      samples: row.processorUs.slice(WARM_UP_ROUNDS),
    }));
    return [...times, ...processor];
  } finally {
    collector.closeAllConnections();
    collector.close();
  }
}

class Row {
  /** Of one command each, from the first round on. */
  readonly processorUs: number[] = [];
  readonly measure: Contestant;

  constructor({ pid }: BenchDaemon, session: BenchSession) {
    const commands = inARow(IN_A_ROW, () => timeUs(() => session.exec("true")));
    this.measure = async () => {
      const beforeUs = await processorTimeUs(pid);
      const taken = await commands();
      this.processorUs.push(((await processorTimeUs(pid)) - beforeUs) / IN_A_ROW);
      return taken;
    };
  }
}

/** Takes everything and keeps nothing. */
async function startCollector(): Promise<Server> {
  const server = createServer((request, response) => {
    request.resume().once("end", () => response.writeHead(200).end());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return server;
}
