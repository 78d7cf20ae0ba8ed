/** Terminals over WebSockets, new ones and those that somebody left. */
import { ptyQuery, SandboxError } from "@sandkasten/protocol";
import type { WebSocket } from "@fastify/websocket";
import type { FastifyRequest } from "fastify";
import type { z } from "zod";
import type { ExecCommand } from "../../ports/channel.ts";
import type { ExecRow } from "../../ports/session-store.ts";
import type { Caller } from "../../sessions/services.ts";
import { answerOf, errors, EXEC_ERRORS } from "../answers.ts";
import { freshShell, loginShell } from "../bodies/exec-request.ts";
import type { App, HttpContext } from "../context.ts";
import { failureForLog } from "../error-answer.ts";
import { CLOSE_CODES } from "../message-socket.ts";
import { ClientGone } from "../response-writer.ts";
import { TerminalSocket } from "../terminal-socket.ts";
import { execInfo } from "./execs.ts";
import { sessionParams } from "./params.ts";

type PtyQuery = z.output<typeof ptyQuery>;
type PtyRequest = FastifyRequest & {
  readonly params: { readonly id: string };
  readonly query: PtyQuery;
};

const DEFAULT_SIZE = { rows: 24, cols: 80 };
/** What programs take a terminal for unless they are told; every browser's and desktop's can do this. */
const TERMINAL_ENV = { TERM: "xterm-256color" };

/** Shown as the command of a terminal that was opened without one. */
const LOGIN_SHELL = "login shell";

export function ptyRoutes(app: App, context: HttpContext): void {
  const { services, shutdown, answers } = context;

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
        "When the socket closes, the command goes on; come back with `exec_id` and, as `cursor`, the number of bytes received.",
        "Close codes: 1000 the command ended, 1001 the daemon stops, 4000 + status for errors.",
      ].join(" "),
      params: sessionParams,
      querystring: ptyQuery,
      response: {
        ...answerOf(101, "application/octet-stream", "The WebSocket is open"),
        ...errors(EXEC_ERRORS, "EXEC_NOT_FOUND"),
      },
    },
    // Before the upgrade there still is a status to say it with.
    preHandler: async ({ caller, params, query }) => {
      await services.sessions.get(caller, params.id);
      if (query.exec_id !== undefined) await services.execs.get(caller, params.id, query.exec_id);
    },
    handler: () => {
      throw new SandboxError("INVALID_REQUEST", "this is a WebSocket; ask for an upgrade");
    },
    wsHandler: (socket, request) => serve(socket, request as PtyRequest),
  });

  /** Never rejects: what goes wrong is said on the socket. */
  async function serve(socket: WebSocket, request: PtyRequest): Promise<void> {
    const { caller, params, query } = request;
    const fail = (error: unknown): void => {
      if (error instanceof ClientGone || terminal.signal.aborted) return;
      const { body, status, hidden } = answers.of(error, request.id);
      if (hidden) request.log.error({ err: failureForLog(error) }, "a terminal failed");
      terminal.fail({ status, code: body.error_code, message: body.message });
    };
    using terminal = new TerminalSocket(socket, { ...context, onInputError: fail });
    const forgetShutdown = shutdown.listen(() =>
      terminal.close(CLOSE_CODES.stopping, "the daemon is stopping"),
    );
    try {
      const exec = await find(caller, params.id, query);
      terminal.tell({ type: "started", exec_id: exec.id });
      const joined = { execs: services.execs, caller, sessionId: params.id, execId: exec.id };
      await terminal.connect(joined, query.cursor ?? 0);
      const ended = await services.execs.wait(caller, params.id, exec.id);
      terminal.tell({ type: "exit", exec: await execInfo(context, caller, ended) });
      terminal.close(CLOSE_CODES.ended, "the command ended");
    } catch (error) {
      fail(error);
    } finally {
      forgetShutdown();
    }
  }

  async function find(caller: Caller, sessionId: string, query: PtyQuery): Promise<ExecRow> {
    const { execs } = services;
    const { rows, cols } = query;
    if (query.exec_id === undefined) {
      return await execs.start(caller, sessionId, {
        command: commandOf(query),
        asked: query.cmd ?? LOGIN_SHELL,
        env: TERMINAL_ENV,
        stdin: "open",
        ...(query.cwd !== undefined && { cwd: query.cwd }),
      });
    }
    const exec = await execs.get(caller, sessionId, query.exec_id);
    if (rows !== undefined && cols !== undefined && exec.status === "running")
      await execs.resize(caller, sessionId, exec.id, { rows, cols });
    return exec;
  }
}

function commandOf({ cmd, shell, rows, cols }: PtyQuery): ExecCommand {
  const pty = { rows: rows ?? DEFAULT_SIZE.rows, cols: cols ?? DEFAULT_SIZE.cols };
  if (shell === undefined)
    return { kind: "process", argv: cmd === undefined ? loginShell() : freshShell(cmd), pty };
  if (cmd === undefined)
    throw new SandboxError(
      "INVALID_REQUEST",
      "with `shell`, give the text to run in that shell as `cmd`; for a login shell leave `shell` out",
    );
  return { kind: "shell", text: cmd, shell, pty };
}
