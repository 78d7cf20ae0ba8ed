/** One trace from an agent's run to the command in its sandbox, and a span for every tool call. */
import { OtlpReceiver } from "@sandkasten/testkit";
import type { ReceivedSpan } from "@sandkasten/testkit";
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TestDaemon } from "../../../../tests/support/test-daemon.ts";
import { agent, AgentFixture } from "../testing/agent-fixture.ts";
import type { ScriptedCall } from "../testing/model-server.ts";

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER = "00f067aa0ba902b7";
const CHILDREN = [
  "sandbox.connect",
  "sandbox.prepare_files",
  "sandbox.exec",
  "sandbox.collect_outputs",
  "sandbox.collect_artifacts",
];

/** The exit codes of seven calls that failed. */
const UNRUN = Array.from({ length: 7 }, () => -1);

const sorted = (codes: readonly unknown[]): readonly number[] =>
  codes.map(Number).toSorted((one, other) => one - other);

let receiver: OtlpReceiver;
let daemon: TestDaemon;
let agents: AgentFixture;
const logLines: Record<string, unknown>[] = [];
beforeAll(async () => {
  receiver = await OtlpReceiver.start();
  const often = { OTEL_BSP_SCHEDULE_DELAY: "50", OTEL_METRIC_EXPORT_INTERVAL: "200" };
  daemon = await TestDaemon.start({
    env: { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url, ...often },
  });
  agents = await AgentFixture.start({
    daemon,
    apiKey: "the-agents-own-key",
    log: pino(
      { level: "info" },
      { write: (line: string) => void logLines.push(JSON.parse(line) as Record<string, unknown>) },
    ),
    env: {
      OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
      OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
      ...often,
    },
    agents: {
      compute: agent("sandbox: python"),
      coder: agent("sandbox:\n  mode: code"),
    },
  });
});
afterAll(async () => {
  await agents[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
  await receiver[Symbol.asyncDispose]();
});

/** Lets an agent make these calls, all in one turn, and returns the spans of its run. */
async function callTools(
  name: string,
  calls: readonly ScriptedCall[],
  traceId?: string,
): Promise<{ readonly run: ReceivedSpan; readonly spans: readonly ReceivedSpan[] }> {
  agents.model.play([{ calls }, { text: "Done." }]);
  const headers = {
    authorization: "Bearer the-agents-own-key",
    "content-type": "application/json",
    ...(traceId !== undefined && { traceparent: `00-${traceId}-${CALLER}-01` }),
  };
  const answer = await fetch(`${agents.service.url}/execute?wait=true`, {
    method: "POST",
    headers,
    body: JSON.stringify({ agent_name: name, task: "a secret task" }),
  });
  const { run_id: runId, status } = (await answer.json()) as { run_id: string; status: string };
  expect(status).toBe("succeeded");
  const run = await receiver.span(
    ({ name: span, attributes }) => span === "AgentExecute" && attributes["agent.run_id"] === runId,
  );
  return { run, spans: receiver.spans.filter((span) => span.traceId === run.traceId) };
}

/** The spans of the agent service; the daemon's are below them. */
const childrenOf = (spans: readonly ReceivedSpan[], parent: ReceivedSpan): ReceivedSpan[] =>
  spans.filter(
    ({ parentSpanId, service }) =>
      parentSpanId === parent.spanId && service === "sandkasten-agents",
  );

describe("sandbox_run", () => {
  it("Tool spans appear in traces: below AgentExecute, with its parts below it, down to the sandbox", async () => {
    const { run, spans } = await callTools(
      "compute",
      [
        {
          name: "sandbox_run",
          arguments: {
            code: "import os\nopen('out.txt', 'w').write('x')\nprint(os.environ['TRACEPARENT'])",
            artifacts: ["*.txt"],
            timeout_seconds: 20,
          },
        },
      ],
      TRACE,
    );
    expect(run).toMatchObject({
      service: "sandkasten-agents",
      traceId: TRACE,
      parentSpanId: CALLER,
      isError: false,
    });
    const [tool] = spans.filter(({ name }) => name === "sandbox_run");
    if (tool === undefined) throw new Error("the call has no span");
    expect(tool.parentSpanId).toBe(run.spanId);
    expect(tool.attributes).toMatchObject({
      "sandbox.runtime": "python",
      "sandbox.image": "python",
      "sandbox.timeout_seconds": 20,
      "sandbox.exit_code": 0,
      "sandbox.stdout_bytes": 56,
      "sandbox.stderr_bytes": 0,
      "sandbox.artifacts_count": 1,
    });
    expect(tool.durationMs).toBeGreaterThan(0);
    expect(childrenOf(spans, tool).map(({ name }) => name)).toEqual(CHILDREN);

    // The daemon sends its own spans, possibly a moment later.
    const exec = childrenOf(spans, tool).find(({ name }) => name === "sandbox.exec");
    const request = await receiver.span(({ parentSpanId }) => parentSpanId === exec?.spanId);
    expect(request).toMatchObject({ service: "sandkasten-daemon", traceId: TRACE });
    const command = await receiver.span(({ parentSpanId }) => parentSpanId === request.spanId);
    expect(command).toMatchObject({ service: "sandkasten-daemon", name: "sandbox.exec" });
    expect(command.attributes).toMatchObject({ "sandbox.runtime": "python" });
    expect(tool.attributes["sandbox.stdout"]).toBe(`00-${TRACE}-${command.spanId}-01\n`);
  });

  it("its start and end are in the log, with the ids of its span", async () => {
    const { run, spans } = await callTools("compute", [
      { name: "sandbox_run", arguments: { code: "import sys\nsys.exit(3)" } },
    ]);
    const [tool] = spans.filter(({ name }) => name === "sandbox_run");
    expect(tool).toMatchObject({ isError: true, statusMessage: "exit code 3" });
    expect(tool?.attributes).toMatchObject({ error: true, "sandbox.exit_code": 3 });
    const lines = logLines.filter((line) => line["trace_id"] === run.traceId);
    const ids = {
      run_id: run.attributes["agent.run_id"],
      trace_id: run.traceId,
      span_id: tool?.spanId,
      runtime: "python",
      image: "python",
    };
    expect(lines).toMatchObject([
      { event: "sandbox_run_started", ...ids },
      { event: "sandbox_run_finished", ...ids, exit_code: 3, stdout_bytes: 0, stderr_bytes: 0 },
    ]);
    expect(lines[1]?.["duration_ms"]).toEqual(expect.any(Number));
  });
});

it("100% of sandbox tool calls produce a tool span with duration and exit code, also those that fail", async () => {
  const compute: ScriptedCall[] = [
    { name: "sandbox_run", arguments: { code: "print(1)" } },
    { name: "sandbox_run", arguments: { code: "raise SystemExit(2)" } },
    { name: "sandbox_run", arguments: { code: "import time; time.sleep(60)", timeout_seconds: 1 } },
    { name: "sandbox_run", arguments: { no_code: true } },
    { name: "sandbox_run", arguments: "{not json" },
  ];
  const code: ScriptedCall[] = [
    { name: "sandbox_open", arguments: {} },
    { name: "sandbox_exec", arguments: { cmd: "exit 4" } },
    { name: "sandbox_exec", arguments: { cmd: ["/no/such/program"] } },
    { name: "sandbox_exec", arguments: {} },
    { name: "sandbox_exec_read", arguments: { exec_id: "no-such-exec" } },
    { name: "sandbox_exec_wait", arguments: { exec_id: "no-such-exec" } },
    { name: "sandbox_fs_write", arguments: { path: "a.txt", contents: "a" } },
    { name: "sandbox_fs_read", arguments: { path: "no-such-file" } },
    { name: "sandbox_fs_list", arguments: {} },
    { name: "sandbox_fs_delete", arguments: { path: "/etc/passwd" } },
    { name: "sandbox_close", arguments: { sandbox_id: "another-runs-sandbox" } },
    { name: "sandbox_exce", arguments: {} },
  ];
  for (const [name, calls] of [
    ["compute", compute],
    ["coder", code],
  ] as const) {
    const { run, spans } = await callTools(name, calls);
    const tools = childrenOf(spans, run).filter((span) => span.name !== "model.turn");
    const expected = calls.map((call) =>
      call.name === "sandbox_exce" ? "unknown_tool" : call.name,
    );
    expect(tools.map((span) => span.name).toSorted()).toEqual(expected.toSorted());
    for (const span of tools) {
      expect(span.durationMs).toBeGreaterThan(0);
      expect(span.attributes["sandbox.exit_code"]).toEqual(expect.any(Number));
      const failed = span.attributes["sandbox.exit_code"] !== 0;
      expect(span.isError).toBe(failed);
      expect(span.attributes["error"]).toBe(failed ? true : undefined);
    }
    const codes = tools.map((span) => span.attributes["sandbox.exit_code"]);
    const expectedCodes = name === "compute" ? [0, 2, 124, -1, -1] : [0, 4, 127, 0, 0, ...UNRUN];
    expect(sorted(codes)).toEqual(sorted(expectedCodes));
  }
});

it("spans contain no secrets: no variables, even if a command prints them, no files, prompts or answers", async () => {
  const secrets = ["variable-secret", "file-secret", "a secret task", "prompt-secret"];
  const { run, spans } = await callTools("coder", [
    {
      name: "sandbox_exec",
      arguments: { cmd: 'echo "shown $TOKEN"', env: { TOKEN: "variable-secret" } },
    },
    { name: "sandbox_fs_write", arguments: { path: "f", contents: "file-secret" } },
    { name: "sandbox_fs_read", arguments: { path: "prompt-secret" } },
  ]);
  const [exec] = spans.filter(({ name }) => name === "sandbox_exec");
  expect(exec?.attributes["sandbox.stdout"]).toBe("shown [value of a variable]\n");
  expect(spans.some(({ scope }) => scope === "genkit-tracer")).toBe(false);
  expect(childrenOf(spans, run).filter(({ name }) => name === "model.turn")).toHaveLength(2);
  const everything = receiver.bodies.join("\n");
  for (const secret of secrets) expect(everything).not.toContain(secret);
});

it("long output is partly in the span's attribute", async () => {
  const { spans } = await callTools("compute", [
    { name: "sandbox_run", arguments: { code: "print('a' * 5000 + 'the end')" } },
  ]);
  const [tool] = spans.filter(({ name }) => name === "sandbox_run");
  const shown = String(tool?.attributes["sandbox.stdout"]);
  expect(tool?.attributes["sandbox.stdout_bytes"]).toBe(5008);
  expect(shown.length).toBeLessThan(2200);
  expect(shown).toMatch(/^a+\n\[… \d+ bytes omitted …\]\na+the end\n$/);
});

it("calls and runs are counted, at /metrics with the key and over OTLP", async () => {
  const scrape = (key: string) =>
    fetch(`${agents.service.url}/metrics`, { headers: { authorization: `Bearer ${key}` } });
  expect((await scrape("another key")).status).toBe(401);
  const text = await (await scrape("the-agents-own-key")).text();
  expect(text).toMatch(/^sandkasten_tool_calls_total\{tool="sandbox_run",ok="true"\} \d+$/m);
  expect(text).toMatch(/^sandkasten_agent_runs_total\{status="succeeded"\} \d+$/m);
  const point = await receiver.point(
    ({ metric, attributes }) =>
      metric === "sandkasten_tool_calls_total" && attributes["tool"] === "sandbox_run",
  );
  expect(point.service).toBe("sandkasten-agents");
});
