/** What spans and metrics cost a command, with a collector that takes them. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { BenchContext, Scenario } from "../context.ts";
import { inARow, interleave, timeUs } from "../interleave.ts";
import type { Contestant } from "../interleave.ts";
import type { Series } from "../series.ts";

const IN_A_ROW = 10;
const WARM_UP_ROUNDS = 60;

export const telemetry: Scenario = {
  name: "telemetry",
  what: "`true` over HTTP in a daemon that sends nothing, and in one that sends spans and metrics",
  run: measure,
};

async function measure(context: BenchContext): Promise<Series[]> {
  const { quick, signal } = context;
  const collector = await startCollector();
  try {
    await using off = await context.startDaemon();
    const { port } = collector.address() as AddressInfo;
    await using on = await context.startDaemon({
      TELEMETRY_ENDPOINT: `http://127.0.0.1:${port}`,
    });
    const silent = await off.open();
    const traced = await on.open();
    const row = (act: () => Promise<unknown>): Contestant => inARow(IN_A_ROW, () => timeUs(act));
    return await interleave(
      {
        "HTTP, shell, true, off": row(() => silent.exec("true")),
        "HTTP, shell, true, on": row(() => traced.exec("true")),
      },
      {
        scenario: telemetry.name,
        rounds: quick ? 60 : 300,
        warmUpRounds: WARM_UP_ROUNDS,
        signal,
      },
    );
  } finally {
    collector.closeAllConnections();
    collector.close();
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
