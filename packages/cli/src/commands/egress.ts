/** `sandkasten egress`: a session's outbound connections, including refused ones. */
import type { EgressRecord } from "@sandkasten/sdk";
import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { findSession } from "../find-by-id.ts";
import { plainJson, plainText } from "../output/plain-text.ts";
import { type Column, printTable } from "../output/table.ts";

interface Options {
  readonly follow?: true;
}

/** The daemon's maximum page size. */
const PAGE_SIZE = 1000;

export function addEgressCommand(program: Command, cli: Cli): void {
  program
    .command("egress")
    .summary("list a session's connections to other hosts")
    .description(
      "Lists a session's outbound connections, including refused ones, oldest first. --follow prints " +
        "connections as they end until you interrupt it.",
    )
    .argument("<session>", "id of the session, or an unambiguous prefix")
    .option("-f, --follow", "keep streaming connections as they end")
    .action(async (id: string, { follow }: Options) => {
      const client = await cli.connect();
      const { signal } = cli.interrupts;
      const session = await findSession(cli, client, id);
      if (follow === true) {
        for await (const record of session.followEgress({ signal }))
          await cli.out.line(cli.wantsJson() ? plainJson(record) : plainText(lineOf(record)));
        return;
      }
      const records: EgressRecord[] = [];
      for (let cursor = 0; ;) {
        const page = await session.egress({ cursor, limit: PAGE_SIZE, signal });
        records.push(...page.records);
        if (page.records.length < PAGE_SIZE) break;
        ({ cursor } = page);
      }
      if (cli.wantsJson()) return cli.out.line(plainJson(records, 2));
      await printTable(cli.out, COLUMNS, records);
    });
}

function destination({ name, address, port }: EgressRecord): string {
  const shown = name ?? address ?? "-";
  return port === undefined ? shown : `${shown}:${port}`;
}

function lineOf(record: EgressRecord): string {
  return COLUMNS.map(({ value }) => value(record)).join("\t");
}

const COLUMNS: readonly Column<EgressRecord>[] = [
  { head: "ENDED", value: ({ endedAt }) => endedAt },
  { head: "VERDICT", value: ({ verdict }) => verdict },
  { head: "DESTINATION", value: destination },
  { head: "ADDRESS", value: ({ address }) => address ?? "-" },
  { head: "SENT", value: ({ sentBytes }) => String(sentBytes) },
  { head: "RECEIVED", value: ({ receivedBytes }) => String(receivedBytes) },
  { head: "COUNT", value: ({ count }) => String(count) },
  { head: "REASON", value: ({ reason }) => reason ?? "-", elastic: true },
];
