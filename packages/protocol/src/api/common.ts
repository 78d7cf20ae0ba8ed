/** What the schemas of the HTTP API have in common. */
import { z } from "zod";

/** A NUL cannot be part of a path, an argument or a variable. */
export const plainText = (maxLength: number) =>
  z
    .string()
    .max(maxLength)
    .refine((text) => !text.includes("\0"), "must not contain a NUL");

export const filePath = plainText(65_536).min(1).meta({
  description: "Path inside the sandbox; relative ones start at /workspace",
  example: "/workspace/main.py",
});

export const variables = z.record(
  z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, "must be the name of a variable"),
  plainText(131_072),
);

/** Name of a backend; the daemon knows which there are. */
export const backendName = z.string().min(1).max(64);

export const count = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);

/** Numbers in a query string are text. */
export const countInQuery = z
  .string()
  .regex(/^\d{1,16}$/, "must be a whole number")
  .transform(Number)
  .pipe(count);

export const flagInQuery = z
  .enum(["true", "false", "1", "0"])
  .transform((text) => text === "true" || text === "1");

export const timestamp = z.iso.datetime().meta({ example: "2026-01-31T12:00:00.000Z" });

/** An id as it may stand in a URL. Whether anything has it is another question. */
export const idInPath = z.string().regex(/^[A-Za-z0-9_-]{1,128}$/, "is no id");

/** What every failed request answers. */
export const errorBodySchema = z
  .object({
    error_code: z.string(),
    message: z.string(),
    details: z.record(z.string(), z.unknown()).optional(),
    request_id: z.string(),
  })
  .meta({ id: "Error" });
export type ErrorBody = z.output<typeof errorBodySchema>;

export const okSchema = z.object({ ok: z.literal(true) });
