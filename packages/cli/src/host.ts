/** The process that the command line runs in, as commands see it. */
import { fstatSync } from "node:fs";
import type { Readable, Writable } from "node:stream";
import { type Environment, readEnvironment } from "./environment.ts";

export interface HostInput extends Readable {
  readonly isTTY?: boolean;
  setRawMode?(raw: boolean): unknown;
}

export interface HostOutput extends Writable {
  readonly isTTY?: boolean;
  readonly columns?: number;
  readonly rows?: number;
}

export type EndSignal = "SIGINT" | "SIGTERM" | "SIGHUP";

export interface Host {
  readonly stdin: HostInput;
  /** `none` is /dev/null, or a closed descriptor. */
  readonly stdinKind: "terminal" | "piped" | "none";
  readonly stdout: HostOutput;
  readonly stderr: HostOutput;
  readonly environment: Environment;
  readonly workingDirectory: string;
  onSignal(listener: (signal: EndSignal) => void): void;
  /** Ends the process without waiting for anything. */
  exitNow(code: number): void;
}

export function processHost(): Host {
  return {
    get stdin() {
      return process.stdin;
    },
    stdinKind: kindOfStdin(),
    stdout: process.stdout,
    stderr: process.stderr,
    environment: readEnvironment(),
    workingDirectory: process.cwd(),
    onSignal(listener) {
      for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
        process.on(signal, () => listener(signal));
    },
    exitNow(code) {
      process.exit(code);
    },
  };
}

function kindOfStdin(): Host["stdinKind"] {
  try {
    const stats = fstatSync(0);
    if (stats.isFIFO() || stats.isSocket() || stats.isFile()) return "piped";
  } catch {
    // The descriptor is closed: nothing can be read from it.
    return "none";
  }
  return process.stdin.isTTY ? "terminal" : "none";
}
