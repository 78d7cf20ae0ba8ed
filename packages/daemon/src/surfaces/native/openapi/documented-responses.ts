/** The responses that routes declare, for the OpenAPI document. */
import { ERROR_CATALOGUE, errorBodySchema } from "@sandkasten/protocol";
import type { ErrorCode } from "@sandkasten/protocol";
import { z } from "zod";

/** Errors that every route with a key may return. */
const EVERYWHERE: readonly ErrorCode[] = [
  "INVALID_REQUEST",
  "UNAUTHORIZED",
  "PERMISSION_DENIED",
  // For read-only keys.
  "FORBIDDEN",
  // For a body, or the head of a request.
  "PAYLOAD_TOO_LARGE",
  "INTERNAL_ERROR",
  // Also when the daemon stops.
  "SANDBOX_UNREACHABLE",
  "BACKEND_BUSY",
  // With a database on another machine.
  "DATABASE_UNREACHABLE",
];
const LIVING_SESSION: readonly ErrorCode[] = [
  "SESSION_NOT_FOUND",
  "CONFLICT",
  "SESSION_EXPIRED",
  "ENGINE_UNREACHABLE",
];
export const FILE_ERRORS: readonly ErrorCode[] = [
  ...LIVING_SESSION,
  "FILE_NOT_FOUND",
  "NOT_A_FILE",
  "NOT_A_DIRECTORY",
  // For the sandbox's own limits: processes, memory, open files, watched directories. Writing to a
  // workspace that does not exist creates it, and a key may have a limited number.
  "QUOTA_EXCEEDED",
  // File systems differ in what they support, and a directory can only be moved within one.
  "UNSUPPORTED",
  "SANDBOX_IO_ERROR",
];
export const WRITE_ERRORS: readonly ErrorCode[] = [
  ...FILE_ERRORS,
  "FILE_EXISTS",
  "PAYLOAD_TOO_LARGE",
  "STORAGE_FULL",
];
export const EXEC_ERRORS: readonly ErrorCode[] = [
  ...LIVING_SESSION,
  "NO_SHELL",
  "PAYLOAD_TOO_LARGE",
  "QUOTA_EXCEEDED",
  "STORAGE_FULL",
];
export const KNOWN_EXEC_ERRORS: readonly ErrorCode[] = ["SESSION_NOT_FOUND", "EXEC_NOT_FOUND"];
export const LIVING_ERRORS = LIVING_SESSION;

/**
 * The errors of a route by status. Untyped, so handlers are only checked against their successful
 * responses.
 */
export function errors(...codes: readonly (ErrorCode | readonly ErrorCode[])[]): object {
  return byStatus([...EVERYWHERE, ...codes.flat()]);
}

/** The same without the errors that all routes share. */
export function onlyErrors(...codes: readonly ErrorCode[]): object {
  return byStatus(codes);
}

function byStatus(codes: readonly ErrorCode[]): object {
  const statuses = new Map<number, Set<ErrorCode>>();
  for (const code of codes) {
    const { status } = ERROR_CATALOGUE[code];
    statuses.set(status, (statuses.get(status) ?? new Set()).add(code));
  }
  return Object.fromEntries(
    [...statuses].map(([status, found]) => [
      status,
      {
        description: [...found]
          .map((code) => `\`${code}\`: ${ERROR_CATALOGUE[code].meaning}`)
          .join("\n\n"),
        content: { "application/json": { schema: errorBodySchema } },
      },
    ]),
  );
}

const bytes = z.string().meta({ format: "binary", contentMediaType: "application/octet-stream" });

/** A response that its handler writes itself. Untyped: it is not the handler's return value. */
export function answerOf(
  status: number,
  type: string,
  description: string,
  schema: z.ZodType = type === "application/octet-stream" ? bytes : z.string(),
): object {
  return { [status]: { description, content: { [type]: { schema } } } };
}

export const idempotencyHeaders = z.looseObject({
  "idempotency-key": z
    .string()
    .regex(/^[\x21-\x7e]{1,255}$/, "must be 1 to 255 visible ASCII characters")
    .optional()
    .meta({
      description:
        "Makes the request idempotent: a repeated request with the same key has no second effect",
    }),
});
