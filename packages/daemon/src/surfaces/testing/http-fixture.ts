/** The HTTP layer on a core with in-memory sandboxes, over a real connection. */
import { mkdtemp, rm } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { connect } from "node:net";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { FastifyInstance } from "fastify";
import { pino } from "pino";
import { StoredKeys } from "../../keys/stored-keys.ts";
import { SqliteKeyStore } from "../../store/sqlite/sqlite-key-store.ts";
import { systemClock } from "../../system-clock.ts";
import { ALICE, BOB, CoreFixture, overriding } from "../../sessions/testing/core-fixture.ts";
import type { Images, ImageStore } from "../../ports/image-store.ts";
import { imagesFor } from "../../sessions/providers.ts";
import type { ExecHandle } from "../../sessions/services/exec-service.ts";
import type { Services } from "../../sessions/services/services.ts";
import type { HttpAppOptions } from "../build-http-app.ts";
import { buildHttpApp } from "../build-http-app.ts";
import { checkAnswers } from "./check-answers.ts";

export const ALICES_KEY = "alices-key-0123456789";
export const BOBS_KEY = "bobs-key-9876543210";

export interface Call {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Anything but a string, bytes or a form is sent as JSON. */
  readonly body?: unknown;
  /** Alice's when absent; none when null. */
  readonly key?: string | null;
  readonly signal?: AbortSignal;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly json: any;
}

export type HttpFixtureOptions = Partial<Omit<HttpAppOptions, "services">> & {
  /** What the administrator allows sandboxes to reach; nothing when absent. */
  readonly network?: readonly string[];
  /** Skips the response check, which takes longer than creating the response. */
  readonly unchecked?: boolean;
  /** Replaces methods of the services. */
  readonly replace?: {
    readonly [Name in "sessions" | "execs" | "files" | "workspaces" | "ports"]?: Partial<
      Services[Name]
    >;
  } & {
    /** Replaces methods of every started or found command. */
    readonly exec?: Partial<ExecHandle>;
    /** The images of every caller. */
    readonly images?: Images;
    readonly imageStore?: ImageStore;
    readonly collectImages?: Services["collectImages"];
    readonly ready?: Services["ready"];
    readonly servedAt?: Services["servedAt"];
  };
  /** A free port when absent. */
  readonly port?: number;
};

interface FixtureParts {
  readonly core: CoreFixture;
  readonly app: FastifyInstance;
  readonly storedKeys: StoredKeys;
  readonly directory: string;
  readonly logLines: readonly string[];
  readonly wrongAnswers: readonly string[];
}

export class HttpFixture implements AsyncDisposable {
  readonly core: CoreFixture;
  readonly app: FastifyInstance;
  readonly directory: string;
  /** All logged lines. */
  readonly logLines: readonly string[];
  readonly #storedKeys: StoredKeys;
  readonly #wrongAnswers: readonly string[];

  private constructor(parts: FixtureParts) {
    this.core = parts.core;
    this.app = parts.app;
    this.directory = parts.directory;
    this.logLines = parts.logLines;
    this.#storedKeys = parts.storedKeys;
    this.#wrongAnswers = parts.wrongAnswers;
  }

