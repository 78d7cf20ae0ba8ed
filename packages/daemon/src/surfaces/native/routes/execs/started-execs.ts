/** Operations on started commands: read by cursor, wait, signal and write to stdin. */
import {
  cancelledBodySchema,
  execResultSchema,
  okSchema,
  outputPageSchema,
  readOutputQuery,
  resizeExecSchema,
  SandboxError,
  signalExecSchema,
  signalledBodySchema,
  waitExecSchema,
  writeStdinSchema,
} from "@sandkasten/protocol";
import { errors, KNOWN_EXEC_ERRORS, LIVING_ERRORS } from "../../openapi/documented-responses.ts";
import { execResultBody, matchBody } from "../../bodies/exec-body.ts";
import { outputPageBody } from "../../bodies/output-page.ts";
import { collectWithin } from "./collect-within.ts";
import { signalNumber } from "../../bodies/signal-number.ts";
import type { App } from "../../../http/app.ts";
import type { NativeContext } from "../../context.ts";
import { waitForExec } from "./wait-for-exec.ts";
import { execInfo } from "./execs.ts";
import { execParams } from "../params.ts";

const tags = ["commands"];
const DEFAULT_PAGE_BYTES = 1_048_576;

export function startedExecRoutes(app: App, context: NativeContext): void {
  outputRoutes(app, context);
  controlRoutes(app, context);
}

/** Reading a command's output, and waiting for its end. */
function outputRoutes(app: App, context: NativeContext): void {
  const { services, shutdown } = context;
  const { execs } = services;

  app.get(
    "/sessions/:id/execs/:eid/output",
    {
      schema: {
        tags,
        summary: "Read a command's output from a cursor, optionally waiting for more",
        params: execParams,
        querystring: readOutputQuery,
        response: { 200: outputPageSchema, ...errors(KNOWN_EXEC_ERRORS, "QUOTA_EXCEEDED") },
      },
    },
    async (request, reply) => {
      const { caller, params, query } = request;
      const cursor = query.cursor ?? 0;
      const gone = new AbortController();
      reply.raw.once("close", () => gone.abort());
      const exec = await execs.get(caller, params.id, params.eid);
      const found = await shutdown.orStop(
        exec.read({
          offset: cursor,
          maxBytes: query.max_bytes ?? DEFAULT_PAGE_BYTES,
          ...(query.wait_ms !== undefined && { waitMs: query.wait_ms, signal: gone.signal }),
          ...(query.stream !== undefined && { stream: query.stream }),
        }),
        `the command ${params.eid}`,
      );
      const pageBytes = found.page.chunks.reduce((sum, { bytes }) => sum + bytes.byteLength, 0);
      context.memory.holdFor(request, reply).add(2 * pageBytes);
      const info = await execInfo(exec, found.exec);
      return await outputPageBody(cursor, found, info, query.raw === true);
    },
  );

  app.post(
    "/sessions/:id/execs/:eid/wait",
    {
      schema: {
        tags,
        summary: "Wait until a command ends, its output matches, or a timeout expires",
        description:
          "Check `status`: for a command that still runs, the response has the output so far.",
        params: execParams,
        body: waitExecSchema,
        response: { 200: execResultSchema, ...errors(KNOWN_EXEC_ERRORS) },
      },
    },
    async (request, reply) => {
      const { caller, params, body } = request;
      const exec = await execs.get(caller, params.id, params.eid);
      const { row, matched } = await waitForExec(context, reply, exec, {
        waitMs: body.wait_ms ?? body.timeout_ms,
        until: body.until,
      });
      const held = context.memory.holdFor(request, reply);
      const collected = await collectWithin(held, exec, body.output_budget_bytes);
      const info = await execInfo(exec, row);
      const result = await execResultBody(info, collected, body.raw_output === true);
      return { ...result, ...matchBody(matched) };
    },
  );
}

/** Signals, cancellation, input and the size of the terminal. */
function controlRoutes(app: App, { services: { execs } }: NativeContext): void {
  app.post(
    "/sessions/:id/execs/:eid/signal",
    {
      schema: {
        tags,
        summary: "Send a signal to a command",
        params: execParams,
        body: signalExecSchema,
        response: { 200: signalledBodySchema, ...errors(LIVING_ERRORS, "EXEC_NOT_FOUND") },
      },
    },
    async ({ caller, params, body }) => {
      const number = signalNumber(body.signal ?? "TERM");
      const options = body.tree === undefined ? {} : { tree: body.tree };
      const exec = await execs.get(caller, params.id, params.eid);
      const delivered = await exec.signal(number, options);
      return { ok: true as const, delivered };
    },
  );

  app.post(
    "/sessions/:id/execs/:eid/cancel",
    {
      schema: {
        tags,
        summary: "Cancel a command",
        description:
          "Ends the command as a timeout does: an interrupt, and half a second later a kill of every process that the command started. Its shell and earlier background jobs continue. The call returns at once; the command's `end_reason` becomes `cancelled`. `cancelled` is false if the command had already ended.",
        params: execParams,
        response: { 200: cancelledBodySchema, ...errors(LIVING_ERRORS, "EXEC_NOT_FOUND") },
      },
    },
    async ({ caller, params }) => {
      const exec = await execs.get(caller, params.id, params.eid);
      return { ok: true as const, cancelled: await exec.cancel() };
    },
  );

  app.post(
    "/sessions/:id/execs/:eid/stdin",
    {
      config: { body: "content" },
      schema: {
        tags,
        summary: "Write to a command's stdin, and optionally close it",
        params: execParams,
        body: writeStdinSchema,
        response: {
          200: okSchema,
          ...errors(LIVING_ERRORS, "EXEC_NOT_FOUND", "PAYLOAD_TOO_LARGE", "QUOTA_EXCEEDED"),
        },
      },
    },
    async ({ caller, params, body }) => {
      const { text, content_base64: base64, close } = body;
      if (text && base64)
        throw new SandboxError("INVALID_REQUEST", "pass `text` or `content_base64`, not both");
      if (text === undefined && base64 === undefined && close !== true)
        throw new SandboxError("INVALID_REQUEST", "pass `text`, `content_base64` or `close`: true");
      const bytes = text ? Buffer.from(text) : Buffer.from(base64 ?? "", "base64");
      const exec = await execs.get(caller, params.id, params.eid);
      if (bytes.length > 0) await exec.writeStdin(bytes);
      if (close === true) await exec.closeStdin();
      return { ok: true as const };
    },
  );

  app.post(
    "/sessions/:id/execs/:eid/resize",
    {
      schema: {
        tags,
        summary: "Resize a command's terminal",
        params: execParams,
        body: resizeExecSchema,
        response: { 200: okSchema, ...errors(LIVING_ERRORS, "EXEC_NOT_FOUND") },
      },
    },
    async ({ caller, params, body }) => {
      await (await execs.get(caller, params.id, params.eid)).resize(body);
      return { ok: true as const };
    },
  );
}
