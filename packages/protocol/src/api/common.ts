/** Shared parts of the HTTP API's schemas. */
import { z } from "zod";

/** Text that can be encoded as UTF-8: half a surrogate pair would silently become another character. */
export const unicodeText = z
  .string()
  .refine((text) => text.isWellFormed(), "must be Unicode text; send other bytes as base64");

/** A NUL byte cannot be part of a path, an argument or a variable. */
export const plainText = (maxLength: number) =>
  unicodeText.max(maxLength).refine((text) => !text.includes("\0"), "must not contain a NUL byte");

export const filePath = plainText(65_536).min(1).meta({
  description: "Path inside the sandbox. Relative paths start at /workspace",
  example: "/workspace/main.py",
});

/** Accepts both base64 alphabets, so it can be used unescaped in a query. */
export const rawFilePath = z
  .string()
  .max(87_384)
  .regex(/^[A-Za-z0-9+/_-]+={0,2}$/, "must be base64, in a query with `-` and `_` or escaped")
  .meta({ description: "The path's bytes as base64, for a path that is not UTF-8" });

/** The time to create a sandbox grows with the square of their number. */
const MAX_VARIABLES = 1024;

export const variables = z
  .record(
    z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, "must be a valid variable name"),
    plainText(131_072),
  )
  .refine(
    (all) => Object.keys(all).length <= MAX_VARIABLES,
    `must have at most ${MAX_VARIABLES} variables`,
  );

/** Name of a backend; the daemon checks whether it exists. */
export const backendName = z.string().min(1).max(64);

export const count = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);

/** Numbers in a query string are text, but documented as numbers. */
export const numberInQuery = (minimum: number, maximum: number) => {
  const expected = `must be an integer from ${minimum} to ${maximum}`;
  return z
    .string()
    .regex(/^\d{1,16}$/, expected)
    .transform(Number)
    .pipe(z.number().int(expected).min(minimum, expected).max(maximum, expected))
    .meta({ type: "integer", pattern: undefined, minimum, maximum });
};

export const countInQuery = numberInQuery(0, Number.MAX_SAFE_INTEGER);

/** 0 means the default, as clients with zero values send it. */
export const sizeInQuery = (maximum: number) =>
  numberInQuery(0, maximum)
    .transform((size) => (size === 0 ? undefined : size))
    .meta({
      type: "integer",
      pattern: undefined,
      minimum: 0,
      maximum,
      description: "0 or absent means the default",
    });
export const pageSizeInQuery = sizeInQuery(1000);

export const flagInQuery = z
  .enum(["true", "false", "1", "0"])
  .transform((text) => text === "true" || text === "1");

export const timestamp = z.iso.datetime().meta({ example: "2026-01-31T12:00:00.000Z" });

/** An id in a URL. It need not exist. */
export const idInPath = z.string().regex(/^[A-Za-z0-9_-]{1,128}$/, "is not a valid id");

/** The body of every failed request. */
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
