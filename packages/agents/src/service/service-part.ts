/** A part of the service besides agents, such as workflows: its tables, routes and lifecycle. */
import type { DatabaseSync } from "node:sqlite";
import type { Logger } from "pino";
import type { SandboxClient } from "@sandkasten/sdk";
import type { AgentExecutor } from "../runs/agent-executor.ts";
import type { Migration } from "../store/database.ts";
import type { EventLog } from "../store/event-log.ts";
import type { ProcessRegistry } from "../store/process-registry.ts";
import type { RouteModule } from "./service.ts";

export interface ServicePartDeps {
  readonly database: DatabaseSync;
  readonly events: EventLog;
  readonly executor: AgentExecutor;
  readonly client: SandboxClient;
  /** The served directory. */
  readonly dir: string;
  readonly processes: ProcessRegistry;
  readonly log: Logger;
  /** How long a sandbox outlives the process that created it. */
  readonly leaseSeconds: number;
  /** How long ended runs are kept. */
  readonly retentionDays: number;
  /** The service runs for a single command and leaves the runs of others alone. */
  readonly isTransient: boolean;
  /** Fires when the service stops, to end event streams. */
  readonly stopping: AbortSignal;
}

export interface ServicePart {
  readonly routes: RouteModule;
  /** Called before the service listens. */
  start(): Promise<void>;
  /** Called when the service stops, before agent runs are cancelled. */
  close(): Promise<void>;
}

export interface ServicePartFactory {
  readonly migrations: readonly Migration[];
  create(deps: ServicePartDeps): ServicePart;
}
