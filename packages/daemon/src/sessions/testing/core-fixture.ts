/** A core with in-memory sandboxes, a real store and journal, and a clock controlled by tests. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SandboxError } from "@sandkasten/protocol";
import { FakeBackend, FakeMachine } from "@sandkasten/testkit";
import { EventHub } from "../../events/event-hub.ts";
import { FileExecJournal } from "../../journal/file-exec-journal.ts";
import type { Backend } from "../../ports/backend.ts";
import type { Clock } from "../../ports/clock.ts";
import type {
  ImageInfo,
  Images,
  ImageStore,
  ImageUsage,
  ResolvedImage,
} from "../../ports/image-store.ts";
import type { Log } from "../../ports/log.ts";
import type { SessionStore } from "../../ports/session-store.ts";
import { SqliteEventLog } from "../../store/sqlite/sqlite-event-log.ts";
import { FileEgressLog } from "../../network/file-egress-log.ts";
import { resolveRules } from "../../network/plan-network.ts";
import { SecretBox } from "../../network/secret-box.ts";
import { SessionNetworks } from "../../network/session-networks.ts";
import { NO_TELEMETRY } from "../../ports/telemetry.ts";
import { SqliteSessionStore } from "../../store/sqlite/sqlite-session-store.ts";
import { SessionCore } from "../core.ts";
import type { CoreParts } from "../core.ts";
import { Providers } from "../providers.ts";
import type { Provider } from "../providers.ts";
import type { Caller } from "../services/caller.ts";
import type { StartExecOptions } from "../services/exec-service.ts";
import type { SessionSettings } from "../settings.ts";

const MIB = 1024 * 1024;
const LIMITS = {
  memoryBytes: 256 * MIB,
  cpuMillicores: 1000,
  pids: 64,
  diskBytes: 64 * MIB,
  diskInodes: 4096,
};

export const SETTINGS: SessionSettings = {
  defaultProfile: "restricted",
  allowRootProfile: true,
  defaultTtlMs: 60_000,
  maxLifetimeMs: 600_000,
  defaultLimits: LIMITS,
  maxLimits: { ...LIMITS, memoryBytes: 1024 * MIB },
  maxExecTimeoutMs: 60_000,
  outputBudgetBytes: 64 * 1024,
  concurrentCreates: 4,
  pool: [],
  maxPortConnections: 4,
  workspaceDisk: { diskBytes: 16 * MIB, diskInodes: 1024 },
  journal: { maxBytesPerOwner: 16 * MIB, maxBytes: 64 * MIB },
  retentionMs: 3_600_000,
};

const EVENT_SETTINGS = {
  retention: {
    maxAgeMs: 3_600_000,
    maxEventsPerOwner: 10_000,
    maxEvents: 50_000,
    maxBytes: 32 * MIB,
  },
  limits: { maxFollowers: 64, maxFollowersPerOwner: 16 },
};
/** The administrator's secrets, one of them only for Alice. */
const STORED_SECRETS = [
  { name: "stored", host: "api.bob.example", header: "Authorization", value: "Bearer st0r3d" },
  { name: "alices", host: "api.bob.example", header: "X-Key", value: "al1c3s", keys: ["alice"] },
];

/** An administrator. */
export const ALICE: Caller = {
  owner: "alice",
  isAdmin: true,
  maxSessions: 100,
  maxRunningExecs: 100,
  maxWorkspaces: 100,
  maxImageBytes: 1024 * MIB,
};
export const BOB: Caller = {
  owner: "bob",
  isAdmin: false,
  maxSessions: 100,
  maxRunningExecs: 100,
  maxWorkspaces: 100,
  maxImageBytes: 1024 * MIB,
};

/** Both clocks advance only when told to. */
class TestClock implements Clock {
  bootId = "boot-1";
  wallMs = Date.UTC(2026, 0, 1);
  steadyMs = 1_000_000;

  nowMs(): number {
    return this.wallMs;
  }

  monotonicMs(): number {
    return this.steadyMs;
  }

  /** Simulates a reboot: the machine was off for this long, and its wall clock was changed. */
  boot(offMs: number, jumpMs = 0): void {
    this.bootId = `boot-${Math.random()}`;
    this.steadyMs = 10;
    this.wallMs += offMs + jumpMs;
  }

  pass(ms: number): void {
    this.wallMs += ms;
    this.steadyMs += ms;
  }
}

/** A backend whose connection to its machine can be cut. */
export class CutBackend {
  isCut = false;
  readonly backend: Backend;

  constructor(backend: Backend) {
    this.backend = new Proxy(backend, {
      get: (target, name) => {
        const own: unknown = Reflect.get(target, name, target);
        if (typeof own !== "function") return own;
        if (name === "reachable") return () => Promise.resolve(!this.isCut);
        return async (...args: unknown[]): Promise<unknown> => {
          if (this.isCut) throw new SandboxError("ENGINE_UNREACHABLE", "the engine is away");
          return await (own as (...given: unknown[]) => unknown).apply(target, args);
        };
      },
    });
  }
}

