/** The telemetry work of a daemon for one command, without the daemon. */
import { startTelemetry, telemetryFromEnvironment } from "@sandkasten/telemetry";
import type { StartedTelemetry } from "@sandkasten/telemetry";
import { DaemonMetrics } from "../packages/daemon/src/telemetry/daemon-metrics.ts";
import { DaemonTelemetry } from "../packages/daemon/src/telemetry/daemon-telemetry.ts";

/** Fewer than the limit of queued spans, so none is dropped. */
const COMMANDS = 500;
const ROUTE = "/v1/sessions/:id/exec";

export class TelemetryHooks implements AsyncDisposable {
  readonly #spans: StartedTelemetry | undefined;
  readonly #metrics = new DaemonMetrics();
  readonly #telemetry: DaemonTelemetry;

  private constructor(spans: StartedTelemetry | undefined) {
    this.#spans = spans;
    // Log lines are excluded: their level turns them off.
    const silent = (): void => undefined;
    const log = { info: silent, warn: silent, error: silent };
    this.#telemetry = new DaemonTelemetry({ log, spans });
  }

  /** Sends nothing without an endpoint. */
  static async start(endpoint: string | undefined): Promise<TelemetryHooks> {
    const variables = { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: endpoint && `${endpoint}/v1/traces` };
    const settings = telemetryFromEnvironment(variables, { serviceName: "bench" });
    if (settings === undefined) return new TelemetryHooks(undefined);
    const onFailure = (message: string): void => {
      throw new Error(message);
    };
    return new TelemetryHooks(
      await startTelemetry(settings, { version: "0", isGlobal: false, onFailure }),
    );
  }

  /** The share of one command, including the later sending, and the collector in this process. */
  async processorTimeUs(): Promise<number> {
    const before = process.cpuUsage();
    for (let command = 0; command < COMMANDS; command++) this.#command();
    await this.#spans?.flush();
    const { user, system } = process.cpuUsage(before);
    return (user + system) / COMMANDS;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#spans?.stop();
  }

  #command(): void {
    const request = this.#spans?.startSpan(`POST ${ROUTE}`, {
      isServer: true,
      attributes: {
        "http.request.method": "POST",
        "http.route": ROUTE,
        "sandkasten.request_id": "8ae6c9a4-6a4c-4a52-8f5c-7a3b7f1f0a11",
      },
    });
    const exec = this.#telemetry.execStarted(
      {
        execId: "exe_1a1ecc815ae0006e70d2fc44",
        sessionId: "ses_03ddb8c42e43c8160ca5a11e",
        runtime: "bash",
        image: "host",
        startedAtMs: Date.now(),
        timeoutMs: 120_000,
      },
      request?.context,
    );
    exec.ended({
      endReason: "exited",
      exitCode: 0,
      stdoutBytes: 0,
      stderrBytes: 0,
      durationMs: 1,
    });
    this.#metrics.lifecycle.consume([
      {
        type: "exec.ended",
        owner: "",
        atMs: Date.now(),
        sessionId: "ses_03ddb8c42e43c8160ca5a11e",
        data: {
          exec_id: "exe_1a1ecc815ae0006e70d2fc44",
          mode: "shell",
          runtime: "bash",
          end_reason: "exited",
          exit_code: 0,
          duration_ms: 1,
          stdout_bytes: 0,
          stderr_bytes: 0,
        },
      },
    ]);
    request?.end({ attributes: { "http.response.status_code": 200 } });
    this.#metrics.requests.count({
      method: "POST",
      route: ROUTE,
      status: 200,
      durationMs: 1,
      stream: false,
    });
  }
}
