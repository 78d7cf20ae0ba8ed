import { prometheusText } from "@sandkasten/telemetry";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ALICE, CoreFixture, overriding } from "../sessions/testing/core-fixture.ts";
import { LifecycleMetrics } from "./lifecycle-metrics.ts";

let fixture: CoreFixture;
let metrics: LifecycleMetrics;
let isBroken: boolean;
beforeEach(async () => {
  isBroken = false;
  fixture = await CoreFixture.start({
    wrap: (backend) =>
      overriding(backend, {
        create: async (spec, signal) => {
          if (isBroken) throw new Error("the engine fell over");
          return await backend.create(spec, signal);
        },
      }),
  });
  metrics = new LifecycleMetrics();
  fixture.events.onEvents((recorded) => metrics.consume(recorded));
});
afterEach(async () => await fixture[Symbol.asyncDispose]());

const lines = (): string[] => prometheusText(metrics.families()).split("\n");

describe("the metrics of sessions and commands", () => {
  it("count events as soon as they are recorded", async () => {
    const { sessions, execs } = fixture.core;
    const { session } = await sessions.create(ALICE, {});
    expect(lines()).toContain('sandkasten_sessions_created_total{source="cold"} 1');
    expect(lines()).toContain('sandkasten_session_create_duration_ms_count{source="cold"} 1');
    await fixture.run(session.id, "echo one");
    await fixture.run(session.id, "exit 3", { runtime: "python" });
    await execs.settled();
    expect(lines()).toContain('station_sandbox_runs_total{runtime="bash",ok="true"} 1');
    expect(lines()).toContain('station_sandbox_runs_total{runtime="python",ok="false"} 1');
    expect(lines()).toContain('station_sandbox_run_duration_ms_count{runtime="python"} 1');
    fixture.clock.pass(7000);
    await sessions.destroy(ALICE, session.id);
    expect(lines()).toContain('sandkasten_sessions_ended_total{status="destroyed"} 1');
    expect(lines()).toContain("sandkasten_session_lifetime_seconds_sum 7");
  });

  it("count failed creations by error code, and never as created", async () => {
    isBroken = true;
    await expect(fixture.core.sessions.create(ALICE, {})).rejects.toThrow("fell over");
    await expect(fixture.core.sessions.create(ALICE, { image: "nowhere" })).rejects.toMatchObject({
      code: "INVALID_IMAGE",
    });
    const failures = lines().filter((line) => /create_failures_total\{/u.test(line));
    expect(failures).toContain('sandkasten_session_create_failures_total{code="INTERNAL_ERROR"} 1');
    expect(lines().filter((line) => /sessions_created_total\{/u.test(line))).toEqual([]);
  });
});