/** Every line that the core logged. */
class TestLog implements Log {
  readonly lines: { readonly level: string; readonly message: string; readonly err?: unknown }[] =
    [];

  info(fields: Readonly<Record<string, unknown>>, message: string): void {
    this.lines.push({ level: "info", message, ...fields });
  }

  warn(fields: Readonly<Record<string, unknown>>, message: string): void {
    this.lines.push({ level: "warn", message, ...fields });
  }

  error(fields: Readonly<Record<string, unknown>>, message: string): void {
    this.lines.push({ level: "error", message, ...fields });
  }
}

/** Names resolve to themselves; digests can be changed, as a new pull does. */
class TestImages implements ImageStore {
  readonly #machine: FakeMachine;
  readonly digests = new Map<string, string>();
  /** Substitutes for images that are not present. */
  readonly substitutes = new Map<string, string>();
  readonly #listeners = new Set<() => void>();

  constructor(machine: FakeMachine) {
    this.#machine = machine;
  }

  of(): Images {
    return this;
  }

  usage(): ImageUsage {
    return { images: 2, bytes: 3000, maxBytes: 4000 };
  }

  onChange(listener: () => void): void {
    this.#listeners.add(listener);
  }

  /** Gives a name new content, as a pull does. */
  move(name: string, digest: string): void {
    this.digests.set(name, digest);
    for (const listener of this.#listeners) listener();
  }

  async resolve(name: string): Promise<ResolvedImage> {
    const { images } = this.#machine;
    const substitute = this.substitutes.get(name);
    if (!images.has(name) && substitute !== undefined)
      return { ...(await this.resolve(substitute)), requested: name, isSubstitute: true };
    if (!images.has(name)) throw new SandboxError("INVALID_IMAGE", `there is no image ${name}`);
    const digest = this.#digestOf(name);
    return await Promise.resolve({ reference: name, requested: name, digest, isSubstitute: false });
  }

  async inspect(reference: string): Promise<ImageInfo> {
    await this.resolve(reference);
    return {
      reference,
      digest: this.#digestOf(reference),
      source: "rootfs",
      sizeBytes: 1,
      createdAtMs: 0,
      env: {},
      shared: true,
    };
  }

  #digestOf(reference: string): string {
    return this.digests.get(reference) ?? `fake:${reference}`;
  }

