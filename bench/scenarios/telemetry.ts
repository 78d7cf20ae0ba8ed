/**
 * The cost of spans and metrics for a command: in a daemon without telemetry hooks, in one that
 * sends nothing, and in one with a collector. On a busy machine the differences between daemons are
 * lost in noise, so the hooks of one command are also measured separately, by processor time.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { BenchContext, Scenario } from "../context.ts";
import { inARow, interleave, timeUs } from "../interleave.ts";
import type { Contestant } from "../interleave.ts";
import type { Series } from "../series.ts";
import { TelemetryHooks } from "../telemetry-hooks.ts";

const IN_A_ROW = 10;
const WARM_UP_ROUNDS = 60;
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
  const [hookless, silent, traced] = [await none.open(), await off.open(), await on.open()];
  const row = (act: () => Promise<unknown>): Contestant => inARow(IN_A_ROW, () => timeUs(act));
  return await interleave(
    {
      "HTTP, shell, true, no hooks": row(() => hookless.exec("true")),
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
