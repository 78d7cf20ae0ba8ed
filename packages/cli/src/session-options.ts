/** The session options of `run`, `open` and `shell`. */
import type { CreateSessionOptions, WorkspaceMount } from "@sandkasten/sdk";
import { type Command, InvalidArgumentError, Option } from "commander";
import type { Cli } from "./cli.ts";
import { UsageFailure } from "./failure.ts";
import { parseDurationMs, parseMebibytes } from "./output/units.ts";

export interface SessionOptions {
  readonly backend?: string;
  readonly image?: string;
  readonly ttl?: number;
  readonly workspace?: string;
  readonly mount?: readonly string[];
  readonly memory?: number;
  readonly cpus?: number;
  readonly pids?: number;
  readonly disk?: number;
  readonly profile?: "restricted" | "root";
  readonly isolation?: "standard" | "strong";
  readonly network?: true | string;
  readonly allow?: readonly string[];
  readonly metadata?: readonly string[];
}

export function addSessionOptions(command: Command): Command {
  return command
    .option("--backend <name>", "backend that runs the sandbox (default: the daemon's)")
    .option("--image <name>", "image of the sandbox (default: the daemon's)")
    .option(
      "--workspace <id>",
      "persistent workspace to mount at /workspace; created if it does not exist",
    )
    .option(
      "--mount <id:path[:ro]>",
      "additional workspace at an absolute path, read-only with `:ro`; can be repeated",
      collect,
    )
    .option("--ttl <duration>", "expire the session after this time without use", parseDurationMs)
    .option("--memory <size>", "memory, as in 512m or 2g", parseMebibytes)
    .option("--cpus <number>", "number of CPUs, as in 0.5 or 2", parseNumber)
    .option("--pids <number>", "maximum number of processes", parseNumber)
    .option("--disk <size>", "writable disk, as in 512m or 2g", parseMebibytes)
    .addOption(
      new Option(
        "--profile <name>",
        "`restricted`: code runs as an ordinary user on a read-only system. `root`: code runs as root on a writable system",
      ).choices(["restricted", "root"]),
    )
    .addOption(
      new Option(
        "--isolation <level>",
        "`standard`: code runs on the host's kernel. `strong`: code runs on a separate kernel (gVisor)",
      ).choices(["standard", "strong"]),
    )
    .option(
      "--network [mode]",
      "ask for the administrator's default network, or `full` for every public address",
      parseNetwork,
    )
    .option(
      "--allow <rule>",
      "host, network or preset that programs can connect to, as in `*.example.com:443`; can be repeated",
      collect,
    )
    .option("--metadata <name=value>", "label to find the session by; can be repeated", collect);
}

/** Variables for the sandbox: `NAME=value`, or `NAME` for the local value. */
export function addEnvironmentOption(command: Command): Command {
  return command.option(
    "-e, --env <name=value>",
    "environment variable; NAME alone passes the current value; can be repeated",
    collect,
  );
}

export function collect(value: string, earlier: readonly string[] = []): readonly string[] {
  return [...earlier, value];
}

export function parseNumber(text: string): number {
  const value = Number(text);
  if (text.trim() === "" || !Number.isFinite(value) || value < 0)
    throw new InvalidArgumentError("Write a number.");
  return value;
}

export function sessionRequest(options: SessionOptions): CreateSessionOptions {
  const limits = {
    ...(options.memory !== undefined && { memoryMb: options.memory }),
    ...(options.cpus !== undefined && { cpuMillicores: Math.round(options.cpus * 1000) }),
    ...(options.pids !== undefined && { pids: options.pids }),
    ...(options.disk !== undefined && { diskMb: options.disk }),
  };
  return {
    ...(options.backend !== undefined && { backend: options.backend }),
    ...(options.image !== undefined && { image: options.image }),
    ...(options.ttl !== undefined && { ttlSeconds: Math.ceil(options.ttl / 1000) }),
    ...(options.workspace !== undefined && { workspaceId: options.workspace }),
    ...(options.mount !== undefined && { workspaces: options.mount.map(parseMount) }),
    ...(Object.keys(limits).length > 0 && { limits }),
    ...(options.profile !== undefined && { profile: options.profile }),
    ...(options.isolation !== undefined && { isolation: options.isolation }),
    ...networkRequest(options),
    ...(options.metadata !== undefined && { metadata: pairs("--metadata", options.metadata) }),
  };
}

function parseNetwork(text: string): string {
  if (text !== "none" && text !== "full")
    throw new InvalidArgumentError("Write none or full, or use --allow.");
  return text;
}

function networkRequest({ network, allow }: SessionOptions): Pick<CreateSessionOptions, "network"> {
  if (allow !== undefined) {
    if (network !== undefined)
      throw new UsageFailure("--network and --allow cannot be combined.", "Use one of them.");
    return { network: { allow } };
  }
  if (network === undefined) return {};
  return { network: network === true ? true : network === "full" ? "full" : "none" };
}

function parseMount(text: string): WorkspaceMount {
  const [, id, path, readOnly] = /^([^:]+):(\/[^:]*)(:ro)?$/u.exec(text) ?? [];
  if (id === undefined || path === undefined)
    throw new UsageFailure(
      `--mount ${text} is not valid.`,
      "Write ID:/PATH, or ID:/PATH:ro for read-only.",
    );
  return { id, path, ...(readOnly !== undefined && { readOnly: true }) };
}

export function variables(
  cli: Cli,
  given: readonly string[] | undefined,
): Readonly<Record<string, string>> | undefined {
  if (given === undefined) return undefined;
  return pairs("--env", given, (name) => cli.host.environment.variables[name] ?? "");
}

/** `name=value` pairs of a repeatable option. */
export function pairs(
  option: string,
  given: readonly string[],
  missing?: (name: string) => string,
): Readonly<Record<string, string>> {
  return Object.fromEntries(
    given.map((text) => {
      const at = text.indexOf("=");
      if (at > 0) return [text.slice(0, at), text.slice(at + 1)];
      if (at === 0 || missing === undefined)
        throw new UsageFailure(
          `"${text}" is not valid for ${option}.`,
          `Write it as in ${option} NAME=value.`,
        );
      return [text, missing(text)];
    }),
  );
}
