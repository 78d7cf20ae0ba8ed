/** Spans as a real collector receives them. */
import { OtlpReceiver } from "@sandkasten/testkit";
import { afterEach, beforeEach, expect, it } from "vitest";
import { telemetryFromEnvironment } from "./settings-from-environment.ts";
import { startTelemetry } from "./start-telemetry.ts";
import type { StartedTelemetry } from "./started-telemetry.ts";
import { parseTraceContext } from "./trace-context.ts";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const SPAN = "b7ad6b7169203331";

let receiver: OtlpReceiver;
let started: StartedTelemetry[];
beforeEach(async () => {
  receiver = await OtlpReceiver.start();
  started = [];
});
afterEach(async () => {
  await Promise.all(started.map((one) => one.stop()));
  await receiver[Symbol.asyncDispose]();
});

async function start(variables: Record<string, string> = {}): Promise<StartedTelemetry> {
  const settings = telemetryFromEnvironment(
    { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${receiver.url}/v1/traces`, ...variables },
    { serviceName: "test" },
  );
  if (settings === undefined) throw new Error("no endpoint");
  const onFailure = (message: string): void => expect.unreachable(message);
  const telemetry = await startTelemetry(settings, {
    version: "1.2.3",
    isGlobal: false,
    onFailure,
  });
  started.push(telemetry);
  return telemetry;
}

it.each(["http/protobuf", "http/json"])(
  "sends names, times, attributes, status and parents by %s",
  async (protocol) => {
    const telemetry = await start({ OTEL_EXPORTER_OTLP_PROTOCOL: protocol });
    const caller = parseTraceContext(`00-${TRACE}-${SPAN}-01`, "vendor=1");
    const outer = telemetry.startSpan("outer", {
      parent: caller,
      isServer: true,
      attributes: { text: "x".repeat(9000), number: 2.5, yes: true, nothing: undefined },
    });
    const startedAtMs = Date.now() - 60_000;
    const inner = telemetry.startSpan("inner", { parent: outer.context, startedAtMs });
    expect(inner.context).toMatchObject({
      traceparent: expect.stringMatching(new RegExp(`^00-${TRACE}-[0-9a-f]{16}-01$`)) as string,
      tracestate: "vendor=1",
    });
    inner.end({ attributes: { late: 7 }, error: "it broke" });
    outer.end();
    await telemetry.flush();
    const named = (name: string) => receiver.span((span) => span.name === name);
    const [first, second] = [await named("inner"), await named("outer")];
    expect(second).toMatchObject({
      traceId: TRACE,
      parentSpanId: SPAN,
      service: "test",
      attributes: { text: "x".repeat(8192), number: 2.5, yes: true },
    });
    expect(second.attributes).not.toHaveProperty("nothing");
    expect(second.attributes).not.toHaveProperty("error");
    expect(first).toMatchObject({
      traceId: TRACE,
      parentSpanId: second.spanId,
      attributes: { late: 7, error: true },
      isError: true,
      statusMessage: "it broke",
    });
    expect(second.isError).toBe(false);
    expect([first.isServer, second.isServer]).toEqual([false, true]);
    expect(first.durationMs).toBeGreaterThanOrEqual(60_000);
    expect(second.durationMs).toBeLessThan(60_000);
    // The version of the service and that of the instrumentation.
    expect(receiver.bodies.join("").match(/"1\.2\.3"/gu)).toHaveLength(2);
  },
);

it("leaves sampling to the caller, or uses the ratio", async () => {
  const none = await start({ OTEL_TRACES_SAMPLER: "always_off" });
  const all = await start();
  const some = await start({
    OTEL_TRACES_SAMPLER: "traceidratio",
    OTEL_TRACES_SAMPLER_ARG: "0.5",
  });
  const flagsOf = (telemetry: StartedTelemetry, flags?: string): string => {
    const parent = flags && parseTraceContext(`00-${TRACE}-${SPAN}-${flags}`);
    const span = telemetry.startSpan(flags ?? "root", parent ? { parent } : {});
    span.end();
    return span.context.traceparent.slice(-2);
  };
  for (const telemetry of [none, all]) {
    expect(flagsOf(telemetry, "01")).toBe("01");
    expect(flagsOf(telemetry, "00")).toBe("00");
  }
  expect([flagsOf(none), flagsOf(all)]).toEqual(["00", "01"]);
  const kept = Array.from({ length: 400 }, () => flagsOf(some)).filter((flags) => flags === "01");
  expect(kept.length).toBeGreaterThan(100);
  expect(kept.length).toBeLessThan(300);
  for (const telemetry of started) await telemetry.flush();
  const names = receiver.spans.map(({ name }) => name);
  expect(names.filter((name) => name === "01")).toHaveLength(2);
  expect(names).not.toContain("00");
  expect(names.filter((name) => name === "root")).toHaveLength(1 + kept.length);
});
