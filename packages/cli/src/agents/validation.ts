/** Shows which files are valid, and the errors of the others. */
import type { Cli } from "../cli.ts";
import { CliFailure } from "../failure.ts";
import { plainJson, plainText } from "../output/plain-text.ts";

export interface CheckedFile {
  readonly file: string;
  /** Lines of `file:line:column: message`. */
  readonly error?: string | undefined;
}

/** Fails with exit code 1 if one is invalid. Errors go to stdout: they are the requested result. */
export async function reportFiles(
  cli: Cli,
  files: readonly CheckedFile[],
  kind: string,
): Promise<void> {
  const wrong = files.filter(({ error }) => error !== undefined);
  if (cli.wantsJson()) {
    const shown = files.map(({ file, error }) => ({ file, ...(error !== undefined && { error }) }));
    await cli.out.line(plainJson({ valid: wrong.length === 0, files: shown }, 2));
  } else {
    const { style } = cli.out;
    for (const { file, error } of files)
      if (error === undefined) await cli.out.line(`${style.green("✓")} ${plainText(file)}`);
      else for (const line of error.split("\n")) await cli.out.line(style.red(plainText(line)));
  }
  if (wrong.length > 0) {
    cli.exitWith(1);
    return;
  }
  if (files.length === 0)
    throw new CliFailure(`There are no ${kind} here.`, {
      hint: "Name the directory that has them with --dir.",
      code: "NOTHING_TO_VALIDATE",
    });
}
