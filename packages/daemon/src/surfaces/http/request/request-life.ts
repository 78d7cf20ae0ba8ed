/** The lifecycle of every request: admission, response, and logging at its end. */
import type { FastifyReply, FastifyRequest } from "fastify";
import { SandboxError } from "@sandkasten/protocol";
import { parseTraceContext } from "@sandkasten/telemetry";
import type { OpenSpan, StartedTelemetry } from "@sandkasten/telemetry";
import { failureForLog } from "../../../failure-for-log.ts";
import type { App, HttpLimits } from "../app.ts";
import { drainRequest, endWhenDrained } from "../connection/drain-request.ts";
import type { Shutdown } from "../connection/shutdown.ts";
import { upgradeHead } from "../connection/upgrades.ts";
import type { ErrorFormat } from "../error-format.ts";
import { checkQuery } from "./query-encoding.ts";
import { checkHead } from "./request-head.ts";
import type { RequestMetrics } from "../../../telemetry/request-metrics.ts";

const NO_ROUTE = "(none)";

/** The protocol-specific decisions about requests. */
export interface Protocol {
  readonly admission: {
    /** Throws for a request that is not allowed; returns false for one that is already answered. */
    admit(request: FastifyRequest, reply: FastifyReply): boolean;
    /** What must be awaited before that, if anything. */
    prepare(request: FastifyRequest): Promise<void> | undefined;
  };
  readonly errorFormat: ErrorFormat;
  /** The message for a path or method that does not exist. */
  readonly noRouteMessage: string;
}

export interface RequestLifeOptions {
  readonly limits: HttpLimits;
  readonly stallTimeoutMs: number;
  readonly shutdown: Shutdown;
  readonly metrics: RequestMetrics;
  /** Absent if no spans are sent. */
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

  /** Resolves when no request is in progress. */
  async idle(): Promise<void> {
    if (this.#underWay === 0) return;
    this.#whenIdle ??= Promise.withResolvers();
    await this.#whenIdle.promise;
  }

  /** A URL that cannot be routed has not passed any hook yet. */
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
      // The application gets the content type unchanged; this one only makes Fastify skip parsing.
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
      // Only now is the connection idle, waiting for a next request that must not come.
      if (this.#options.shutdown.begun)
        setImmediate(() => request.server.server.closeIdleConnections());
    });
  }

  /** Health checks are frequent and uninteresting, so they have no span. */
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

  /**
   * SECURITY: the log has the pattern of the path, never the path, query, headers or bodies: they
   * can hold commands, names and keys. Guarded by logging.test.ts.
   */
  #finish(
    request: FastifyRequest,
    reply: FastifyReply,
    durationMs: number,
    span: OpenSpan | undefined,
  ): void {
    const { config, url: route = NO_ROUTE } = request.routeOptions;
    const { method } = request;
    // A socket responds outside of Fastify.
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
    // A client that is still sending must be able to read its response; it is cut off a little
    // later.
    reply.removeHeader("connection");
    // Occupied resources may be free, and a stopping daemon back, in a moment.
    if (retryable && (status === 429 || status === 503)) reply.header("Retry-After", "1");
    // A connection whose upgrade was refused cannot be used for further requests.
    if (upgradeHead(request.raw) !== undefined)
      reply.raw.once("finish", () => request.raw.socket.destroySoon());
    reply.code(status);
    if (request.raw.complete || reply.raw.shouldKeepAlive) reply.send(body);
    else {
      const text = JSON.stringify(body);
      reply.type("application/json; charset=utf-8");
      reply.header("Content-Length", Buffer.byteLength(text));
      reply.send(endWhenDrained(text, request.raw, this.#options.stallTimeoutMs));
    }
  }

  #noRoute(): SandboxError {
    return new SandboxError("ROUTE_NOT_FOUND", this.#protocol.noRouteMessage);
  }
}
