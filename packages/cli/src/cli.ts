/** What every command gets: the process's streams, the user's choices and the daemon. */
import type { SandboxClient } from "@sandkasten/sdk";
import type { Host } from "./host.ts";
import type { Interrupts } from "./interrupts.ts";
import type { Sink } from "./output/sink.ts";

/** Options that every command has. */
export interface GlobalOptions {
  readonly url?: string;
  readonly apiKey?: string;
  /** Name of a profile. */
  readonly daemon?: string;
  readonly json?: boolean;
  /** Of the local configuration. */
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
  /** The daemon that the options, the environment or the local configuration name. */
  readonly connect: () => Promise<SandboxClient>;
  readonly exitWith: (code: number) => void;
}
