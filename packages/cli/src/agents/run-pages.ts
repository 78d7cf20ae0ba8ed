/** The options for listing runs, and pagination. */
import { type Command, Option } from "commander";
import { parseNumber } from "../session-options.ts";
import { addDirOption, type DirOption } from "./agent-service.ts";

export interface RunsOptions<Status> extends DirOption {
  readonly status?: Status;
  readonly limit: number;
}

const USUAL_LIMIT = 50;
const PAGE = 100;

export function addRunsOptions(command: Command, statuses: readonly string[]): Command {
  command
    .addOption(new Option("--status <status>", "only runs with this status").choices(statuses))
    .option(
      "-n, --limit <number>",
      `maximum number of runs (default: ${USUAL_LIMIT})`,
      parseNumber,
      USUAL_LIMIT,
    );
  return addDirOption(command);
}

interface Page<Run> {
  readonly runs: readonly Run[];
  readonly next_cursor?: string | undefined;
}

/** The newest runs, up to a limit. */
export async function readRuns<Run>(
  limit: number,
  read: (page: {
    readonly limit: number;
    readonly cursor: string | undefined;
  }) => Promise<Page<Run>>,
): Promise<readonly Run[]> {
  const all: Run[] = [];
  let cursor: string | undefined;
  while (all.length < limit) {
    const page = await read({ limit: Math.min(PAGE, limit - all.length), cursor });
    all.push(...page.runs);
    cursor = page.next_cursor;
    if (cursor === undefined) break;
  }
  return all;
}
