/** `sandkasten key`: creates, lists and revokes keys. */
import type { KeyInfo } from "@sandkasten/sdk";
import { type Command, InvalidArgumentError, Option } from "commander";
import type { Cli } from "../cli.ts";
import { matchPrefix } from "../find-by-id.ts";
import { plainJson, plainText } from "../output/plain-text.ts";
import { type Column, printTable } from "../output/table.ts";
import { formatMoment } from "../output/units.ts";

interface Options {
  readonly owner?: string;
  readonly scope?: "admin" | "use" | "read";
  readonly expiresIn?: number;
  readonly maxSessions?: number;
}

export function addKeyCommand(program: Command, cli: Cli): void {
  const key = program
    .command("key")
    .summary("create, list and revoke keys")
    .description("Keys of the daemon. Only a key with the scope admin can manage them.");
  key
    .command("create")
    .summary("create a key")
    .description(
      "Creates a key and prints it. The key is not shown again; the daemon stores only a digest.",
    )
    .argument("<name>", "display name")
    .option("--owner <name>", "owner of the key's sessions (default: the key's name)")
    .addOption(
      new Option(
        "--scope <scope>",
        "admin: also the events of all owners, shared images and keys; read: no changes",
      ).choices(["admin", "use", "read"]),
    )
    .option("--expires-in <seconds>", "expire the key after this time", wholeNumber)
    .option("--max-sessions <count>", "maximum number of active sessions", wholeNumber)
    .action(async (name: string, options: Options) => {
      const client = await cli.connect();
      const created = await client.keys.create(name, {
        owner: options.owner,
        scope: options.scope,
        expiresInSeconds: options.expiresIn,
        maxSessions: options.maxSessions,
        signal: cli.interrupts.signal,
      });
      if (cli.wantsJson()) return cli.out.line(plainJson(created, 2));
      await cli.err.line(plainText(`${created.id} (${created.scope}), owner ${created.owner}`));
      await cli.out.line(plainText(created.key));
    });
  key
    .command("list")
    .alias("ls")
    .summary("list keys")
    .description("Lists all keys, including configured and revoked ones.")
    .action(async () => {
      const client = await cli.connect();
      const keys = await client.keys.list({ signal: cli.interrupts.signal });
      if (cli.wantsJson()) return cli.out.line(plainJson(keys, 2));
      await printTable(cli.out, columns(Date.now()), keys);
    });
  key
    .command("revoke")
    .summary("revoke keys")
    .description("Revokes keys. Their open connections and preview links end.")
    .argument("<key...>", "ids of the keys as `key list` shows them, or unambiguous prefixes")
    .action(async (ids: readonly string[]) => {
      const client = await cli.connect();
      const { signal } = cli.interrupts;
      const known = (await client.keys.list({ signal })).map(({ id }) => id);
      const revoked = ids.map((id) => matchPrefix("key", id, known) ?? id);
      for (const id of revoked) {
        await client.keys.revoke(id, { signal });
        if (!cli.wantsJson()) await cli.out.line(plainText(id));
      }
      if (cli.wantsJson()) await cli.out.line(plainJson(revoked, 2));
    });
}

function wholeNumber(text: string): number {
  if (!/^[1-9]\d{0,14}$/.test(text)) throw new InvalidArgumentError("must be a whole number");
  return Number(text);
}

function columns(nowMs: number): readonly Column<KeyInfo>[] {
  const moment = (time: string | undefined): string =>
    time === undefined ? "-" : formatMoment(time, nowMs);
  return [
    { head: "KEY", value: ({ id }) => id },
    { head: "NAME", value: ({ name }) => name },
    { head: "OWNER", value: ({ owner }) => owner, elastic: true },
    { head: "SCOPE", value: ({ scope }) => scope },
    { head: "STATUS", value: (key) => statusOf(key, nowMs) },
    {
      head: "USED",
      value: ({ lastUsedAt }) => lastUsedAt ?? "-",
      shown: ({ lastUsedAt }) => moment(lastUsedAt),
    },
    {
      head: "EXPIRES",
      value: ({ expiresAt }) => expiresAt ?? "-",
      shown: ({ expiresAt }) => moment(expiresAt),
    },
  ];
}

function statusOf({ source, revokedAt, expiresAt }: KeyInfo, nowMs: number): string {
  if (source === "config") return "configured";
  if (revokedAt !== undefined) return "revoked";
  return expiresAt !== undefined && Date.parse(expiresAt) <= nowMs ? "expired" : "valid";
}
