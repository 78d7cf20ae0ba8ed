/** Outbound connections of a sandbox, compared with the same program's connections over plain loopback. */
import { execFile, fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Channel } from "@sandkasten/daemon";
import { EdgeInterceptor } from "../../packages/daemon/src/network/edge-interceptor.ts";
import { SessionLimiter } from "../../packages/daemon/src/network/egress-limits.ts";
import { EgressRecorder, EgressTotals } from "../../packages/daemon/src/network/egress-recorder.ts";
import { resolveRules } from "../../packages/daemon/src/network/plan-network.ts";
import { NetworkPolicy } from "../../packages/daemon/src/network/policy.ts";
import { SessionGateway } from "../../packages/daemon/src/network/session-gateway.ts";
import { MIB, run } from "../bench-machine.ts";
import type { BenchContext, Scenario } from "../context.ts";
import { interleave } from "../interleave.ts";
import { collectGarbage, peakRssDuring, rssBytes } from "../process-memory.ts";
import type { Series } from "../series.ts";

const NAME = "peer.test";
const CONNECTIONS = 25;

/** Prints the time of each connection to its first byte, or of a download to its last, in microseconds. */
const CLIENT = `
import socket, sys, time
host, port, what, count = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
if what == "connect":
    for _ in range(count):
        start = time.perf_counter()
        with socket.create_connection((host, port)) as peer:
            peer.sendall(b"give 1\\n")
            peer.recv(1)
        print(int((time.perf_counter() - start) * 1e6))
else:
    buffer, left = bytearray(1 << 20), count
    start = time.perf_counter()
    with socket.create_connection((host, port)) as peer:
        peer.sendall(b"give %d\\n" % count)
        while left > 0:
            got = peer.recv_into(buffer)
            if got == 0: sys.exit("the peer ended early")
            left -= got
    print(int((time.perf_counter() - start) * 1e6))
`;

export const gateway: Scenario = {
  name: "gateway",
  what: "connections and downloads of a program in a sandbox, beside the same over plain loopback",
  run: measure,
};

/** Runs the client and returns its output. */
type Client = (...args: readonly string[]) => Promise<number[]>;

async function measure(context: BenchContext): Promise<Series[]> {
  const { machine, signal, progress, quick } = context;
  const scenario = gateway.name;
  const bytesMoved = quick ? 256 * MIB : 1024 * MIB;
  const peer = fork(join(import.meta.dirname, "../plain-peer-process.ts"), ["tcp"], {
    detached: true,
  });
  try {
    const [port] = (await once(peer, "message")) as [number];
    const sandbox = await machine.create({ network: "gateway" });
    await sandbox.channel.openNetwork(openTo(port));
    const inside = clientIn(sandbox.channel, port);
    const outside = clientOnHost(port);
    const growth: number[] = [];
    const downloads = await interleave(
      {
        "loopback, download": () => outside("download", String(bytesMoved)),
        "gateway, download": () => growing(growth, () => inside("download", String(bytesMoved))),
      },
      { scenario, rounds: quick ? 2 : 3, warmUpRounds: 1, signal },
    );
    const connections = await interleave(
      {
        "loopback, connection": () => outside("connect", String(CONNECTIONS)),
        "gateway, connection": () => inside("connect", String(CONNECTIONS)),
      },
      {
        scenario,
        rounds: quick ? 3 : 10,
        warmUpRounds: 1,
        signal,
        onRound: (round, rounds) => progress(`round ${round + 1} of ${rounds}`),
      },
    );
    await machine.destroy(sandbox);
    return [
      ...downloads.map((series) => ({ ...series, bytesMoved })),
      ...connections,
      { scenario, name: "growth of RSS, gateway", unit: "bytes", samples: growth },
    ];
  } finally {
    peer.kill();
  }
}

/** Configured as for a session, but without the bandwidth limit, which would dominate the result. */
function openTo(port: number): SessionGateway {
  const rules = resolveRules([`${NAME}:${port}`, `127.0.0.1:${port}`], new Map());
  const policy = new NetworkPolicy(rules, [{ name: "the ceiling", rules }]);
  const limits = {
    maxConnections: 512,
    maxConnectionsPerSecond: 1_000,
    maxTotalBytes: 100 * 1024 * MIB,
    maxBytesPerSecond: 0,
  };
  const drop = (): void => undefined;
  return new SessionGateway(
    {
      policy: () => policy,
      observer: new EgressRecorder(drop, new EgressTotals(), () => Date.now()),
      limiter: new SessionLimiter(limits, () => performance.now()),
      interceptor: new EdgeInterceptor(),
    },
    { resolveName: () => Promise.resolve(["127.0.0.1"]) },
  );
}

function clientIn(channel: Channel, port: number): Client {
  return async (...args) => {
    const said: Uint8Array[] = [];
    const argv = ["/usr/bin/python3", "-c", CLIENT, NAME, String(port), ...args];
    const end = await run(channel, { kind: "process", argv }, ({ bytes }) =>
      said.push(Uint8Array.from(bytes)),
    );
    if (end.exitCode !== 0) throw new Error(`the client failed: ${Buffer.concat(said).toString()}`);
    return numbersIn(Buffer.concat(said).toString());
  };
}

function clientOnHost(port: number): Client {
  const execute = promisify(execFile);
  return async (...args) => {
    const argv = ["-c", CLIENT, "127.0.0.1", String(port), ...args];
    return numbersIn((await execute("/usr/bin/python3", argv)).stdout);
  };
}

function numbersIn(text: string): number[] {
  return text.trim().split("\n").map(Number);
}

/** This process is the gateway: its maximum growth is recorded. */
async function growing(growth: number[], act: () => Promise<number[]>): Promise<number[]> {
  collectGarbage();
  const beforeBytes = rssBytes(process.pid);
  let taken: number[] = [];
  const peakBytes = await peakRssDuring(process.pid, async () => {
    taken = await act();
  });
  growth.push(Math.max(0, peakBytes - beforeBytes));
  return taken;
}
