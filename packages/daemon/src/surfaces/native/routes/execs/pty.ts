/** Terminals over WebSockets: new ones, and detached ones. */
import { ptyQuery, SandboxError } from "@sandkasten/protocol";
import type { WebSocket } from "@fastify/websocket";
import type { FastifyRequest } from "fastify";
import type { z } from "zod";
import type { ExecCommand } from "../../../../ports/channel.ts";
import type { ExecHandle } from "../../../../sessions/services/exec-service.ts";
import { answerOf, errors, EXEC_ERRORS } from "../../openapi/documented-responses.ts";
import { freshShell, loginShell } from "../../bodies/exec-request.ts";
import type { App } from "../../../http/app.ts";
import type { NativeContext } from "../../context.ts";
import { failureForLog } from "../../../../failure-for-log.ts";
import { CLOSE_CODES } from "../../../http/sockets/message-socket.ts";
import { ClientGone } from "../../../http/responses/response-writer.ts";
import { TerminalSocket } from "./terminal-socket.ts";
import { execInfo } from "./execs.ts";
import { sessionParams } from "../params.ts";

type PtyQuery = z.output<typeof ptyQuery>;
type PtyRequest = FastifyRequest & {
  readonly params: { readonly id: string };
  readonly query: PtyQuery;
};

const DEFAULT_SIZE = { rows: 24, cols: 80 };

/** Shown as the command of a terminal that was opened without one. */
const LOGIN_SHELL = "login shell";

export function ptyRoutes(app: App, context: NativeContext): void {
  const { services, shutdown, errorFormat } = context;
  /** The commands that requests want to reattach to. */
  const found = new WeakMap<FastifyRequest, ExecHandle>();

  app.route({
    method: "GET",
    url: "/sessions/:id/pty",
    config: { access: "socket", stream: true },
    schema: {
      tags: ["commands"],
      summary: "A terminal over a WebSocket",
      description: [
        "Binary messages are bytes, both ways. Text messages are JSON: `resize`, `signal` and `eof` to the daemon, `started`, `skipped`, `exit` and `error` from it.",
        "A browser sends the key as the subprotocol `sandkasten.bearer.<base64url of the key>` beside `sandkasten.v1`.",
        "When the socket closes, the command continues; reattach with `exec_id` and, as `cursor`, the number of bytes received.",
        "Close codes: 1000 the command ended, 1001 the daemon is stopping, 4000 + status for errors.",
      ].join(" "),
      params: sessionParams,
      querystring: ptyQuery,
      response: {
        ...answerOf(101, "application/octet-stream", "The WebSocket is open"),
        ...errors(EXEC_ERRORS, "EXEC_NOT_FOUND"),
      },
    },
    // Before the upgrade a status code can still report errors.
    preHandler: async (request) => {
      const { caller, params, query } = request;
      if (query.exec_id === undefined) await services.sessions.get(caller, params.id);
      else found.set(request, await services.execs.get(caller, params.id, query.exec_id));
    },
    handler: () => {
      throw new SandboxError("INVALID_REQUEST", "this is a WebSocket endpoint; request an upgrade");
    },
    wsHandler: (socket, request) => serve(socket, request as PtyRequest),
  });

  /** Never rejects: errors are reported on the socket. */
  async function serve(socket: WebSocket, request: PtyRequest): Promise<void> {
    const { query } = request;
    const fail = (error: unknown): void => {
      if (error instanceof ClientGone || terminal.signal.aborted) return;
      const { body, status, hidden } = errorFormat.of(error, request.id);
      if (hidden) request.log.error({ err: failureForLog(error) }, "a terminal failed");
      terminal.fail({ status, code: body.error_code, message: body.message });
    };
    using terminal = new TerminalSocket(socket, { ...context, onInputError: fail });
    const forgetShutdown = shutdown.listen(() =>
      terminal.close(CLOSE_CODES.stopping, "the daemon is stopping"),
    );
    try {
      const left = found.get(request);
      const exec = left ?? (await start(request, query));
      if (left !== undefined) await fitTo(left, query);
      terminal.sendMessage({ type: "started", exec_id: exec.id });
      await terminal.connect(exec, query.cursor ?? 0);
      const ended = await exec.wait();
      terminal.sendMessage({ type: "exit", exec: await execInfo(exec, ended) });
      terminal.close(CLOSE_CODES.ended, "the command ended");
    } catch (error) {
      fail(error);
    } finally {
      forgetShutdown();
    }
  }

  async function start(request: PtyRequest, query: PtyQuery): Promise<ExecHandle> {
    const { caller, params, trace } = request;
    const options = {
      command: commandOf(query),
      asked: query.cmd ?? LOGIN_SHELL,
      stdin: "open" as const,
      ...(query.cwd !== undefined && { cwd: query.cwd }),
    };
    return await services.execs.start(caller, params.id, options, trace);
  }
}

/** Resizes a detached terminal to that of the new client. */
async function fitTo(exec: ExecHandle, { rows, cols }: PtyQuery): Promise<void> {
  if (rows !== undefined && cols !== undefined && exec.row.status === "running")
    await exec.resize({ rows, cols });
}

function commandOf({ cmd, shell, rows, cols }: PtyQuery): ExecCommand {
  const pty = { rows: rows ?? DEFAULT_SIZE.rows, cols: cols ?? DEFAULT_SIZE.cols };
  if (shell === undefined)
    return { kind: "process", argv: cmd === undefined ? loginShell() : freshShell(cmd), pty };
  if (cmd === undefined)
    throw new SandboxError(
      "INVALID_REQUEST",
      "with `shell`, pass the text to run in that shell as `cmd`; for a login shell omit `shell`",
    );
  return { kind: "shell", text: cmd, shell, pty };
}
