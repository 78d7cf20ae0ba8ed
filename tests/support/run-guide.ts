/** Runs the shell commands of a guide as a reader would: in one shell, from the first to the last. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { CodeBlock } from "./markdown.ts";

export interface BlockRun {
  readonly block: CodeBlock;
  readonly output: string;
}

export interface GuideRun {
  /** One for each started block. */
  readonly runs: readonly BlockRun[];
  /** The exit code of the shell, which ends at the first command that fails. */
  readonly exitCode: number | null;
}

const ROOT = join(import.meta.dirname, "../..");
const MARK = "--- block ";

/**
 * The directory replaces a clone: it contains links to the project's files. What a guide starts in
 * the background ends with it.
 */
export async function runGuide(blocks: readonly CodeBlock[], directory: string): Promise<GuideRun> {
  await mkdir(directory, { recursive: true });
  for (const name of ["packages", "examples", "scripts", "node_modules"])
    await symlink(join(ROOT, name), join(directory, name));
  const script = ["set -euo pipefail", "trap 'kill $(jobs -p) 2> /dev/null || true' EXIT"];
  for (const [index, { text }] of blocks.entries()) {
    const file = join(directory, `.block-${index}`);
    await writeFile(file, text);
    script.push(`echo '${MARK}'`, `source ${file}`);
  }
  const output = join(directory, ".output");
  await writeFile(join(directory, ".script"), script.join("\n"));
  const shell = spawn("bash", ["-c", `exec >> ${output} 2>&1; source .script`], {
    cwd: directory,
    stdio: "ignore",
    env: {
      PATH: [dirname(process.execPath), join(ROOT, "packages/cli/bin"), process.env["PATH"]].join(
        ":",
      ),
      HOME: process.env["HOME"],
      // The project's own examples must not be changed by runs.
      SANDKASTEN_AGENTS_DATA_DIR: join(directory, ".agents"),
    },
  });
  const [exitCode] = (await once(shell, "exit")) as [number | null];
  const [, ...parts] = (await readFile(output, "utf8")).split(`${MARK}\n`);
  const runs = parts.map((part, index) => ({ block: blocks[index]!, output: part }));
  return { runs, exitCode };
}
