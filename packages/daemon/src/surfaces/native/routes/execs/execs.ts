/** Runs, starts, lists and shows commands. */
import {
  execInfoSchema,
  execPageSchema,
  execRequestSchema,
  execResultSchema,
  listExecsQuery,
} from "@sandkasten/protocol";
import type { ExecInfoBody } from "@sandkasten/protocol";
import type { ExecRow } from "../../../../ports/session-store.ts";
import type { ExecHandle } from "../../../../sessions/services/exec-service.ts";
import {
  errors,
  EXEC_ERRORS,
  idempotencyHeaders,
  KNOWN_EXEC_ERRORS,
} from "../../openapi/documented-responses.ts";
import { collectWithin } from "./collect-within.ts";
import { endError, execInfoBody, execResultBody, matchBody } from "../../bodies/exec-body.ts";
import { startOptions } from "../../bodies/exec-request.ts";
import { cancelWhenGone } from "./cancel-when-gone.ts";
import type { App } from "../../../http/app.ts";
import type { NativeContext } from "../../context.ts";
import { waitForExec } from "./wait-for-exec.ts";
import { execParams, sessionParams } from "../params.ts";

const tags = ["commands"];

/** Looks up the shell's directory only for commands that have none. */
export async function execInfo(exec: ExecHandle, row: ExecRow): Promise<ExecInfoBody> {
  return execInfoBody(row, row.cwd ?? (await exec.shellCwd()));
}

export function execRoutes(app: App, context: NativeContext): void {
  const { services, outputBudgetBytes } = context;
  const { execs } = services;

  app.post(
    "/sessions/:id/exec",
    {
      config: { body: "content" },
      schema: {
        tags,
        summary: "Run a command and wait for its end",
        description:
          "A non-zero exit code is a result, not an API error. With `wait_ms` or `until`, the response can arrive while the command still runs: check `status`, and continue with `exec_id` and `next_cursor`. When the client disconnects, the command continues unless `on_disconnect` is `cancel`.",
        headers: idempotencyHeaders,
        params: sessionParams,
        body: execRequestSchema,
        response: { 200: execResultSchema, ...errors(EXEC_ERRORS, "COMMAND_TIMEOUT") },
      },
    },
    async (request, reply) => {
      const { body, caller, params } = request;
      const options = startOptions(body, {
        outputBudgetBytes,
        idempotencyKey: request.headers["idempotency-key"],
      });
      // Check the pattern before starting anything.
      if (body.until !== undefined) execs.checkPattern(body.until.pattern);
      const exec = await execs.start(caller, params.id, options, request.trace);
      if (body.on_disconnect === "cancel") cancelWhenGone(context, reply, exec);
      const { row, matched } = await waitForExec(context, reply, exec, {
        waitMs: body.wait_ms,
        until: body.until,
      });
      const collected = await collectWithin(context.memory.holdFor(request, reply), exec);
      const info = await execInfo(exec, row);
      const result = {
        ...(await execResultBody(info, collected, body.raw_output === true)),
        ...matchBody(matched),
      };
      const error = endError(row, result);
      if (error !== undefined) throw error;
      return result;
    },
  );

  app.post(
    "/sessions/:id/execs",
    {
      config: { body: "content" },
      schema: {
        tags,
        summary: "Start a command without waiting for it",
        headers: idempotencyHeaders,
        params: sessionParams,
        body: execRequestSchema,
        response: { 202: execInfoSchema, ...errors(EXEC_ERRORS) },
      },
    },
    async (request, reply) => {
      const options = startOptions(request.body, {
        outputBudgetBytes,
        idempotencyKey: request.headers["idempotency-key"],
      });
      const exec = await execs.start(request.caller, request.params.id, options, request.trace);
      reply.code(202);
      return await execInfo(exec, exec.row);
    },
  );

  app.get(
    "/sessions/:id/execs",
    {
      schema: {
        tags,
        summary: "List a session's commands, newest first",
        params: sessionParams,
        querystring: listExecsQuery,
        response: { 200: execPageSchema, ...errors("SESSION_NOT_FOUND") },
      },
    },
    async ({ caller, params, query }) => {
      const page = await execs.list(caller, params.id, {
        ...(query.limit !== undefined && { limit: query.limit }),
        ...(query.cursor !== undefined && { cursor: query.cursor }),
      });
      return {
        execs: page.rows.map((row) => execInfoBody(row, page.shellCwd)),
        ...(page.nextCursor !== undefined && { next_cursor: page.nextCursor }),
      };
    },
  );

  app.get(
    "/sessions/:id/execs/:eid",
    {
      schema: {
        tags,
        summary: "Get a command",
        params: execParams,
        response: { 200: execInfoSchema, ...errors(KNOWN_EXEC_ERRORS) },
      },
    },
    async ({ caller, params }) => {
      const exec = await execs.get(caller, params.id, params.eid);
      return await execInfo(exec, exec.row);
    },
  );
}
