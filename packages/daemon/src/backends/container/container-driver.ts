/** What a container backend must know about its engine; everything else is the kernel's. */
import type { Duplex } from "node:stream";
import type {
  Backend,
  BackendCapabilities,
  IsolationFact,
  SandboxHandle,
  SandboxListing,
  SandboxSpec,
  SandboxStats,
} from "../../ports/backend.ts";
import type { Channel } from "../../ports/channel.ts";
import type { Probe } from "./probe.ts";

/** A container that runs or is paused. Drivers add what they know of it. */
export interface Container {
  readonly handle: SandboxHandle;
}

/** `dead`: its traces are there, and it does not run. */
export type FoundContainer<C extends Container> =
  | { readonly state: "running" | "paused"; readonly container: C }
  | { readonly state: "dead"; readonly outOfMemory?: boolean }
  | { readonly state: "absent" };

/** What looking at a container from outside, beside what was found inside, has shown. */
export interface Measured {
  /** The runtime and its version, for people. */
  readonly runtime: string;
  readonly facts: readonly IsolationFact[];
}

/** These the kernel passes on as they are. */
type PassedOn =
  | "name"
  | "health"
  | "reachable"
  | "ready"
  | "storage"
  | "listWorkspaces"
  | "destroyWorkspace";

/**
 * Drives one engine. The kernel has checked ids, limits and capabilities, and does one thing at a time
 * to each sandbox. Every method rejects with a `SandboxError` of the catalogue.
 */
export interface ContainerDriver<C extends Container> extends Pick<Backend, PassedOn> {
  readonly capabilities: BackendCapabilities;
  /** How long a new connection may take until the runner greets; the channel's default when absent. */
  readonly helloMs?: number;
  /** Whether anything is left of, or has begun to be, a sandbox of this id. */
  hasTraces(id: string): boolean | Promise<boolean>;
  /** Looks up what the sandbox is made of, changing nothing. What it answers makes and starts it. */
  prepare(spec: SandboxSpec, signal: AbortSignal): Promise<() => Promise<C>>;
  /** Removes everything that a sandbox is or has begun to be. Idempotent. */
  remove(id: string): Promise<void>;
  /** Called when a sandbox has ended or could not be made; `isIdle` says whether none is being made. */
  removed?(isIdle: () => boolean): Promise<void>;
  find(id: string): Promise<FoundContainer<C>>;
  /** A connection to the runner. Must give up when the signal fires. */
  connect(container: C, signal: AbortSignal): Promise<Duplex>;
  pause(container: C): Promise<void>;
  resume(container: C): Promise<void>;
  list(): Promise<SandboxListing[]>;
  /** @param channel - Absent while the sandbox is paused, so that it cannot be asked. */
  usage(container: C, channel: Channel | undefined, execId: string): Promise<SandboxStats>;
  measure(container: C, inside: Probe): Promise<Measured>;
}
