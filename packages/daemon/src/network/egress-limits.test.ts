import { afterEach, describe, expect, it, vi } from "vitest";
import { SessionLimiter } from "./egress-limits.ts";
import type { EgressLimits } from "./egress-limits.ts";

const LIMITS: EgressLimits = {
  maxConnections: 3,
  maxConnectionsPerSecond: 2,
  maxTotalBytes: 1000,
  maxBytesPerSecond: 0,
};

afterEach(() => {
  vi.useRealTimers();
});

function limiterAt(limits: Partial<EgressLimits>): {
  readonly limiter: SessionLimiter;
  readonly pass: (ms: number) => void;
} {
  let now = 1000;
  const limiter = new SessionLimiter({ ...LIMITS, ...limits }, () => now);
  return {
    limiter,
    pass: (ms) => {
      now += ms;
    },
  };
}

const reason = (admitted: ReturnType<SessionLimiter["admit"]>): string =>
  "reason" in admitted ? admitted.reason : "admitted";

function release(admitted: ReturnType<SessionLimiter["admit"]>): void {
  if ("release" in admitted) admitted.release();
}

describe("SessionLimiter", () => {
  it("allows so many open connections, and another when one is closed", () => {
    const { limiter, pass } = limiterAt({});
    const [first] = [limiter.admit(), limiter.admit(), limiter.admit()];
    pass(60_000);
    expect(reason(limiter.admit())).toContain("network.max_connections");
    release(first);
    release(first);
    expect(limiter.openConnections).toBe(2);
    expect(reason(limiter.admit())).toBe("admitted");
    expect(reason(limiter.admit())).toContain("network.max_connections");
  });

  it("allows a burst and then so many per second", () => {
    const { limiter, pass } = limiterAt({});
    const open = (): string => {
      const admitted = limiter.admit();
      release(admitted);
      return reason(admitted);
    };
    expect([open(), open(), open()]).toEqual(["admitted", "admitted", "admitted"]);
    expect(open()).toContain("network.max_connections_per_second");
    pass(500);
    expect(open()).toBe("admitted");
    expect(open()).toContain("network.max_connections_per_second");
  });

  it("closes connections after the last allowed byte", async () => {
    const { limiter } = limiterAt({});
    expect(limiter.take(undefined, 999)).toBeUndefined();
    expect(limiter.take(undefined, 1)).toBeUndefined();
    await expect(limiter.take(undefined, 1)).rejects.toThrow("network.max_total_bytes");
    expect(reason(limiter.admit())).toContain("network.max_total_bytes");
  });

  it("has no limit if it is 0", () => {
    const { limiter } = limiterAt({ maxTotalBytes: 0 });
    for (let at = 0; at < 10; at += 1) expect(limiter.take(undefined, 2 ** 40)).toBeUndefined();
  });

  it("delays bytes according to the bandwidth", async () => {
    vi.useFakeTimers();
    const { limiter, pass } = limiterAt({ maxTotalBytes: 0, maxBytesPerSecond: 1000 });
    expect(limiter.take(undefined, 250)).toBeUndefined();
    let done = false;
    const wait = limiter.take(undefined, 500)?.then(() => {
      done = true;
    });
    await vi.advanceTimersByTimeAsync(499);
    expect(done).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    await wait;
    expect(done).toBe(true);
    pass(10_000);
    expect(limiter.take(undefined, 250)).toBeUndefined();
  });
});
