/** The clock of a core in tests. */
import type { Clock } from "../../ports/clock.ts";

/** Both clocks advance only when told to. */
export class TestClock implements Clock {
  bootId = "boot-1";
  wallMs = Date.UTC(2026, 0, 1);
  steadyMs = 1_000_000;

  nowMs(): number {
    return this.wallMs;
  }

  monotonicMs(): number {
    return this.steadyMs;
  }

  /** Simulates a reboot: the machine was off for this long, and its wall clock was changed. */
  boot(offMs: number, jumpMs = 0): void {
    this.bootId = `boot-${Math.random()}`;
    this.steadyMs = 10;
    this.wallMs += offMs + jumpMs;
  }

  pass(ms: number): void {
    this.wallMs += ms;
    this.steadyMs += ms;
  }
}
