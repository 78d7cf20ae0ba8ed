/** `sandkasten ports`: a session's listening ports, and links to them. */
import type { PortInfo } from "@sandkasten/sdk";
import { type Command, InvalidArgumentError } from "commander";
import type { Cli } from "../cli.ts";
import { findSession } from "../find-by-id.ts";
import { plainJson, plainText } from "../output/plain-text.ts";
import { type Column, printTable } from "../output/table.ts";

interface Options {
  readonly preview?: number;
  readonly expiresIn?: number;
}

export function addPortsCommand(program: Command, cli: Cli): void {
  program
    .command("ports")
    .summary("list a session's listening ports, or create a preview URL")
    .description(
      "Lists the TCP ports on which programs in a session listen. With --preview, prints a URL that opens " +
        "one of them in a browser without the key, until the URL expires or the session ends.",
    )
    .argument("<session>", "id of the session, or an unambiguous prefix")
    .option("--preview <port>", "print a URL that opens this port in a browser", parsePort)
    .option("--expires-in <seconds>", "how long the URL works (default: one hour)", parseSeconds)
    .action(async (id: string, { preview, expiresIn }: Options) => {
      const client = await cli.connect();
      const { signal } = cli.interrupts;
      const session = await findSession(cli, client, id);
      if (preview !== undefined) {
        const url = await session.url(preview, { expiresInSeconds: expiresIn, signal });
        return cli.out.line(cli.wantsJson() ? plainJson({ url }, 2) : plainText(url));
      }
      const ports = await session.ports({ signal });
      if (cli.wantsJson()) return cli.out.line(plainJson(ports, 2));
      await printTable(cli.out, COLUMNS, ports);
    });
}

const COLUMNS: readonly Column<PortInfo>[] = [
  { head: "PORT", value: ({ port }) => String(port) },
  { head: "ADDRESS", value: ({ address }) => address },
  { head: "PID", value: ({ pid }) => String(pid ?? "-") },
  { head: "PROCESS", value: ({ process }) => process ?? "-", elastic: true },
];

export function parsePort(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (port < 1 || port > 65_535) throw new InvalidArgumentError("It must be a port, 1 to 65535.");
  return port;
}

function parseSeconds(text: string): number {
  const seconds = /^\d{1,9}$/.test(text) ? Number(text) : 0;
  if (seconds < 1) throw new InvalidArgumentError("It must be a number of seconds.");
  return seconds;
}
