/** Puts the HTTP layer together: it parses, calls the services and serialises, nothing else. */
import { mkdir, readdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { FastifyInstance } from "fastify";
import type { Logger } from "pino";
import type { Services } from "../sessions/services.ts";
import type { App, HttpContext, HttpLimits } from "./context.ts";
import { ErrorAnswers } from "./error-answer.ts";
import { Gate } from "./gate.ts";
import { readJsonBodies } from "./json-body.ts";
import { KeyRing } from "./keys.ts";
import type { KeyHolder } from "./keys.ts";
import { describeApi } from "./openapi.ts";
import { KnownHosts } from "./origins.ts";
import { Previews } from "./preview/previews.ts";
import type { PreviewOptions } from "./preview/previews.ts";
import { RequestLife } from "./request-life.ts";
import { RequestMetrics } from "./request-metrics.ts";
import { IMPORT_PREFIX } from "./routes/image-import.ts";
import { registerRoutes } from "./routes/register-routes.ts";
import { createServer } from "./server.ts";
import { Shutdown } from "./shutdown.ts";
import { Validation } from "./validation.ts";

export interface HttpAppOptions {
  readonly services: Services;
  readonly callers: readonly KeyHolder[];
  readonly log: Logger;
  readonly version: string;
  /** Names of the backends, to be shown, the usual one first. */
  readonly backends: readonly [string, ...string[]];
  readonly limits: HttpLimits;
  /** Names under which the daemon may be spoken to, beside those of loopback and the address it is reached at. */
  readonly allowedHosts: readonly string[];
  /** Origins of pages that may use the daemon, as `https://example.org`. */
  readonly allowedOrigins: readonly string[];
  /** Where images are kept while they arrive; what earlier daemons left there is swept. */
  readonly uploadDir: string;
  /** Directories of the host whose paths no answer may name; the one that `uploadDir` is in when absent. */
  readonly hostPaths?: readonly string[];
  /** The core's own when absent. */
  readonly outputBudgetBytes?: number;
  /** How long a client may take to go on reading or writing. */
  readonly stallTimeoutMs?: number;
  /** How often quiet streams and sockets are pinged. */
  readonly pingIntervalMs?: number;
  /** How long the head of a request may take. */
  readonly headersTimeoutMs?: number;
  readonly preview: PreviewOptions;
}

const DEFAULT_STALL_TIMEOUT_MS = 60_000;
const DEFAULT_PING_INTERVAL_MS = 15_000;
/** Transfers that are under way when the daemon stops may take so long to end. */
const CLOSING_GRACE_MS = 5_000;

export async function buildHttpApp(options: HttpAppOptions): Promise<FastifyInstance> {
  const { uploadDir, limits } = options;
  await sweep(uploadDir);
  const keys = new KeyRing(options.callers);
  const previews = new Previews(options.preview, keys);
  const context: HttpContext = {
    services: options.services,
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
    answers: new ErrorAnswers(options.hostPaths ?? [dirname(uploadDir)]),
    metrics: new RequestMetrics(),
    previews,
  };
  const gate = new Gate({
    keys,
    previews,
    hosts: new KnownHosts(options.allowedHosts),
    allowedOrigins: new Set(options.allowedOrigins),
  });
  const validation = new Validation();
  const life = new RequestLife(context, gate, validation);
  const app = createServer({
    log: options.log,
    compileValidator: validation.compile,
    isPreviewHost: (request) => previews.isHost(request),
    onUnroutable: (error, request, reply) => life.unroutable(error, request, reply),
    ...(options.headersTimeoutMs !== undefined && { headersTimeoutMs: options.headersTimeoutMs }),
  });
  life.attach(app);
  readJsonBodies(app, limits, context.stallTimeoutMs);
  await describeApi(app, options.version);
  await registerRoutes(app, context);
  closeInTime(app, context.shutdown, life);
  return app as unknown as FastifyInstance;
}

/**
 * What lasts long is told to end, and what does not end is cut off after a while. Until then the
 * daemon listens, so that `/readyz` can say what is going on.
 */
function closeInTime(app: App, shutdown: Shutdown, life: RequestLife): void {
  app.decorate("beginShutdown", () => shutdown.begin());
  app.addHook("preClose", async () => {
    shutdown.begin();
    const graceOver = Promise.withResolvers<void>();
    setTimeout(() => {
      app.server.closeAllConnections();
      graceOver.resolve();
    }, CLOSING_GRACE_MS).unref();
    await Promise.race([life.idle(), graceOver.promise]);
  });
}

/** What a killed daemon left of images on their way is of no use to anybody. */
async function sweep(directory: string): Promise<void> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const left = (await readdir(directory)).filter((name) => name.startsWith(IMPORT_PREFIX));
  for (const name of left) await rm(join(directory, name), { recursive: true, force: true });
}
