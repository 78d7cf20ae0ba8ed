/** `sandkasten profile`: names for several daemons. */
import { text as readAll } from "node:stream/consumers";
import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { checkUrl } from "../daemon-address.ts";
import { UsageFailure } from "../failure.ts";
import { plainJson, plainText } from "../output/plain-text.ts";
import { type Column, printTable } from "../output/table.ts";
import {
  LOCAL_PROFILE,
  PROFILE_NAME,
  type Profiles,
  profilesFile,
  readProfiles,
  requireProfile,
  writeProfiles,
} from "../profiles.ts";

export function addProfileCommand(program: Command, cli: Cli): void {
  const file = profilesFile(cli.host.environment);
  const profile = program
    .command("profile")
    .summary("name several daemons and choose one")
    .description(
      "Profiles: names for daemons with their addresses and keys, stored in ~/.config/sandkasten/profiles.yaml, " +
        "readable only by this user. --daemon or SANDKASTEN_PROFILE chooses one for a command, `use` for all " +
        "later ones. The profile `local` is the daemon of the local configuration.",
    );
  profile
    .command("add")
    .summary("add or replace a profile")
    .description(
      "Adds a profile, or replaces an existing one. The key is read from stdin if it is piped, " +
        "otherwise from --api-key or SANDKASTEN_API_KEY. Other users of the machine can see a key on " +
        "the command line.",
    )
    .argument(
      "<profile>",
      "name: lower-case letters, digits and inner dots, dashes and underscores",
    )
    .argument("<address>", "address of the daemon, as in https://sandboxes.example.com")
    .action(async (name: string, url: string) => {
      if (!PROFILE_NAME.test(name) || name === LOCAL_PROFILE)
        throw new UsageFailure(
          `A profile cannot have the name "${name}".`,
          "Use lower-case letters, digits and inner dots, dashes and underscores; `local` is reserved.",
        );
      checkUrl(url);
      const apiKey = await givenKey(cli);
      const { byName, ...rest } = await readProfiles(file);
      const entry = { url, ...(apiKey !== undefined && { apiKey }) };
      await writeProfiles(file, { ...rest, byName: new Map([...byName, [name, entry]]) });
      await printName(cli, name);
    });
  profile
    .command("list")
    .alias("ls")
    .summary("list profiles")
    .description("Lists the profiles, without their keys.")
    .action(async () => {
      const rows = rowsOf(await readProfiles(file));
      if (cli.wantsJson()) return cli.out.line(plainJson(rows, 2));
      await printTable(cli.out, COLUMNS, rows);
    });
  profile
    .command("use")
    .summary("choose the daemon for later commands")
    .description(
      "Chooses the daemon for commands that do not name one; `local` returns to the local daemon.",
    )
    .argument("<profile>", "name of the profile, or local")
    .action(async (name: string) => {
      const profiles = await readProfiles(file);
      requireProfile(profiles, name);
      const { byName } = profiles;
      await writeProfiles(file, { byName, ...(name !== LOCAL_PROFILE && { current: name }) });
      await printName(cli, name);
    });
  profile
    .command("remove")
    .alias("rm")
    .summary("remove a profile")
    .description("Removes a profile with its key. The daemon and its key are not affected.")
    .argument("<profile>", "name of the profile")
    .action(async (name: string) => {
      const profiles = await readProfiles(file);
      requireProfile(profiles, name);
      const byName = new Map(profiles.byName);
      byName.delete(name);
      const { current } = profiles;
      await writeProfiles(file, {
        byName,
        ...(current !== undefined && current !== name && { current }),
      });
      await printName(cli, name);
    });
}

async function givenKey(cli: Cli): Promise<string | undefined> {
  const { stdin, stdinKind, environment } = cli.host;
  const piped = stdinKind === "piped" ? (await readAll(stdin)).trim() : "";
  if (piped !== "") return piped;
  return cli.options().apiKey ?? environment.apiKey;
}

async function printName(cli: Cli, name: string): Promise<void> {
  await cli.out.line(cli.wantsJson() ? plainJson({ profile: name }) : plainText(name));
}

interface Row {
  readonly name: string;
  readonly url: string;
  readonly hasKey: boolean;
  readonly current: boolean;
}

function rowsOf({ byName, current }: Profiles): readonly Row[] {
  return [...byName].map(([name, { url, apiKey }]) => ({
    name,
    url,
    hasKey: apiKey !== undefined,
    current: name === current,
  }));
}

const COLUMNS: readonly Column<Row>[] = [
  { head: "PROFILE", value: ({ name }) => name },
  { head: "CURRENT", value: ({ current }) => (current ? "yes" : "") },
  { head: "KEY", value: ({ hasKey }) => (hasKey ? "yes" : "no") },
  { head: "URL", value: ({ url }) => url, elastic: true },
];
