/** The input of a run: a task as text, and structured input as JSON. */
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { text } from "node:stream/consumers";
import type { Cli } from "../cli.ts";
import { UsageFailure } from "../failure.ts";
import { requireReadable } from "../local-failure.ts";

export const INPUT_MEANING = "structured input as JSON; @FILE reads it from a file, - from stdin";

/** `-` reads the piped input. */
export async function readTask(cli: Cli, given: string | undefined): Promise<string | undefined> {
  return given === "-" ? await text(cli.host.stdin) : given;
}

export async function readInput(cli: Cli, given: string | undefined): Promise<unknown> {
  if (given === undefined) return undefined;
  const json = await readJsonText(cli, given);
  try {
    return JSON.parse(json) as unknown;
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new UsageFailure(
      `The value of --input is not JSON: ${reason}`,
      `Write it as in --input '{"name": "value"}', or --input @file.json.`,
    );
  }
}

async function readJsonText(cli: Cli, given: string): Promise<string> {
  if (given === "-") return await text(cli.host.stdin);
  if (!given.startsWith("@")) return given;
  const name = given.slice(1);
  const path = resolve(cli.host.workingDirectory, name);
  await requireReadable(name, path);
  return await readFile(path, "utf8");
}
