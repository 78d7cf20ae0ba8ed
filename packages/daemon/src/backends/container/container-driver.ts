/** What a container engine must implement; `ContainerBackend` does everything else. */
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

/** A container that is running or paused. Drivers add their own data. */
export interface Container {
  readonly handle: SandboxHandle;
}

/** `dead`: traces exist, but it is not running. */
export type FoundContainer<C extends Container> =
  | { readonly state: "running" | "paused"; readonly container: C }
  | { readonly state: "dead"; readonly outOfMemory?: boolean }
  | { readonly state: "absent" };

/** What an inspection from outside has found, in addition to the probe inside. */
export interface Measured {
  /** The runtime and its version, for display. */
  readonly runtime: string;
  readonly facts: readonly IsolationFact[];
}

/** Methods that are passed through unchanged. */
type PassedOn =
  | "name"
  | "health"
  | "reachable"
  | "ready"
  | "storage"
  | "listWorkspaces"
  | "destroyWorkspace";

/** Asks the sandbox itself, over a channel that is open for as long as the question takes. */
export type AskSandbox = <T>(question: (channel: Channel) => Promise<T>) => Promise<T>;

/**
 * Drives one engine. The caller has checked ids, limits and capabilities, and serializes changes
 * per sandbox. Every method rejects with a `SandboxError` from the catalogue.
 */
export interface ContainerDriver<C extends Container> extends Pick<Backend, PassedOn> {
  readonly capabilities: BackendCapabilities;
  /** How long the runner may take to send HELLO on a new connection; the channel's default when absent. */
  readonly helloMs?: number;
  /** Whether anything of a sandbox with this id exists, even partly created. */
  hasTraces(id: string): boolean | Promise<boolean>;
  /** Looks up what the sandbox needs, without changes. The returned function creates and starts it. */
  prepare(spec: SandboxSpec, signal: AbortSignal): Promise<() => Promise<C>>;
  /** Removes everything of a sandbox, even if partly created. Idempotent. */
  remove(id: string): Promise<void>;
  /**
   * Called when a sandbox has ended or could not be created; `isIdle` returns whether none is being
   * created.
   */
  removed?(isIdle: () => boolean): Promise<void>;
  find(id: string): Promise<FoundContainer<C>>;
  /** Connects to the runner. Must abort when the signal fires. */
  connect(container: C, signal: AbortSignal): Promise<Duplex>;
  /** Absent if daemons never share sandboxes. */
  takeOver?(container: C, fence: number): Promise<void>;
  /** Refused with a lower token than that of the last `takeOver`. */
  pause(container: C, fence?: number): Promise<void>;
  resume(container: C, fence?: number): Promise<void>;
  list(): Promise<SandboxListing[]>;
  /** @param ask - Absent while the sandbox is paused, so it cannot be asked. */
  usage(container: C, ask: AskSandbox | undefined, execId: string): Promise<SandboxStats>;
  measure(container: C, inside: Probe): Promise<Measured>;
}
