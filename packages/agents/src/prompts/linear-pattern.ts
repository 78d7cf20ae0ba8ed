/** Regular expressions of schemas, searched in time linear in the text. */
import { RE2JS } from "re2js";

/** Length of a pattern times what its counted repetitions multiply it by. */
const MAX_EXPANDED = 8192;

/**
 * What Ajv uses instead of `RegExp`.
 *
 * SECURITY: the text is a caller's or a model's. With the engine of JavaScript, thirty characters are
 * enough to stop the whole process, unless the author of the pattern is careful. Guarded by
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
  // Only for code that Ajv writes to files, which is never done here.
  { code: "" },
);