  async list(): Promise<ImageInfo[]> {
    return await Promise.all([...this.#machine.images].map((name) => this.inspect(name)));
  }

  async ensure(reference: string): Promise<ImageInfo> {
    return await this.inspect(reference);
  }

  importRootfs = unsupported;
  importOciArchive = unsupported;
  pull = unsupported;

  async remove(reference: string): Promise<void> {
    await this.inspect(reference);
    this.#machine.images.delete(reference);
  }

  /** The digests that were to be kept, one set per collection. */
  readonly collections: ReadonlySet<string>[] = [];

  async collectGarbage(inUse: ReadonlySet<string>): Promise<{ removed: 0; freedBytes: 0 }> {
    this.collections.push(inUse);
    return await Promise.resolve({ removed: 0, freedBytes: 0 });
  }
}

function unsupported(): Promise<never> {
  return Promise.reject(new SandboxError("UNSUPPORTED", "sandboxes in memory have no images"));
}

/** The same object with some methods replaced. */
export function overriding<T extends object>(original: T, replaced: Partial<T>): T {
  return new Proxy(original, {
    get: (target, name) => {
      const own: unknown = Reflect.get(replaced, name) ?? Reflect.get(target, name, target);
      return typeof own === "function"
        ? (own as (...args: unknown[]) => unknown).bind(target)
        : own;
    },
  });
}

export interface CoreOptions {
  readonly settings?: Partial<SessionSettings>;
  readonly onFileWrite?: CoreParts["onFileWrite"];
  /**
   * What the administrator allows sandboxes to reach; nothing when absent. Bob's key has an
   * additional ceiling.
   */
  readonly network?: readonly string[];
  /** Wraps the in-memory backend. */
  readonly wrap?: (backend: Backend) => Backend;
  /** Wraps the store. */
  readonly wrapStore?: (store: SessionStore) => SessionStore;
  /** Additional backends, with the same images. */
  readonly others?: readonly Backend[];
  /** Continue before the take-over has finished. */
  readonly inBackground?: boolean;
  /** Called between the old core's end and the new one's start. */
  readonly beforeOpen?: () => void;
}

export class CoreFixture implements AsyncDisposable {
  readonly directory: string;
  readonly machine = new FakeMachine(["host", "python:3"]);
  readonly clock = new TestClock();
  readonly log = new TestLog();
  readonly images = new TestImages(this.machine);
  #options: CoreOptions;
  #core: SessionCore | undefined;
  #store: SqliteSessionStore | undefined;
  #events: EventHub | undefined;
  #eventLog: SqliteEventLog | undefined;
  #networks: SessionNetworks | undefined;

  private constructor(directory: string, options: CoreOptions) {
    this.directory = directory;
    this.#options = options;
  }

  static async start(options: CoreOptions = {}): Promise<CoreFixture> {
    const fixture = new CoreFixture(await mkdtemp(join(tmpdir(), "sandkasten-core-")), options);
    await fixture.#open();
    return fixture;
  }

  /** The options of the running core. */
  get options(): CoreOptions {
    return this.#options;
  }

  get core(): SessionCore {
    if (this.#core === undefined) throw new Error("the core is not running");
    return this.#core;
  }

  get networks(): SessionNetworks {
    if (this.#networks === undefined) throw new Error("the core is not running");
    return this.#networks;
  }

  get store(): SqliteSessionStore {
    if (this.#store === undefined) throw new Error("the store is not open");
    return this.#store;
  }

  get events(): EventHub {
    if (this.#events === undefined) throw new Error("the events are not open");
    return this.#events;
  }

  /** As after kill -9: the old core simply disappears. */
  async crash(options: CoreOptions = this.#options): Promise<void> {
    this.#options = options;
    this.#store?.close();
    this.#eventLog?.close();
    await this.#events?.close();
    await this.#open();
  }

  async stop(sandboxes: "keep" | "destroy"): Promise<void> {
    await this.core.stop(sandboxes);
    await this.events.close();
    this.store.close();
    this.#core = undefined;
    this.#store = undefined;
  }

  async restart(
    sandboxes: "keep" | "destroy" = "keep",
    options: CoreOptions = this.#options,
  ): Promise<void> {
    await this.stop(sandboxes);
    this.#options = options;
    await this.#open();
  }

  /** Runs a command to its end and returns its output. */
  async run(sessionId: string, text: string, options: Partial<StartExecOptions> = {}) {
    const { execs } = this.core;
    const command = { kind: "shell", text } as const;
    const exec = await execs.start(ALICE, sessionId, { command, ...options });
    const row = await exec.wait();
    const { output } = await exec.collect();
    return { ...row, output: Buffer.from(output).toString("utf8") };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#core !== undefined) await this.stop("destroy");
    await rm(this.directory, { recursive: true, force: true });
  }

  #provider(backend: Backend): Provider {
    return {
      backend,
      place: `${backend.name}:here`,
      images: this.images,
      defaultImage: "host",
      workspaceImage: "host",
    };
  }

  async #open(): Promise<void> {
    this.#options.beforeOpen?.();
    const backend: Backend = new FakeBackend(this.machine);
    this.#store = await SqliteSessionStore.open({ path: join(this.directory, "sandkasten.db") });
    this.#eventLog = await SqliteEventLog.open({ path: join(this.directory, "events.db") });
    this.#events = new EventHub({
      eventLog: this.#eventLog,
      clock: this.clock,
      // Events that a crash keeps from being written do not concern the core.
      log: new TestLog(),
      ...EVENT_SETTINGS,
    });
    this.#networks = new SessionNetworks({
      terms: {
        presets: new Map(),
        ceiling: resolveRules(this.#options.network ?? [], new Map()),
      },
      limits: {
        maxConnections: 4,
        maxConnectionsPerSecond: 100,
        maxTotalBytes: 0,
        maxBytesPerSecond: 0,
      },
      ceilingOf: (owner) =>
        owner === BOB.owner ? resolveRules(["*.bob.example"], new Map()) : undefined,
      log: new FileEgressLog({ directory: join(this.directory, "egress"), log: this.log }),
      clock: this.clock,
      isOwnAddress: () => false,
      resolveName: () => Promise.resolve([]),
      secrets: { box: new SecretBox(Buffer.alloc(32, "k")), store: STORED_SECRETS, trusted: [] },
    });
    this.#core = new SessionCore({
      events: this.#events,
      telemetry: NO_TELEMETRY,
      providers: new Providers(
        this.#provider(this.#options.wrap?.(backend) ?? backend),
        (this.#options.others ?? []).map((other) => this.#provider(other)),
      ),
      store: this.#options.wrapStore?.(this.#store) ?? this.#store,
      journal: await FileExecJournal.open({
        directory: join(this.directory, "journal"),
        maxBytesPerExec: 4 * MIB,
        maxBytesPerSession: 16 * MIB,
      }),
      clock: this.clock,
      log: this.log,
      settings: { ...SETTINGS, ...this.#options.settings },
      onFileWrite: this.#options.onFileWrite,
      networks: this.#networks,
    });
    const { takenOver } = await this.#core.start();
    if (this.#options.inBackground !== true) await takenOver;
  }
}
