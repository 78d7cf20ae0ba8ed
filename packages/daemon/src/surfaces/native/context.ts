/** What the routes of the native API share. */
import type { KeyService, Services } from "../../sessions/services.ts";
import type { DaemonMetrics } from "../../telemetry/daemon-metrics.ts";
import type { HttpLimits } from "../http/app.ts";
import type { NativeErrors } from "./native-errors.ts";
import type { Previews } from "../preview/previews.ts";
import type { Shutdown } from "../http/connection/shutdown.ts";

export interface NativeContext {
  readonly services: Services;
  readonly keys: KeyService;
  readonly limits: HttpLimits;
  readonly version: string;
  /** Names of the backends, the usual one first. */
  readonly backends: readonly [string, ...string[]];
  /** How much output a result holds when the request does not say; the core's own when absent. */
  readonly outputBudgetBytes?: number;
  /** Where images are kept while they arrive. */
  readonly uploadDir: string;
  /** How long a client may take to go on reading or writing. */
  readonly stallTimeoutMs: number;
  readonly pingIntervalMs: number;
  readonly shutdown: Shutdown;
  readonly errorFormat: NativeErrors;
  readonly metrics: DaemonMetrics;
  readonly previews: Previews;
}
