/**
 * Prints `docs/reference/errors.md`, made from the catalogue:
 *
 *     node packages/protocol/src/generate-errors-page.ts > docs/reference/errors.md
 *
 * A test fails while the page is not what this prints.
 */
import { ERROR_CATALOGUE } from "./errors.ts";

const INTRODUCTION = `# Errors

Made from the catalogue in \`packages/protocol/src/errors.ts\`; change it there.

Every failed request answers \`{"error_code", "message", "details"?, "request_id"}\` with the status of its code. The SDK throws a \`SandboxError\` with the same \`code\`. A command that exits with another status than 0 is a result and no error.

\`retryable\` says that the same request may succeed later, unchanged.
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
