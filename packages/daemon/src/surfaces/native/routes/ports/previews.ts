/** Previews: HTTP and WebSockets to a port of a session, by host name or by path. */
import { METHODS, STATUS_CODES } from "node:http";
import type { IncomingMessage } from "node:http";
import { SandboxError } from "@sandkasten/protocol";
import type { FastifyReply, FastifyRequest } from "fastify";
import { z } from "zod";
import { answerOf, errors, LIVING_ERRORS } from "../../openapi/documented-responses.ts";
import type { App } from "../../../http/app.ts";
import type { NativeContext } from "../../context.ts";
import { failureForLog } from "../../../../failure-for-log.ts";
import { requestHeaders, responseHeaders } from "../../../preview/forwarded-headers.ts";
import { forwardRequest, portFailed, sendAnswer } from "../../../preview/forward-request.ts";
import type { Forwarding } from "../../../preview/forward-request.ts";
import { PortDuplex } from "../../../preview/port-duplex.ts";
import type { Preview } from "../../../preview/preview.ts";
import { askForSocket, splice } from "../../../preview/splice-socket.ts";
import { upgradeHead } from "../../../http/connection/upgrades.ts";
import { sessionParams } from "../params.ts";

/** The route for requests to preview hosts. Other requests find nothing here. */
export const PREVIEW_HOST_ROUTE = "/preview";
/** Echoing the request head and tunnelling are not uses of a web page. */
const REFUSED_METHODS: ReadonlySet<string> = new Set(["TRACE", "CONNECT"]);

const params = sessionParams.extend({
  port: z.string().meta({ description: "The port, optionally followed by `~` and a link's token" }),
});

/** The scope must leave bodies unread. */
export function previewRoutes(app: App, context: NativeContext): void {
  const method = METHODS.filter((name) => !REFUSED_METHODS.has(name));
  const others = method.filter((name) => name !== "GET");
  const config = { access: "preview", body: "proxied", stream: true } as const;
  const handler = serve(context);
  app.route({
    method: "GET",
    url: "/v1/sessions/:id/proxy/:port/*",
    config,
    exposeHeadRoute: false,
    schema: {
      tags: ["ports"],
      summary:
        "Send a request to a web server inside a session, with any method, or open a WebSocket",
      description: [
        "Request and response are streamed unchanged, without hop-by-hop headers, cookies and the key.",
        "`Content-Security-Policy: sandbox` isolates the response from the daemon's origin.",
        "Pages that need an origin are served by host, at `<port>-<session>.localhost` or below `preview.domain`.",
      ].join(" "),
      params,
      response: {
        ...answerOf(200, "application/octet-stream", "The web server's response"),
        ...errors(LIVING_ERRORS, "PREVIEW_DENIED", "PORT_REFUSED", "PORT_FAILED", "QUOTA_EXCEEDED"),
      },
    },
    handler,
  });
  const hidden = { config, exposeHeadRoute: false, schema: { hide: true }, handler } as const;
  app.route({ method: others, url: "/v1/sessions/:id/proxy/:port/*", ...hidden });
  app.route({ method, url: "/v1/sessions/:id/proxy/:port", ...hidden });
  app.route({ method, url: PREVIEW_HOST_ROUTE, ...hidden });
}

/** Registers all methods that a web server may need. */
export function knowAllMethods(app: App): void {
  const known = new Set(app.supportedMethods);
  for (const name of METHODS)
    if (!REFUSED_METHODS.has(name) && !known.has(name)) app.addHttpMethod(name, { hasBody: true });
}

