/** What every scenario gets. */
import type { BenchDaemon, DaemonSettings } from "./bench-daemon.ts";
import type { BenchMachine, BenchRuntime } from "./bench-machine.ts";
import type { BenchDocker } from "./bench-docker.ts";
import type { Series } from "./series.ts";
import type { SpawnTimer } from "./spawn-timer.ts";

export interface BenchContext {
  /** Fewer rounds and fewer bytes: for a quick look, not for a verdict. */
  readonly quick: boolean;
  readonly signal: AbortSignal;
  /** One for each installed runtime. */
  readonly machines: ReadonlyMap<BenchRuntime, BenchMachine>;
  /** The one to use if the runtime makes no difference. */
  readonly machine: BenchMachine;
  /** Starts a daemon with the same runtime as `machine`; other settings are the defaults, or as given. */
  readonly startDaemon: (settings?: DaemonSettings, program?: string) => Promise<BenchDaemon>;
  readonly spawnTimer: SpawnTimer;
  /** Present if a comparison with Docker was requested. */
  readonly docker: BenchDocker | undefined;
  /** How many sandboxes are idle while their memory is measured. */
  readonly idleSandboxes: number;
  /** How many sandboxes exist at once when many are measured. */
  readonly densitySandboxes: number;
  readonly scratchDir: string;
  /** Reports the progress of the current scenario. */
  readonly progress: (text: string) => void;
}

export interface Scenario {
  readonly name: string;
  readonly what: string;
  readonly run: (context: BenchContext) => Promise<Series[]>;
}
