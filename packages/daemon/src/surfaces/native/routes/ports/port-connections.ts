/** Connections to ports over WebSockets, for protocols other than HTTP. */
import { connectQuery, portInPath, SandboxError } from "@sandkasten/protocol";
import type { WebSocket } from "@fastify/websocket";
import type { FastifyRequest } from "fastify";
import type { z } from "zod";
import { answerOf, errors, LIVING_ERRORS } from "../../openapi/documented-responses.ts";
import type { App } from "../../../http/app.ts";
import type { NativeContext } from "../../context.ts";
import { failureForLog } from "../../../../failure-for-log.ts";
import { CLOSE_CODES } from "../../../http/sockets/message-socket.ts";
import { PortSocket } from "./port-socket.ts";
import { ClientGone } from "../../../http/responses/response-writer.ts";
import { sessionParams } from "../params.ts";

const params = sessionParams.extend({ port: portInPath });

type ConnectRequest = FastifyRequest & {
  readonly params: z.output<typeof params>;
  readonly query: z.output<typeof connectQuery>;
};

export function portConnectionRoutes(app: App, context: NativeContext): void {
  const { services, shutdown, errorFormat } = context;

  app.route({
    method: "GET",
    url: "/sessions/:id/ports/:port/connect",
    config: { access: "socket", stream: true },
    schema: {
      tags: ["ports"],
      summary: "A TCP connection to a port inside a session, over a WebSocket",
      description: [
        "Binary messages are bytes, both ways. Text messages are JSON: `connected` from the daemon comes first, `eof` says that a side sends no more, `error` says what went wrong.",
        "With `window`, each side acknowledges consumed bytes with `ack` and `bytes`, and sends at most the window beyond that.",
        "A browser sends the key as for a terminal. Close codes: 1000 both sides have ended, 1001 the daemon is stopping, 4000 + status for errors.",
      ].join(" "),
      params,
      querystring: connectQuery,
      response: {
        ...answerOf(101, "application/octet-stream", "The WebSocket is open"),
        ...errors(LIVING_ERRORS, "PORT_REFUSED", "QUOTA_EXCEEDED"),
      },
    },
    // Before the upgrade a status code can still report errors.
    preHandler: async ({ caller, params: { id } }) =>
      void (await services.sessions.get(caller, id)),
    handler: () => {
      throw new SandboxError("INVALID_REQUEST", "this is a WebSocket endpoint; request an upgrade");
    },
    wsHandler: (socket, request) => serve(socket, request as unknown as ConnectRequest),
  });

  /** Never rejects: errors are reported on the socket. */
  async function serve(socket: WebSocket, request: ConnectRequest): Promise<void> {
    const { caller, query } = request;
    using joined = new PortSocket(socket, { ...context, windowBytes: query.window });
    const forgetShutdown = shutdown.listen(() =>
      joined.close(CLOSE_CODES.stopping, "the daemon is stopping"),
    );
    try {
      const { id, port } = request.params;
      using open = await services.ports.connect(caller, id, port, joined.signal);
      await joined.join(open.connection);
      joined.close(CLOSE_CODES.ended, "both sides have ended");
    } catch (error) {
      if (error instanceof ClientGone || joined.signal.aborted) return;
      const { body, status, hidden } = errorFormat.of(error, request.id);
      if (hidden) request.log.error({ err: failureForLog(error) }, "a connection failed");
      joined.fail({ status, code: body.error_code, message: body.message });
    } finally {
      forgetShutdown();
    }
  }
}
