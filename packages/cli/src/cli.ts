/** What every command gets: the process's streams, the options and the daemon. */
import type { SandboxClient } from "@sandkasten/sdk";
import type { Host } from "./host.ts";
import type { Interrupts } from "./interrupts.ts";
import type { Sink } from "./output/sink.ts";

/** Options of every command. */
export interface GlobalOptions {
  readonly url?: string;
  readonly apiKey?: string;
  /** Name of a profile. */
  readonly daemon?: string;
  readonly json?: boolean;
  /** For the local configuration. */
  readonly config?: string;
  readonly dataDir?: string;
}

export interface Cli {
  readonly host: Host;
  readonly out: Sink;
  readonly err: Sink;
  readonly interrupts: Interrupts;
  readonly options: () => GlobalOptions;
  readonly wantsJson: () => boolean;
  /** The daemon named by the options, the environment or the local configuration. */
  readonly connect: () => Promise<SandboxClient>;
  readonly exitWith: (code: number) => void;
}
