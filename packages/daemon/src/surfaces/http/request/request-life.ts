/** What happens to every request: it is let in or not, answered, and noted when it is over. */
import type { FastifyReply, FastifyRequest } from "fastify";
import { SandboxError } from "@sandkasten/protocol";
import { parseTraceContext } from "@sandkasten/telemetry";
import type { OpenSpan, StartedTelemetry } from "@sandkasten/telemetry";
import { failureForLog } from "../../../failure-for-log.ts";
import type { App, HttpLimits } from "../app.ts";
import { drainRequest } from "../connection/drain-request.ts";
import type { Shutdown } from "../connection/shutdown.ts";
import { upgradeHead } from "../connection/upgrades.ts";
import type { ErrorFormat } from "../error-format.ts";
import { checkQuery } from "./query-encoding.ts";
import { checkHead } from "./request-head.ts";
import type { RequestMetrics } from "../../../telemetry/request-metrics.ts";

const NO_ROUTE = "(none)";

/** What a protocol decides about its requests. */
export interface Protocol {
  readonly admission: {
    /** Throws for a request that must not get in; answers false for one that is answered already. */
    admit(request: FastifyRequest, reply: FastifyReply): boolean;
    /** What has to be waited for before that, if anything. */
    prepare(request: FastifyRequest): Promise<void> | undefined;
  };
  readonly errorFormat: ErrorFormat;
  /** What a request to a path or method that does not exist is told. */
  readonly noRouteMessage: string;
}

export interface RequestLifeOptions {
  readonly limits: HttpLimits;
  readonly stallTimeoutMs: number;
  readonly shutdown: Shutdown;
  readonly metrics: RequestMetrics;
  /** Absent when no spans are sent. */
  readonly spans?: StartedTelemetry | undefined;
}

export class RequestLife {
  readonly #protocol: Protocol;
  readonly #options: RequestLifeOptions;
  #underWay = 0;
  #whenIdle: PromiseWithResolvers<void> | undefined;

  constructor(protocol: Protocol, options: RequestLifeOptions) {
    this.#protocol = protocol;
    this.#options = options;
  }

