/** Regular expressions of schemas, matched in time linear to the text. */
import { RE2JS } from "re2js";

/** The length of a pattern, multiplied by its counted repetitions. */
const MAX_EXPANDED = 8192;

/**
 * What Ajv uses instead of `RegExp`.
 *
 * SECURITY: the text comes from a caller or a model. With JavaScript's engine, thirty characters
 * can block the whole process unless the author of the pattern is careful. Guarded by
 * value-check.test.ts.
 */
export const linearPattern = Object.assign(
  (pattern: string): { test(text: string): boolean } => {
    const counts = [...pattern.matchAll(/\{(\d*)(?:,(\d*))?\}/g)].map(([, least, most]) =>
      Math.max(1, Number(most ?? least), Number(least)),
    );
    if (counts.reduce((product, count) => product * count, pattern.length) > MAX_EXPANDED)
      throw new Error(
        `the pattern ${JSON.stringify(pattern.slice(0, 100))} is too large: its length times its counted repetitions may be ${MAX_EXPANDED}`,
      );
    try {
      const expression = RE2JS.compile(RE2JS.translateRegExp(pattern));
      return { test: (text) => expression.test(text) };
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw new Error(
        `the pattern ${JSON.stringify(pattern.slice(0, 100))} cannot be used: ${reason}. Lookarounds and backreferences are not supported`,
        { cause },
      );
    }
  },
  // Only needed for code that Ajv writes to files, which never happens here.
  { code: "" },
);
