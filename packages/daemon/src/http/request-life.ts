/** What happens to every request: it is let in or not, answered, and noted when it is over. */
import type { FastifyReply, FastifyRequest } from "fastify";
import { SandboxError } from "@sandkasten/protocol";
import type { App, HttpContext } from "./context.ts";
import { failureForLog } from "./error-answer.ts";
import type { Gate } from "./gate.ts";
import { tellIgnored } from "./ignored-fields.ts";
import { linger } from "./linger.ts";
import { checkQuery } from "./query-encoding.ts";
import { checkHead } from "./request-head.ts";
import { upgradeHead } from "./upgrades.ts";
import type { Validation } from "./validation.ts";

const NO_ROUTE = "(none)";

export class RequestLife {
  readonly #context: HttpContext;
  readonly #gate: Gate;
  readonly #validation: Validation;
  #underWay = 0;
  #whenIdle: PromiseWithResolvers<void> | undefined;

  constructor(context: HttpContext, gate: Gate, validation: Validation) {
    this.#context = context;
    this.#gate = gate;
    this.#validation = validation;
  }

  attach(app: App): void {
    app.decorateRequest("caller");
    app.decorateRequest("preview");
    app.addHook("onRequest", (request, reply, done) => {
      try {
        if (this.#begin(request, reply)) done();
      } catch (error) {
        done(error as Error);
      }
    });
    app.addHook("preHandler", (request, reply, done) => {
      for (const part of [request.query, request.body])
        tellIgnored(reply, this.#validation.ignoredIn(part));
      done();
    });
    app.setErrorHandler((error, request, reply) => this.#fail(error, request, reply));
    // Never reached: the hook refuses first, without reading a body.
    app.setNotFoundHandler((_request, reply) => reply.send(noRoute()));
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
      if (this.#gate.admit(request, reply)) this.#fail(error, request, reply);
    } catch (refusal) {
      this.#fail(refusal, request, reply);
    }
  }

  #begin(request: FastifyRequest, reply: FastifyReply): boolean {
    this.#note(request, reply);
    if (!this.#gate.admit(request, reply)) return false;
    if (request.is404) throw noRoute();
    const { access } = request.routeOptions.config;
    if (this.#context.shutdown.begun && access !== "open")
      throw new SandboxError(
        "SANDBOX_UNREACHABLE",
        "the daemon is stopping; try again in a moment",
      );
    if (request.preview !== undefined) {
      // What its body is called is the application's affair, which gets the header as it was sent.
      request.raw.headers["content-type"] = "application/octet-stream";
      return true;
    }
    checkQuery(request.raw.url ?? "");
    checkHead(request, reply, this.#context.limits);
    return true;
  }

  #note(request: FastifyRequest, reply: FastifyReply): void {
    const startedMs = performance.now();
    this.#underWay += 1;
    reply.header("X-Request-ID", request.id);
    reply.header("X-Content-Type-Options", "nosniff");
    reply.header("Cache-Control", "no-store");
    reply.raw.once("close", () => {
      this.#underWay -= 1;
      if (this.#underWay === 0) this.#whenIdle?.resolve();
      linger(request.raw, this.#context.stallTimeoutMs);
      this.#finish(request, reply, performance.now() - startedMs);
      // Only now is the connection one that waits for its next request, which shall not come.
      if (this.#context.shutdown.begun)
        setImmediate(() => request.server.server.closeIdleConnections());
    });
  }

  /** SECURITY: a log has the pattern of the path, never the path, its query, headers or bodies: they can hold commands, names and keys. Guarded by logging.test.ts. */
  #finish(request: FastifyRequest, reply: FastifyReply, durationMs: number): void {
    const { config, url: route = NO_ROUTE } = request.routeOptions;
    const { method } = request;
    // A socket answers past Fastify.
    const status = request.ws && !reply.raw.headersSent ? 101 : reply.raw.statusCode;
    const stream = config.stream === true;
    this.#context.metrics.count({ method, route, status, durationMs, stream });
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
    const { status, body, retryable, hidden } = this.#context.answers.of(error, request.id);
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
}

function noRoute(): SandboxError {
  return new SandboxError(
    "ROUTE_NOT_FOUND",
    "the API has nothing here for this method; GET /docs shows all there is",
  );
}