  attach(app: App): void {
    app.decorateRequest("caller");
    app.decorateRequest("trace");
    app.addHook("onRequest", (request, reply, done) => {
      const begin = (): void => {
        try {
          if (this.#begin(request, reply)) done();
        } catch (error) {
          done(error as Error);
        }
      };
      const prepared = this.#protocol.admission.prepare(request);
      if (prepared === undefined) begin();
      else prepared.then(begin, (error: unknown) => this.#refuse(error, request, reply, done));
    });
    app.setErrorHandler((error, request, reply) => this.#fail(error, request, reply));
    // Never reached: the hook refuses first, without reading a body.
    app.setNotFoundHandler((_request, reply) => reply.send(this.#noRoute()));
  }

  /** Resolves when no request is under way. */
  async idle(): Promise<void> {
    if (this.#underWay === 0) return;
    this.#whenIdle ??= Promise.withResolvers();
    await this.#whenIdle.promise;
  }

  /** A URL that cannot be routed has passed no hook yet. */
  unroutable(error: Error, request: FastifyRequest, reply: FastifyReply): void {
    try {
      this.#note(request, reply);
      if (this.#protocol.admission.admit(request, reply)) this.#fail(error, request, reply);
    } catch (refusal) {
      this.#fail(refusal, request, reply);
    }
  }

  #refuse(
    error: unknown,
    request: FastifyRequest,
    reply: FastifyReply,
    done: (error: Error) => void,
  ): void {
    this.#note(request, reply);
    done(error as Error);
  }

  #begin(request: FastifyRequest, reply: FastifyReply): boolean {
    this.#note(request, reply);
    if (!this.#protocol.admission.admit(request, reply)) return false;
    if (request.is404) throw this.#noRoute();
    const { access, body } = request.routeOptions.config;
    if (this.#options.shutdown.begun && access !== "open")
      throw new SandboxError(
        "SANDBOX_UNREACHABLE",
        "the daemon is stopping; try again in a moment",
      );
    if (body === "proxied") {
      // What its body is called is the application's affair, which gets the header as it was sent.
      request.raw.headers["content-type"] = "application/octet-stream";
      return true;
    }
    checkQuery(request.raw.url ?? "");
    checkHead(request, reply, this.#options.limits);
    return true;
  }

  #note(request: FastifyRequest, reply: FastifyReply): void {
    const startedMs = performance.now();
    const span = this.#beginSpan(request);
    this.#underWay += 1;
    reply.header("X-Request-ID", request.id);
    reply.header("X-Content-Type-Options", "nosniff");
    reply.header("Cache-Control", "no-store");
    reply.raw.once("close", () => {
      this.#underWay -= 1;
      if (this.#underWay === 0) this.#whenIdle?.resolve();
      drainRequest(request.raw, this.#options.stallTimeoutMs);
      this.#finish(request, reply, performance.now() - startedMs, span);
      // Only now is the connection one that waits for its next request, which shall not come.
      if (this.#options.shutdown.begun)
        setImmediate(() => request.server.server.closeIdleConnections());
    });
  }

  /** Health checks come every few seconds and tell nothing, so they have no span. */
  #beginSpan(request: FastifyRequest): OpenSpan | undefined {
    const { traceparent, tracestate } = request.headers;
    const parent =
      traceparent === undefined ? undefined : parseTraceContext(traceparent, tracestate);
    request.trace = parent;
    const { spans } = this.#options;
    const { config, url: route = NO_ROUTE } = request.routeOptions;
    if (spans === undefined || config.access === "open") return undefined;
    const span = spans.startSpan(`${request.method} ${route}`, {
      parent,
      isServer: true,
      attributes: {
        "http.request.method": request.method,
        "http.route": route,
        "sandkasten.request_id": request.id,
      },
    });
    request.trace = span.context;
    return span;
  }

  /** SECURITY: a log has the pattern of the path, never the path, its query, headers or bodies: they can hold commands, names and keys. Guarded by logging.test.ts. */
  #finish(
    request: FastifyRequest,
    reply: FastifyReply,
    durationMs: number,
    span: OpenSpan | undefined,
  ): void {
    const { config, url: route = NO_ROUTE } = request.routeOptions;
    const { method } = request;
    // A socket answers past Fastify.
    const status = request.ws && !reply.raw.headersSent ? 101 : reply.raw.statusCode;
    const stream = config.stream === true;
    span?.end({
      attributes: { "http.response.status_code": status },
      error: status >= 500 ? `HTTP ${status}` : undefined,
    });
    this.#options.metrics.count({ method, route, status, durationMs, stream });
    const line = {
      method,
      route,
      status,
      duration_ms: Math.round(durationMs * 1000) / 1000,
      ...(!reply.raw.writableFinished && status !== 101 && { cut_off: true }),
    };
    if (config.access === "open") request.log.debug(line, "request");
    else request.log.info(line, "request");
  }

  #fail(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
    const { status, body, retryable, hidden } = this.#protocol.errorFormat.of(error, request.id);
    if (hidden) request.log.error({ err: failureForLog(error) }, "request failed");
    // A client that still sends shall read its answer; it is cut off a little later.
    reply.removeHeader("connection");
    // What is taken now may be free, and what stops may be back, in a moment.
    if (retryable && (status === 429 || status === 503)) reply.header("Retry-After", "1");
    // A connection that was to become a socket is of no use for further requests.
    if (upgradeHead(request.raw) !== undefined)
      reply.raw.once("finish", () => request.raw.socket.destroySoon());
    reply.code(status).send(body);
  }

  #noRoute(): SandboxError {
    return new SandboxError("ROUTE_NOT_FOUND", this.#protocol.noRouteMessage);
  }
}
