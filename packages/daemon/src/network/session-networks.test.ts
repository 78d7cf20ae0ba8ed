/** What a session's network keeps when the daemon restarts. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { FileEgressLog } from "./file-egress-log.ts";
import { resolveRules } from "./plan-network.ts";
import { SecretBox } from "./secret-box.ts";
import { SessionNetworks } from "./session-networks.ts";

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "sandkasten-networks-"));
});
afterAll(async () => {
  await rm(directory, { recursive: true });
});

const SESSION = { id: "s1", owner: "alice", network: { allow: ["a.test:443"] } } as const;
const CONNECTION = { target: { name: "a.test", port: 443 }, via: "transparent" } as const;

/** As each start of a daemon creates it. */
function networks(): SessionNetworks {
  const rules = resolveRules(["a.test"], new Map());
  const silent = (): void => undefined;
  return new SessionNetworks({
    terms: { presets: new Map(), ceiling: rules },
    limits: {
      maxConnections: 4,
      maxConnectionsPerSecond: 100,
      maxTotalBytes: 1_000,
      maxBytesPerSecond: 0,
    },
    ceilingOf: () => undefined,
    log: new FileEgressLog({ directory, log: { info: silent, warn: silent, error: silent } }),
    clock: {
      nowMs: () => Date.now(),
      monotonicMs: () => performance.now(),
    } as ConstructorParameters<typeof SessionNetworks>[0]["clock"],
    isOwnAddress: () => false,
    resolveName: () => Promise.resolve([]),
    secrets: { box: new SecretBox(Buffer.alloc(32, "k")), store: [], trusted: [] },
  });
}

test("neither a restart of the daemon nor a lost channel resets a session's byte count", async () => {
  const channel = {
    openNetwork: () => Promise.resolve({ mode: "proxy" as const, close: () => undefined }),
  };
  const first = networks();
  await first.serve(SESSION, channel);
  const { limiter, observer } = first.of(SESSION);
  expect(limiter.admit()).toHaveProperty("release");
  observer.opened(CONNECTION);
  expect(limiter.take(CONNECTION, 600)).toBeUndefined();
  observer.moved(CONNECTION, 200, 400);
  observer.closed(CONNECTION, { kind: "closed" });
  await first.log.flush();

  const second = networks();
  await second.serve(SESSION, channel);
  await second.serve(SESSION, channel);
  const again = second.of(SESSION);
  expect(again.limiter.admit()).toHaveProperty("release");
  expect(again.limiter.take(CONNECTION, 399)).toBeUndefined();
  expect(again.limiter.admit()).toHaveProperty("release");
  expect(again.limiter.take(CONNECTION, 1)).toBeUndefined();
  expect(again.limiter.admit()).toEqual({
    reason: expect.stringContaining("network.max_total_bytes") as string,
  });
});
