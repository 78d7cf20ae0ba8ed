/**
 * Prints `docs/reference/errors.md`, generated from the catalogue:
 *
 *     node packages/protocol/src/generate-errors-page.ts > docs/reference/errors.md
 *
 * A test fails if the page is out of date.
 */
import { ERROR_CATALOGUE } from "./errors.ts";

const INTRODUCTION = `# Errors

Generated from the catalogue in \`packages/protocol/src/errors.ts\`.

A failed request returns \`{"error_code", "message", "details"?, "request_id"}\` with the status of its code. The SDK throws a \`SandboxError\` with the same \`code\`. A non-zero exit code is a result, not an API error.

\`retryable\` means that the same request can succeed later.
`;

/** The whole page. */
export function errorsPage(): string {
  const rows = Object.entries(ERROR_CATALOGUE).map(
    ([code, { status, retryable, meaning }]) =>
      `| \`${code}\` | ${status} | ${retryable ? "yes" : "no"} | ${meaning} |`,
  );
  const table = ["| code | status | retryable | meaning |", "|---|---|---|---|", ...rows];
  return `${INTRODUCTION}\n${table.join("\n")}\n`;
}

if (import.meta.main) process.stdout.write(errorsPage());
