/** Writes a configuration file that contains every key with its meaning and default. */
import type { ConfigKey } from "@sandkasten/daemon/config";

const HEADING = `# Configuration of the Sandkasten daemon.
# Keys that are commented out show their defaults. Variables overrule this file
# (SANDKASTEN_LISTEN for listen), and so do flags (sandkasten daemon --set listen=…).
`;

const WIDTH = 100;

/** @param chosen - Values by key name; these are not commented out. */
export function configTemplate(
  keys: readonly ConfigKey[],
  chosen: ReadonlyMap<string, unknown>,
): string {
  const lines = [HEADING];
  let group = "";
  for (const key of keys) {
    const parents = key.path.slice(0, -1).join(".");
    if (parents !== group && parents !== "") {
      // A group without values would be empty, which is not a valid mapping.
      const live = keys.some(({ name }) => name.startsWith(`${parents}.`) && chosen.has(name));
      lines.push(`${live ? "" : "# "}${parents}:`);
    }
    group = parents;
    lines.push(...keyLines(key, chosen), "");
  }
  return `${lines.join("\n").trimEnd()}\n`;
}

function keyLines(key: ConfigKey, chosen: ReadonlyMap<string, unknown>): string[] {
  const indent = "  ".repeat(key.path.length - 1);
  const name = key.path.at(-1) ?? "";
  const about = `${key.description}.${key.unset === undefined ? "" : ` When absent: ${key.unset}.`}`;
  const comment = wrapped(about, WIDTH - indent.length - 2).map((line) => `${indent}# ${line}`);
  if (chosen.has(key.name))
    return [...comment, `${indent}${name}: ${inline(chosen.get(key.name))}`];
  const standard = key.schema.safeParse(undefined);
  const value = standard.success && standard.data !== undefined ? inline(standard.data) : "";
  // Inside a commented-out group, the comment sign precedes the indentation.
  return [...comment, `# ${indent}${name}: ${value}`.trimEnd()];
}

/** JSON is valid YAML. */
function inline(value: unknown): string {
  return JSON.stringify(value);
}

function wrapped(text: string, width: number): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    if (line !== "" && line.length + 1 + word.length > width) {
      lines.push(line);
      line = "";
    }
    line += line === "" ? word : ` ${word}`;
  }
  return [...lines, line];
}