function serve(context: NativeContext) {
  const { services, shutdown, previews, stallTimeoutMs } = context;

  return async (request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    const { preview, raw } = request;
    if (preview === undefined)
      throw new SandboxError("ROUTE_NOT_FOUND", "the API has nothing here for this method");
    if (preview.target === "") return redirectToSlash(request, reply, preview);
    const head = upgradeHead(raw);
    const isUpgrade = head !== undefined;
    const forwarding: Forwarding = {
      ...preview,
      stallTimeoutMs,
      headers: requestHeaders(raw, {
        preview,
        isUpgrade,
        scheme: previews.scheme,
        isOurs: (authorization) => previews.isOurs(authorization),
      }),
    };
    const gone = new AbortController();
    reply.raw.once("close", () => gone.abort());
    using open = await services.ports.connect(
      preview.visitor,
      preview.sessionId,
      preview.port,
      gone.signal,
    );
    using connection = connectionOf(new PortDuplex(open.connection, { dropsUnwanted: !isUpgrade }));
    gone.signal.addEventListener("abort", connection.cut, { once: true });
    using _end = whenOver(preview, () => {
      connection.cut();
      raw.socket.destroy();
    });
    if (isUpgrade) await serveSocket(reply, preview, connection.duplex, { forwarding, head });
    else await serveRequest(reply, preview, connection.duplex, forwarding);
  };

  async function serveRequest(
    reply: FastifyReply,
    preview: Preview,
    connection: PortDuplex,
    forwarding: Forwarding,
  ): Promise<void> {
    const { raw } = reply.request;
    // A connection to the application is open now, so its body can be accepted.
    if (raw.headers.expect?.toLowerCase() === "100-continue") reply.raw.writeContinue();
    const answer = await forwardRequest(connection, raw, forwarding);
    await passOn(reply, preview, answer);
  }

  async function passOn(
    reply: FastifyReply,
    preview: Preview,
    answer: IncomingMessage,
  ): Promise<void> {
    const { statusCode = 502, statusMessage = "" } = answer;
    beginAnswer(reply, preview, () => {
      reply.raw.writeHead(statusCode, statusMessage, responseHeaders(answer, preview));
      reply.raw.flushHeaders();
    });
    await sendAnswer(answer, reply.raw, stallTimeoutMs).catch((error: unknown) => {
      reply.log.info({ err: failureForLog(error) }, "a preview broke off");
    });
  }

  async function serveSocket(
    reply: FastifyReply,
    preview: Preview,
    connection: PortDuplex,
    { forwarding, head }: { readonly forwarding: Forwarding; readonly head: Buffer },
  ): Promise<void> {
    const { answer, socket, head: first } = await askForSocket(connection, forwarding);
    const client = reply.request.raw.socket;
    if (socket === undefined) {
      reply.raw.shouldKeepAlive = false;
      reply.raw.once("finish", () => client.destroySoon());
      await passOn(reply, preview, answer);
      return;
    }
    reply.hijack();
    reply.raw.statusCode = 101;
    const forget = shutdown.listen(() => client.destroy());
    client.write(switchingHead(responseHeaders(answer, preview)), "latin1");
    client.write(first);
    socket.write(head);
    try {
      await splice({ client, application: socket, stallTimeoutMs });
    } catch (error) {
      reply.log.info({ err: failureForLog(error) }, "a preview's socket broke off");
    } finally {
      forget();
    }
  }

  /** Ends a connection when its link ends. */
  function whenOver({ link }: Preview, end: () => void): Disposable {
    if (link === undefined) return { [Symbol.dispose]: () => undefined };
    const timer = setInterval(() => {
      if (previews.tokens.isOver(link)) end();
    }, previews.lookIntervalMs).unref();
    return { [Symbol.dispose]: () => clearInterval(timer) };
  }
}

/** The application's response head may be unwritable. */
function beginAnswer(reply: FastifyReply, preview: Preview, write: () => void): void {
  try {
    write();
  } catch (error) {
    throw portFailed(preview, error as Error);
  }
  reply.hijack();
}

function connectionOf(duplex: PortDuplex) {
  // Readers get the error; after that it is irrelevant.
  duplex.on("error", () => undefined);
  const cut = (): void => void duplex.destroy();
  return { duplex, cut, [Symbol.dispose]: cut };
}

/** Relative URLs in a page are resolved from the trailing slash. */
function redirectToSlash(request: FastifyRequest, reply: FastifyReply, { prefix }: Preview): void {
  const query = (request.raw.url ?? "").slice(prefix.length);
  reply.header("Location", `${prefix}/${query}`).code(307).send();
}

function switchingHead(headers: readonly string[]): string {
  const lines = [
    `HTTP/1.1 101 ${STATUS_CODES[101] ?? ""}`,
    "Connection: Upgrade",
    "Upgrade: websocket",
  ];
  for (let index = 0; index < headers.length; index += 2)
    lines.push(`${headers[index] ?? ""}: ${headers[index + 1] ?? ""}`);
  return `${lines.join("\r\n")}\r\n\r\n`;
}
