/** What every scenario is given to work with. */
import type { BenchDaemon, DaemonSettings } from "./bench-daemon.ts";
import type { BenchMachine, BenchRuntime } from "./bench-machine.ts";
import type { BenchDocker } from "./bench-docker.ts";
import type { Series } from "./series.ts";
import type { SpawnTimer } from "./spawn-timer.ts";

export interface BenchContext {
  /** Fewer rounds and fewer bytes: a look, not a verdict. */
  readonly quick: boolean;
  readonly signal: AbortSignal;
  /** One for each runtime that this machine has. */
  readonly machines: ReadonlyMap<BenchRuntime, BenchMachine>;
  /** The one to use where the runtime makes no difference. */
  readonly machine: BenchMachine;
  /** A new daemon with the same runtime as `machine`; all else is as it comes, or as set. */
  readonly startDaemon: (settings?: DaemonSettings, program?: string) => Promise<BenchDaemon>;
  readonly spawnTimer: SpawnTimer;
  /** Present when comparing with Docker was asked for. */
  readonly docker: BenchDocker | undefined;
  /** How many sandboxes sit idle while their memory is measured. */
  readonly idleSandboxes: number;
  /** How many sandboxes there are at once when many are measured. */
  readonly densitySandboxes: number;
  readonly scratchDir: string;
  /** Says how far the present scenario is. */
  readonly progress: (text: string) => void;
}

export interface Scenario {
  readonly name: string;
  readonly what: string;
  readonly run: (context: BenchContext) => Promise<Series[]>;
}
