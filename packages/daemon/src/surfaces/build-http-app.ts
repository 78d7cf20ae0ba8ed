/** Assembles the HTTP layer, which only parses, calls the services and serializes. */
import { timingSafeEqual } from "node:crypto";
import { mkdir, readdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { FastifyInstance, FastifyRequest } from "fastify";
import { idInPath, SandboxError } from "@sandkasten/protocol";
import type { StartedTelemetry } from "@sandkasten/telemetry";
import type { Logger } from "pino";
import type { StoredKeys } from "../keys/stored-keys.ts";
import type { Tokens } from "../keys/tokens.ts";
import type { Services } from "../sessions/services/services.ts";
import { DaemonMetrics } from "../telemetry/daemon-metrics.ts";
import type { App, HttpLimits } from "./http/app.ts";
import type { NativeContext } from "./native/context.ts";
import { NativeErrors } from "./native/native-errors.ts";
import { NativeAdmission } from "./native/admission.ts";
import { readJsonBodies } from "./http/bodies/json-body.ts";
import { RequestMemory } from "./http/request/request-memory.ts";
import { KeyRing } from "./http/admission/keys.ts";
import type { KeyHolder } from "./http/admission/keys.ts";
import { OpenRequests } from "./http/admission/open-requests.ts";
import { agentForwardingRoutes } from "./dashboard/agent-forwarding.ts";
import type { AgentServiceLink } from "./dashboard/agent-forwarding.ts";
import { dashboardRoutes } from "./dashboard/dashboard-routes.ts";
import { describeApi } from "./native/openapi/openapi.ts";
import { KnownHosts } from "./http/admission/origins.ts";
import { Forwarding } from "./peers/forwarding.ts";
import { PeerTokens } from "./peers/peer-token.ts";
import { Previews } from "./preview/previews.ts";
import type { PreviewOptions } from "./preview/previews.ts";
import { RequestLife } from "./http/request/request-life.ts";
import { IMPORT_PREFIX } from "./native/routes/images/archive-on-disk.ts";
import { registerRoutes } from "./native/routes/register-routes.ts";
import { serveSite } from "./site/site.ts";
import { createServer } from "./http/connection/server.ts";
import { Shutdown } from "./http/connection/shutdown.ts";
import { reportIgnoredFields, Validation } from "./native/parsing/validation.ts";
import { PREVIEW_HOST_ROUTE } from "./native/routes/ports/previews.ts";
import { mayUpgrade } from "./native/socket-paths.ts";

export interface HttpAppOptions {
  readonly services: Services;
  readonly callers: readonly KeyHolder[];
  /** Keys created at runtime. */
  readonly storedKeys: StoredKeys;
  /** Tokens that are accepted in addition to keys. */
  readonly tokens?: Tokens | undefined;
  readonly log: Logger;
  readonly version: string;
  /** Names of the backends for display, the default one first. */
  readonly backends: readonly [string, ...string[]];
  readonly limits: HttpLimits;
  /** Host names that requests may use, besides loopback names and the address of the connection. */
  readonly allowedHosts: readonly string[];
  /** Origins of web pages that may use the daemon, as `https://example.org`. */
  readonly allowedOrigins: readonly string[];
  /** Where images are stored while they are uploaded; leftovers of earlier daemons are removed. */
  readonly uploadDir: string;
  /** Directories of the host whose paths responses must not contain; the parent of `uploadDir` when absent. */
  readonly hostPaths?: readonly string[];
  /** The core's default when absent. */
  readonly outputBudgetBytes?: number;
  /** How long a client may stall while reading or writing. */
  readonly stallTimeoutMs?: number;
  /** How often idle streams and sockets are pinged. */
  readonly pingIntervalMs?: number;
  /** Timeout for the head of a request. */
  readonly headersTimeoutMs?: number;
  /** How long transfers in progress may take to end when the daemon stops. */
  readonly closingGraceMs?: number;
  /** The pages of `/docs` and `/guide`; not served when absent. */
  readonly siteDir?: string | undefined;
  readonly preview: PreviewOptions;
  /** No dashboard at `/` when absent. */
  readonly dashboard?: {
    /** The directory of the build. */
    readonly directory: string;
    readonly agents: AgentServiceLink;
  };
  /** How daemons that share the store authenticate to each other; nothing is forwarded when absent. */
  readonly peer?: { readonly secret: string; readonly address?: string | undefined };
  /** Created when absent. */
  readonly metrics?: DaemonMetrics;
  /** No spans when absent. */
  readonly spans?: StartedTelemetry | undefined;
}

const NO_ROUTE_MESSAGE =
  "The API has no such path, or not for this method. GET /docs shows the API";
const DEFAULT_STALL_TIMEOUT_MS = 60_000;
const DEFAULT_PING_INTERVAL_MS = 15_000;
const DEFAULT_CLOSING_GRACE_MS = 5_000;

export async function buildHttpApp(options: HttpAppOptions): Promise<FastifyInstance> {
  const { uploadDir, limits } = options;
  await sweep(uploadDir);
  const { storedKeys, tokens } = options;
  const keys = new KeyRing(options.callers, timingSafeEqual, {
    find: (key, digest) => storedKeys.find(key, digest) ?? tokens?.find(key, digest),
  });
  const open = new OpenRequests();
  storedKeys.onEnd((keyId) => open.cut(keyId));
  const previews = new Previews(options.preview, keys, (keyId) => storedKeys.isValid(keyId));
  const context: NativeContext = {
    services: options.services,
    keys: storedKeys,
    limits,
    version: options.version,
    backends: options.backends,
    ...(options.outputBudgetBytes !== undefined && {
      outputBudgetBytes: options.outputBudgetBytes,
    }),
    uploadDir,
    stallTimeoutMs: options.stallTimeoutMs ?? DEFAULT_STALL_TIMEOUT_MS,
    pingIntervalMs: options.pingIntervalMs ?? DEFAULT_PING_INTERVAL_MS,
    shutdown: new Shutdown(),
    errorFormat: new NativeErrors(options.hostPaths ?? [dirname(uploadDir)]),
    metrics: options.metrics ?? new DaemonMetrics(),
    previews,
    memory: new RequestMemory(),
  };
  const peers = options.peer === undefined ? undefined : new PeerTokens(options.peer);
  const admission = new NativeAdmission({
    peers,
    keys,
    open,
    tokens,
    previews,
    hosts: new KnownHosts(options.allowedHosts),
    allowedOrigins: new Set(options.allowedOrigins),
  });
  const validation = new Validation();
  const life = new RequestLife(
    { admission, errorFormat: context.errorFormat, noRouteMessage: NO_ROUTE_MESSAGE },
    { ...context, metrics: context.metrics.requests, spans: options.spans },
  );
  const app = createServer({
    log: options.log,
    compileValidator: validation.compile,
    // SECURITY: only the host decides whether a request is for the API or for an application,
    // whatever its path; a sandbox's page that requests `/v1/sessions` from its own host reaches
    // only itself. Guarded by preview-hosts.test.ts.
    routedUrl: (request) => (previews.isHost(request) ? PREVIEW_HOST_ROUTE : (request.url ?? "")),
    mayUpgrade: (request) => mayUpgrade(request, (asked) => previews.isHost(asked)),
    onUnroutable: (error, request, reply) => life.unroutable(error, request, reply),
    ...(options.headersTimeoutMs !== undefined && { headersTimeoutMs: options.headersTimeoutMs }),
  });
  life.attach(app);
  app.decorateRequest("isForwarded", false);
  app.decorateRequest("forwardedCaller");
  forwardElsewhere(app, context, peers);
  app.decorateRequest("preview");
  reportIgnoredFields(app, validation);
  readJsonBodies(app, context);
  await describeApi(app, options.version);
  await registerRoutes(app, context);
  if (options.dashboard !== undefined) {
    const { directory, agents } = options.dashboard;
    dashboardRoutes(app, { directory, preview: options.preview });
    agentForwardingRoutes(app, agents, context.shutdown);
  }
  if (options.siteDir !== undefined) await serveSite(app, options.siteDir);
  closeInTime(app, context.shutdown, life, options.closingGraceMs ?? DEFAULT_CLOSING_GRACE_MS);
  app.addHook("onClose", () => open.close());
  return app as unknown as FastifyInstance;
}

/** Forwards requests for sessions that another daemon serves, before anything but their head is read. */
function forwardElsewhere(app: App, context: NativeContext, tokens?: PeerTokens): void {
  const { services, stallTimeoutMs } = context;
  const forwarding = tokens === undefined ? undefined : new Forwarding({ tokens, stallTimeoutMs });
  app.addHook("onRequest", async (request, reply) => {
    const id = sessionOf(request);
    if (id === undefined) return;
    const servedAt = async (): Promise<string | undefined> => await services.servedAt(id);
    const address = await services.servedAt(id);
    if (address === undefined) return;
    // A request is forwarded only once: the daemon that served the session no longer does.
    if (forwarding === undefined || request.isForwarded)
      throw new SandboxError(
        "SANDBOX_UNREACHABLE",
        "another daemon serves this session; try again in a moment",
        { details: { reason: "moved" } },
      );
    await forwarding.forward(request, reply, { address, servedAt });
  });
}

/** The session that a request is for. Paths are not checked yet, and a database does not take every text. */
function sessionOf({ preview, params, routeOptions }: FastifyRequest): string | undefined {
  if (preview !== undefined) return preview.sessionId;
  if (routeOptions.url?.startsWith("/v1/sessions/:id") !== true) return undefined;
  return idInPath.safeParse((params as { readonly id?: string }).id).data;
}

/**
 * Long-running requests are asked to end, and are cut off after a while. Until then the daemon
 * listens, so `/readyz` can report the state.
 */
function closeInTime(app: App, shutdown: Shutdown, life: RequestLife, graceMs: number): void {
  // `closeAllConnections` leaves out what has become a WebSocket.
  const connections = new Set<{ destroy: () => void }>();
  app.server.on("connection", (socket) => {
    connections.add(socket);
    socket.once("close", () => connections.delete(socket));
  });
  app.decorate("beginShutdown", () => shutdown.begin());
  app.addHook("preClose", async () => {
    shutdown.begin();
    const graceOver = Promise.withResolvers<void>();
    setTimeout(() => {
      for (const socket of connections) socket.destroy();
      graceOver.resolve();
    }, graceMs).unref();
    await Promise.race([life.idle(), graceOver.promise]);
  });
}

/** Removes incomplete image uploads that a killed daemon left. */
async function sweep(directory: string): Promise<void> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const left = (await readdir(directory)).filter((name) => name.startsWith(IMPORT_PREFIX));
  for (const name of left) await rm(join(directory, name), { recursive: true, force: true });
}
