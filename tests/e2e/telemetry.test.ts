/**
 * What a collector receives about commands and sessions: a real daemon, real sandboxes, a real OTLP
 * receiver.
 */
import { SandboxClient } from "@sandkasten/sdk";
import { OtlpReceiver } from "@sandkasten/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { freePort } from "../support/free-port.ts";
import { TestDaemon } from "../support/test-daemon.ts";

let receiver: OtlpReceiver;
let daemon: TestDaemon;
let metricsPort: number;
let session: string;
beforeAll(async () => {
  receiver = await OtlpReceiver.start();
  metricsPort = await freePort();
  daemon = await TestDaemon.start({
    settings: {
      TELEMETRY_ENDPOINT: receiver.url,
      TELEMETRY_HEADERS: "authorization=Bearer%20collector-secret",
      TELEMETRY_METRICS_LISTEN: `127.0.0.1:${metricsPort}`,
      API_KEY: "an-administrators-key",
      API_KEYS: "tenant=a-tenants-own-key",
    },
    env: { OTEL_BSP_SCHEDULE_DELAY: "50", OTEL_METRIC_EXPORT_INTERVAL: "200" },
  });
  session = await daemon.open();
});
afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
  await receiver[Symbol.asyncDispose]();
});

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const CALLER = "b7ad6b7169203331";
const caller = { traceparent: `00-${TRACE}-${CALLER}-01` };

/** The log lines of a type about one command. */
function lines(event: string, execId: unknown): Record<string, unknown>[] {
  return daemon.log
    .split("\n")
    .filter((line) => line.includes(`"event":"${event}"`))
    .map((line) => JSON.parse(line) as Record<string, unknown>)
    .filter((line) => line["run_id"] === execId);
}

describe("a command of a traced caller", () => {
  it("has a span in the caller's trace, which the command finds in TRACEPARENT", async () => {
    const { body } = await daemon.call(
      "POST",
      `/v1/sessions/${session}/exec`,
      { cmd: 'printf "%s" "$TRACEPARENT"', timeout_seconds: 30 },
      caller,
    );
    const span = await receiver.span(
      ({ name, attributes }) =>
        name === "sandbox.exec" && attributes["sandbox.exec_id"] === body["exec_id"],
    );
    expect(body["stdout"]).toBe(`00-${TRACE}-${span.spanId}-01`);
    const request = await receiver.span(({ spanId }) => spanId === span.parentSpanId);
    expect(request).toMatchObject({
      service: "sandkasten-daemon",
      name: "POST /v1/sessions/:id/exec",
      traceId: TRACE,
      parentSpanId: CALLER,
      isError: false,
    });
    expect(span.traceId).toBe(TRACE);
    expect(span.isError).toBe(false);
    expect(span.durationMs).toBeGreaterThan(0);
    expect(span.attributes).toMatchObject({
      "sandbox.runtime": "bash",
      "sandbox.image": "host",
      "sandbox.timeout_seconds": 30,
      "sandbox.exit_code": 0,
      "sandbox.stdout_bytes": 55,
      "sandbox.stderr_bytes": 0,
    });
    const ids = { trace_id: TRACE, span_id: span.spanId, session_id: session };
    // Log lines are written in batches.
    await expect.poll(() => lines("sandbox_run_finished", body["exec_id"])).toHaveLength(1);
    const [started, finished] = [
      lines("sandbox_run_started", body["exec_id"]),
      lines("sandbox_run_finished", body["exec_id"]),
    ];
    expect(started).toMatchObject([{ ...ids, runtime: "bash", image: "host" }]);
    expect(finished).toMatchObject([
      { ...ids, exit_code: 0, stdout_bytes: 55, stderr_bytes: 0, ok: true },
    ]);
    expect(finished[0]?.["duration_ms"]).toEqual(expect.any(Number));
  });

  it("keeps its own TRACEPARENT, and the next command does not see it", async () => {
    const exec = async (cmd: string, env?: object, headers = {}) =>
      (
        await daemon.call(
          "POST",
          `/v1/sessions/${session}/exec`,
          { cmd, ...(env !== undefined && { env }) },
          headers,
        )
      ).body["stdout"];
    expect(await exec("echo $TRACEPARENT", { TRACEPARENT: "mine" }, caller)).toBe("mine\n");
    const next = await exec("echo $TRACEPARENT");
    // A new trace, since the caller has none.
    expect(next).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-01\n$/);
    expect(next).not.toContain(TRACE);
  });

  it.each([
    ["an exit code", { cmd: "exit 3" }, { "sandbox.exit_code": 3 }, "exit code 3"],
    [
      "a timeout",
      { cmd: "sleep 60", timeout_ms: 100 },
      { "sandbox.end_reason": "timeout", "sandbox.timeout_seconds": 0.1 },
      "timeout",
    ],
    [
      "a program that is not there",
      { cmd: ["/no/such/python3"] },
      { "sandbox.runtime": "python" },
      "exit code 127",
    ],
  ])("has an error and a status after %s", async (_what, request, attributes, message) => {
    const { body } = await daemon.call("POST", `/v1/sessions/${session}/exec`, request);
    const details = body["details"] as { readonly exec_id?: string } | undefined;
    const execId = body["exec_id"] ?? details?.exec_id;
    const span = await receiver.span(
      ({ name, attributes: found }) =>
        name === "sandbox.exec" && found["sandbox.exec_id"] === execId,
    );
    expect(span).toMatchObject({ isError: true, statusMessage: message });
    expect(span.attributes).toMatchObject({ error: true, ...attributes });
  });
});