  static async start({
    replace = {},
    unchecked = false,
    network = [],
    port = 0,
    ...options
  }: HttpFixtureOptions = {}): Promise<HttpFixture> {
    const core = await CoreFixture.start({ network });
    const directory = await mkdtemp(join(tmpdir(), "sandkasten-http-"));
    const logLines: string[] = [];
    const log = pino({ level: "trace" }, { write: (line: string) => void logLines.push(line) });
    const services: Services = {
      events: core.core.events,
      sessions: overriding(core.core.sessions as Services["sessions"], replace.sessions ?? {}),
      execs: overriding(core.core.execs as Services["execs"], {
        ...(replace.exec !== undefined && execsWith(replace.exec)),
        ...replace.execs,
      }),
      shells: core.core.shells,
      files: overriding(core.core.files as Services["files"], replace.files ?? {}),
      workspaces: overriding(
        core.core.workspaces as Services["workspaces"],
        replace.workspaces ?? {},
      ),
      commits: core.core.commits,
      ports: overriding(core.core.ports as Services["ports"], replace.ports ?? {}),
      networks: core.core.networks,
      imagesOf: (caller, backend) =>
        replace.images ??
        (replace.imageStore && imagesFor(caller, replace.imageStore)) ??
        core.core.imagesOf(caller, backend),
      collectImages: replace.collectImages ?? ((...asked) => core.core.collectImages(...asked)),
      ready: replace.ready ?? (() => core.core.ready()),
      counts: () => core.core.counts(),
      servedAt: replace.servedAt ?? ((id) => core.core.servedAt(id)),
      storage: () => Promise.resolve([{ kind: "disk_templates", files: 2, bytes: 8192 }]),
    };
    const storedKeys = await StoredKeys.open({
      store: await SqliteKeyStore.open(join(directory, "keys.db")),
      clock: systemClock(),
      log,
      events: core.events,
      quotas: BOB,
      configured: [
        { owner: "alice", scope: "admin" },
        { owner: "bob", scope: "use" },
      ],
    });
    const app = await buildHttpApp({
      services,
      storedKeys,
      callers: [
        { key: ALICES_KEY, caller: ALICE },
        { key: BOBS_KEY, caller: BOB },
      ],
      log,
      version: "1.2.3",
      backends: ["fake"],
      limits: { maxBodyBytes: 4_194_304, maxUploadBytes: 8_388_608 },
      allowedHosts: [],
      allowedOrigins: [],
      uploadDir: join(directory, "uploads"),
      preview: { key: Buffer.alloc(32, "k"), scheme: "http", maxSeconds: 86_400 },
      ...options,
    });
    const wrongAnswers = unchecked ? [] : checkAnswers(app);
    await app.listen({ host: "127.0.0.1", port });
    return new HttpFixture({ core, app, storedKeys, directory, logLines, wrongAnswers });
  }

  get port(): number {
    return (this.app.server.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  async fetch(path: string, call: Call = {}): Promise<Response> {
    const key = call.key === undefined ? ALICES_KEY : call.key;
    const { body } = call;
    return await fetch(`${this.url}${path}`, {
      method: call.method ?? (body === undefined ? "GET" : "POST"),
      headers: { ...(key !== null && { authorization: `Bearer ${key}` }), ...call.headers },
      ...(body !== undefined && { body: bodyOf(body) }),
      ...(call.signal !== undefined && { signal: call.signal }),
    });
  }

  async call(path: string, call: Call = {}): Promise<Answer> {
    const response = await this.fetch(path, call);
    const text = await response.text();
    const isJson = response.headers.get("content-type")?.startsWith("application/json") === true;
    const json: unknown = isJson && text !== "" ? JSON.parse(text) : undefined;
    return { status: response.status, headers: response.headers, text, json };
  }

  async createSession(body: object = {}): Promise<string> {
    const { json } = await this.call("/v1/sessions", { body });
    return (json as { id: string }).id;
  }

  /** A raw connection, for input that no client would send. */
  async connect(): Promise<Socket> {
    const socket = connect(this.port, "127.0.0.1");
    await new Promise((resolve, reject) => socket.once("connect", resolve).once("error", reject));
    return socket;
  }

  /** Sends text unchanged and returns everything until the server closes. */
  async exchange(text: string): Promise<string> {
    const socket = await this.connect();
    socket.write(text);
    return await textUntilClose(socket);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.app.server.closeAllConnections();
    await this.app.close();
    await this.#storedKeys.close();
    await this.core[Symbol.asyncDispose]();
    await rm(this.directory, { recursive: true, force: true });
    // Every response of every test is checked against the OpenAPI document.
    if (this.#wrongAnswers.length > 0) throw new Error(this.#wrongAnswers.join("\n"));
  }
}

/** Commands with some methods replaced. */
function execsWith(replaced: Partial<ExecHandle>): Partial<Services["execs"]> {
  return {
    async start(...args) {
      return overriding(await this.start!(...args), replaced);
    },
    async get(...args) {
      return overriding(await this.get!(...args), replaced);
    },
  };
}

export async function textUntilClose(socket: Socket): Promise<string> {
  const pieces: Buffer[] = [];
  socket.on("data", (piece: Buffer) => pieces.push(piece));
  await new Promise<void>((resolve) => {
    socket.once("close", () => resolve());
    // A reset after the response counts as a normal end here.
    socket.on("error", () => undefined);
  });
  return Buffer.concat(pieces).toString();
}

function bodyOf(body: unknown): NonNullable<RequestInit["body"]> {
  if (typeof body === "string" || body instanceof Uint8Array || body instanceof FormData)
    return body as NonNullable<RequestInit["body"]>;
  return JSON.stringify(body);
}
