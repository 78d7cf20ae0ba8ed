/** What the routes of the native API share. */
import type { KeyService } from "../../sessions/services/key-service.ts";
import type { Services } from "../../sessions/services/services.ts";
import type { DaemonMetrics } from "../../telemetry/daemon-metrics.ts";
import type { HttpLimits } from "../http/app.ts";
import type { NativeErrors } from "./native-errors.ts";
import type { Previews } from "../preview/previews.ts";
import type { RequestMemory } from "../http/request/request-memory.ts";
import type { Shutdown } from "../http/connection/shutdown.ts";

export interface NativeContext {
  readonly services: Services;
  readonly keys: KeyService;
  readonly limits: HttpLimits;
  readonly version: string;
  /** Names of the backends, the default one first. */
  readonly backends: readonly [string, ...string[]];
  /** How much output a result contains by default; the core's default when absent. */
  readonly outputBudgetBytes?: number;
  /** Where images are stored while they are uploaded. */
  readonly uploadDir: string;
  /** How long a client may stall while reading or writing. */
  readonly stallTimeoutMs: number;
  readonly pingIntervalMs: number;
  readonly shutdown: Shutdown;
  readonly errorFormat: NativeErrors;
  readonly metrics: DaemonMetrics;
  readonly previews: Previews;
  readonly memory: RequestMemory;
}
