/** `sandkasten ls`: lists sessions. */
import type { SandboxClient, SessionInfo, SessionStatus } from "@sandkasten/sdk";
import { type Command, Option } from "commander";
import type { Cli } from "../cli.ts";
import { plainJson } from "../output/plain-text.ts";
import type { Style } from "../output/style.ts";
import { type Column, printTable } from "../output/table.ts";
import { formatMoment } from "../output/units.ts";
import { collect, pairs } from "../session-options.ts";

const LIVING = ["running", "paused", "creating", "destroying"] as const;
const ENDED = ["destroyed", "expired", "crashed", "failed"] as const;

interface Options {
  readonly all?: boolean;
  readonly status?: SessionStatus;
  readonly key?: string;
  readonly metadata?: readonly string[];
}

export function addLsCommand(program: Command, cli: Cli): void {
  program
    .command("ls")
    .summary("list sessions")
    .description("Lists the sessions that have not ended, newest first.")
    .option("-a, --all", "include ended sessions")
    .addOption(
      new Option("--status <status>", "only sessions with this status").choices([
        ...LIVING,
        ...ENDED,
      ]),
    )
    .option("--key <key>", "only the session with this key")
    .option("--metadata <name=value>", "only sessions with this label; can be repeated", collect)
    .action(async (options: Options) => {
      const sessions = await find(await cli.connect(), options, cli.interrupts.signal);
      if (cli.wantsJson()) return cli.out.line(plainJson(sessions, 2));
      await printTable(cli.out, columns(cli.out.style, Date.now()), sessions);
    });
}

/** The API filters by one status at a time; requesting the active ones avoids reading all others. */
export async function find(
  client: SandboxClient,
  options: Options,
  signal: AbortSignal,
): Promise<readonly SessionInfo[]> {
  const filter = {
    ...(options.key !== undefined && { key: options.key }),
    ...(options.metadata !== undefined && { metadata: pairs("--metadata", options.metadata) }),
    signal,
  };
  const read = async (status?: SessionStatus): Promise<SessionInfo[]> =>
    await Array.fromAsync(client.sessions({ ...filter, ...(status !== undefined && { status }) }));
  if (options.status !== undefined) return await read(options.status);
  if (options.all === true) return await read();
  const found = await Promise.all(LIVING.map(read));
  // A session may change its status between two requests and appear in both.
  const unique = new Map(found.flat().map((session) => [session.id, session]));
  return [...unique.values()].sort((a, b) => b.createdAt.localeCompare(a.createdAt));
}

function columns(style: Style, nowMs: number): readonly Column<SessionInfo>[] {
  const paintStatus = (text: string, { status }: SessionInfo): string => {
    if (status === "running") return style.green(text);
    if (status === "crashed" || status === "failed") return style.red(text);
    return status === "destroyed" || status === "expired" ? style.dim(text) : style.yellow(text);
  };
  return [
    { head: "SESSION", value: ({ id }) => id },
    { head: "STATUS", value: ({ status }) => status, paint: paintStatus },
    { head: "IMAGE", value: ({ image }) => image, elastic: true },
    {
      head: "CREATED",
      value: ({ createdAt }) => createdAt,
      shown: ({ createdAt }) => formatMoment(createdAt, nowMs),
    },
    {
      head: "EXPIRES",
      value: ({ endedAt, expiresAt }) => endedAt ?? expiresAt,
      shown: ({ endedAt, expiresAt }) => formatMoment(endedAt ?? expiresAt, nowMs),
    },
    { head: "WORKSPACE", value: ({ workspaceId }) => workspaceId ?? "" },
    { head: "KEY", value: ({ key }) => key ?? "" },
  ];
}
