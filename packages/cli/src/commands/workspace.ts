/** `sandkasten workspace`: directories that outlive sessions. */
import type { WorkspaceInfo } from "@sandkasten/sdk";
import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { plainJson, plainText } from "../output/plain-text.ts";
import { waiting } from "../output/waiting.ts";
import { type Column, printTable } from "../output/table.ts";
import { formatMoment } from "../output/units.ts";

export function addWorkspaceCommand(program: Command, cli: Cli): void {
  const workspace = program
    .command("workspace")
    .summary("create, list and remove persistent workspaces")
    .description("Persistent workspaces: directories that outlive sessions.");
  workspace
    .command("ls")
    .summary("list workspaces")
    .description("Lists the persistent workspaces and the active sessions that use them.")
    .action(async () => {
      const client = await cli.connect();
      const workspaces = await client.workspaces.list({ signal: cli.interrupts.signal });
      if (cli.wantsJson()) return cli.out.line(plainJson(workspaces, 2));
      await printTable(cli.out, columns(Date.now()), workspaces);
    });
  workspace
    .command("create")
    .summary("create a workspace")
    .description(
      "Creates an empty workspace, or does nothing if it exists. Sessions get it at /workspace with " +
        "--workspace; a session that names a missing workspace creates it.",
    )
    .argument("<name>", "id: 2 to 64 lower-case letters, digits and inner dashes")
    .action(async (id: string) => {
      const client = await cli.connect();
      const made = await waiting(cli, "Creating the workspace", () =>
        client.workspaces.create(id, { signal: cli.interrupts.signal }),
      );
      await cli.out.line(cli.wantsJson() ? plainJson(made, 2) : plainText(made.id));
    });
  workspace
    .command("rm")
    .summary("remove workspaces")
    .description("Deletes workspaces with all their files. Fails while a session uses one.")
    .argument("<workspace...>", "ids of the workspaces")
    .action(async (ids: readonly string[]) => {
      const client = await cli.connect();
      for (const id of ids) {
        await client.workspaces.delete(id, { signal: cli.interrupts.signal });
        if (!cli.wantsJson()) await cli.out.line(plainText(id));
      }
      if (cli.wantsJson()) await cli.out.line(plainJson(ids, 2));
    });
}

function columns(nowMs: number): readonly Column<WorkspaceInfo>[] {
  return [
    { head: "WORKSPACE", value: ({ id }) => id },
    {
      head: "CREATED",
      value: ({ createdAt }) => createdAt,
      shown: ({ createdAt }) => formatMoment(createdAt, nowMs),
    },
    {
      head: "USED",
      value: ({ lastUsedAt }) => lastUsedAt,
      shown: ({ lastUsedAt }) => formatMoment(lastUsedAt, nowMs),
    },
    { head: "SESSIONS", value: ({ sessions }) => sessions.join(","), elastic: true },
  ];
}
