/** The configuration of a local daemon. Loaded on demand: most commands need little of it. */
import type { Config } from "@sandkasten/daemon/config";
import type { Command } from "commander";
import type { Cli } from "./cli.ts";
import { UsageFailure } from "./failure.ts";
import { CONFIG_HINT, hinting } from "./report-failure.ts";
import { collect } from "./session-options.ts";

export interface ConfigOptions {
  readonly listen?: string;
  readonly set?: readonly string[];
}

export function addConfigOptions(command: Command): Command {
  return command
    .option("--listen <host:port>", "address to listen on; port 0 chooses a free port")
    .option(
      "--set <key=value>",
      "any configuration key, as in defaults.mem_limit_mb=1024; can be repeated",
      collect,
    );
}

export async function loadLocalConfig(cli: Cli, options: ConfigOptions = {}): Promise<Config> {
  const { loadConfig } = await import("@sandkasten/daemon/config");
  const { environment, workingDirectory } = cli.host;
  const { config: file } = cli.options();
  return await hinting({ INVALID_REQUEST: CONFIG_HINT }, () =>
    loadConfig({
      env: environment.variables,
      flags: flags(cli, options),
      set: settings(options),
      cwd: workingDirectory,
      home: environment.home,
      isRoot: environment.isRoot,
      ...(file !== undefined && { file }),
    }),
  );
}

function flags(cli: Cli, options: ConfigOptions): Readonly<Record<string, string>> {
  const { dataDir } = cli.options();
  return {
    ...(options.listen !== undefined && { listen: options.listen }),
    ...(dataDir !== undefined && { "data-dir": dataDir }),
  };
}

function settings(options: ConfigOptions): Readonly<Record<string, string>> {
  const given = (options.set ?? []).map((text) => {
    const at = text.indexOf("=");
    if (at < 1)
      throw new UsageFailure(
        `"${text}" is not valid for --set.`,
        "Write it as in --set session_ttl_seconds=600; `sandkasten config` shows all keys.",
      );
    return [text.slice(0, at), text.slice(at + 1)] as const;
  });
  return Object.fromEntries(given);
}

/** Where a local client reaches a daemon with this configuration. */
export function localUrl({ listen }: Pick<Config, "listen">): string {
  const everywhere = listen.host === "0.0.0.0" || listen.host === "::";
  const host = everywhere ? "127.0.0.1" : listen.host;
  return `http://${host.includes(":") ? `[${host}]` : host}:${listen.port}`;
}
