/**
 * Prints `docs/reference/config.md`, generated from the key declarations:
 *
 *     node packages/daemon/src/config/generate-config-page.ts > docs/reference/config.md
 *
 * A test fails if the page is out of date.
 */
import { z } from "zod";
import { configKeys, innerSchema } from "./keys.ts";
import type { ConfigKey } from "./keys.ts";
import { LEGACY_VARIABLES } from "./legacy-variables.ts";
import { configSchema } from "./schema.ts";

const INTRODUCTION = `# Configuration

Generated from the declarations in \`packages/daemon/src/config/schema.ts\`.

Values come from these sources. Later sources take precedence:

1. the default,
2. \`sandkasten.yaml\`: the file that \`--config\` or \`SANDKASTEN_CONFIG\` names and that must exist, else the one in the current directory, else, for root, \`/etc/sandkasten/sandkasten.yaml\`. A file that is found in the current directory must belong to the user (or root) and must not be world-writable,
3. the environment: \`SANDKASTEN_\` and the key in capitals, its parts joined by \`_\`,
4. flags: \`--set defaults.mem_limit_mb=1024\` for any key, \`--listen\` and \`--data-dir\` for theirs.

The daemon refuses unknown names and suggests the nearest known one, and refuses invalid values and says what is allowed. It reports all errors at once, with line and column for those of the file.

In variables and flags, lists are separated by commas, times can be durations (\`90s\`, \`30m\`, \`1h30m\`) and sizes can have a unit (\`8MiB\`, \`2GiB\`). An empty variable counts as not set. A relative \`data_dir\` is relative to the file that sets it, or to the current directory; \`~/\` is the home directory.

\`\`\`yaml
listen: "127.0.0.1:8080"
api_key: "sk-sandbox-your-own-secret"
default_image: "sandbox-runtime:base"
allowed_images:
  - "sandbox-runtime:base"
  - "sandbox-runtime:python"
  - "sandbox-runtime:node"
db_path: "./sandkasten.db"
session_ttl_seconds: 1800
defaults:
  cpu_limit: 1.0
  mem_limit_mb: 512
  pids_limit: 256
  max_exec_timeout_ms: 3600000
  network_mode: "none"
  readonly_rootfs: true
pool:
  - image: "sandbox-runtime:python"
    size: 2
api_keys:
  - name: "ci"
    key: "sk-sandbox-another-secret"
    max_sessions: 20
\`\`\`

A file with keys should have mode 600; the daemon warns when others can read it.

## Keys
`;

const OLDER = `## Older variables

The daemon also reads these variables if the variable with \`SANDKASTEN_\` is not set. They take precedence over the file. Other variables with these prefixes belong to other programs and are ignored.
`;

/** The whole page. */
export function configPage(): string {
  const keys = configKeys().map((key) => [
    `\`${key.name}\``,
    `\`${key.variable}\``,
    defaultOf(key),
    [key.description, ...allowed(key)].join(". "),
  ]);
  const older = LEGACY_VARIABLES.map(({ names, key, note }) => [
    names.map((name) => `\`${name}\``).join(" or "),
    `\`${key}\``,
    note,
  ]);
  return [
    INTRODUCTION,
    table(["key", "variable", "default", "meaning"], keys),
    OLDER,
    table(["variable", "key", "form"], older),
  ].join("\n");
}

function defaultOf({ path, unset }: ConfigKey): string {
  if (unset !== undefined) return unset;
  let value: unknown = configSchema.parse({});
  for (const name of path) value = (value as Record<string, unknown>)[name];
  if (Array.isArray(value) && value.length === 0) return "none";
  return `\`${String(value)}\``;
}

/** The allowed values, if a few words can describe them. */
function allowed({ schema }: ConfigKey): string[] {
  const inner = innerSchema(schema);
  if (inner instanceof z.ZodEnum) {
    return [`One of ${inner.options.map((option) => `\`${option}\``).join(", ")}`];
  }
  if (inner instanceof z.ZodNumber) return [`${inner.minValue} to ${inner.maxValue}`];
  return [];
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
  const rule = `|${head.map(() => "---").join("|")}|`;
  return `${[line(head), rule, ...rows.map(line)].join("\n")}\n`;
}

if (import.meta.main) process.stdout.write(configPage());