it("creating a session is a span of its caller's trace", async () => {
  const { body } = await daemon.call("POST", "/v1/sessions", {}, caller);
  const span = await receiver.span(
    ({ name, attributes }) =>
      name === "sandbox.create" && attributes["sandbox.session_id"] === body["id"],
  );
  expect(span.traceId).toBe(TRACE);
  expect(span.attributes).toMatchObject({ "sandbox.image": "host", "sandbox.source": "cold" });
  await daemon.call("DELETE", `/v1/sessions/${String(body["id"])}`);
});

it("an invalid trace header starts a new trace, and is not passed on", async () => {
  for (const traceparent of [
    "00-00000000000000000000000000000000-b7ad6b7169203331-01",
    `00-${TRACE}-${CALLER}-01-more`,
    "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "$(reboot)",
  ]) {
    const { body } = await daemon.call(
      "POST",
      `/v1/sessions/${session}/exec`,
      { cmd: "echo $TRACEPARENT" },
      { traceparent },
    );
    expect(body["stdout"]).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-01\n$/);
    expect(body["stdout"]).not.toContain(TRACE);
  }
});

it("metrics count runs and sessions, at /metrics, at an address without a key, and over OTLP", async () => {
  await daemon.call("POST", `/v1/sessions/${session}/exec`, {
    cmd: ["true"],
    runtime: "python",
  });
  const metrics = async (): Promise<string> => await (await daemon.fetch("/metrics")).text();
  // A command is counted when its end is stored, a moment after the answer.
  const counted = 'station_sandbox_runs_total{runtime="python",ok="true"} 1\n';
  await expect.poll(metrics).toContain(counted);
  const text = await metrics();
  expect(text).toMatch(/station_sandbox_run_duration_ms_count\{runtime="python"\} \d+\n/);
  expect(text).toContain('sandkasten_sessions_ended_total{status="destroyed"} 1\n');
  const open = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
  expect(open).toContain('station_sandbox_runs_total{runtime="python",ok="true"} 1\n');
  expect((await fetch(`http://127.0.0.1:${metricsPort}/v1/sessions`)).status).toBe(404);
  const point = await receiver.point(
    ({ metric, attributes }) =>
      metric === "station_sandbox_runs_total" &&
      attributes["runtime"] === "python" &&
      attributes["ok"] === "true",
  );
  expect(point).toMatchObject({
    service: "sandkasten-daemon",
    attributes: { runtime: "python", ok: "true" },
    value: 1,
  });
  const duration = await receiver.point(
    ({ metric, attributes, count }) =>
      metric === "station_sandbox_run_duration_ms" &&
      attributes["runtime"] === "python" &&
      count === 2,
  );
  expect(duration.sum).toBeGreaterThan(0);
});

it("only an administrator can read the metrics", async () => {
  const as = (key: string) =>
    daemon.fetch("/metrics", { headers: { authorization: `Bearer ${key}` } });
  expect((await as("a-tenants-own-key")).status).toBe(403);
  expect((await as("no-key-at-all")).status).toBe(401);
});

it("telemetry and logs contain no commands, variables, input, files or keys", async () => {
  const secrets = ["command-secret", "env-secret", "stdin-secret", "output-secret", "file-secret"];
  const client = new SandboxClient({ baseUrl: daemon.url, apiKey: daemon.apiKey });
  const used = await client.getSession(session);
  await used.write("file-secret.txt", "file-secret");
  const { execId } = await used.exec(
    "cat; cat file-secret.txt; echo output-secr''et # command-secret",
    {
      env: { NAME: "env-secret" },
      stdin: "stdin-secret",
    },
  );
  await receiver.span(({ attributes }) => attributes["sandbox.exec_id"] === execId);
  const everything = receiver.bodies.join("\n");
  for (const secret of [...secrets, "an-administrators-key", "collector-secret"]) {
    expect(everything).not.toContain(secret);
    expect(daemon.log).not.toContain(secret);
  }
  expect(receiver.authorizations).toEqual(new Set(["Bearer collector-secret"]));
  expect(receiver.contentTypes).toEqual(new Set(["application/x-protobuf"]));
});

it("a daemon without telemetry passes on its caller's trace", async () => {
  const receivedBefore = receiver.spans.length;
  await using plain = await TestDaemon.start();
  const id = await plain.open();
  const { body } = await plain.call(
    "POST",
    `/v1/sessions/${id}/exec`,
    { cmd: "echo $TRACEPARENT" },
    caller,
  );
  expect(body["stdout"]).toBe(`${caller.traceparent}\n`);
  expect((await plain.exec(id, "echo [$TRACEPARENT]"))["stdout"]).toBe("[]\n");
  expect(receiver.spans.slice(receivedBefore).filter(({ traceId }) => traceId === TRACE)).toEqual(
    [],
  );
});
