/** A core with in-memory sandboxes, a real store and journal, and a clock controlled by tests. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FakeBackend, FakeMachine } from "@sandkasten/testkit";
import { EventHub } from "../../events/event-hub.ts";
import { FileExecJournal } from "../../journal/file-exec-journal.ts";
import type { Backend } from "../../ports/backend.ts";
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
import { TestClock } from "./test-clock.ts";
import { TestImages } from "./test-images.ts";
import { TestLog } from "./test-log.ts";

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
