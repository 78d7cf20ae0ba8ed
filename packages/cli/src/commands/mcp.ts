/** `sandkasten mcp`: the sandbox tools for clients of the Model Context Protocol. */
import { type Command, Option } from "commander";
import type { HttpServerOptions, McpSessionOptions } from "@sandkasten/mcp";
import type { Cli } from "../cli.ts";
import { findDaemon } from "../daemon-address.ts";
import { CliFailure, UsageFailure } from "../failure.ts";
import { plainJson } from "../output/plain-text.ts";
import { interrupted } from "./daemon.ts";

interface Options {
  readonly http?: boolean;
  readonly listen: string;
  readonly mode: "code" | "compute";
  readonly image?: string;
  readonly leaseSeconds: string;
  readonly allowedHost?: readonly string[];
}

const DEFAULT_LISTEN = "127.0.0.1:8588";

export function addMcpCommand(program: Command, cli: Cli): void {
  program
    .command("mcp")
    .summary("serve the sandbox tools over the Model Context Protocol")
    .description(
      "Serves the tools over the Model Context Protocol: over stdin and stdout to the client that starts " +
        "this command, or with --http at /mcp to many clients, which send the daemon's key as " +
        "`Authorization: Bearer KEY`. Each client has its own sandboxes. They are destroyed when the " +
        "client disconnects, and expire if this process is killed. Files of open sandboxes are resources. " +
        "Failures are reported on stderr.",
    )
    .option("--http", "serve over HTTP instead of stdin and stdout")
    .option(
      "--listen <host:port>",
      "address for --http; port 0 chooses a free port",
      DEFAULT_LISTEN,
    )
    .option("--allowed-host <name...>", "additional names allowed in the Host header with --http")
    .addOption(
      new Option(
        "--mode <mode>",
        "`code` keeps one sandbox, `compute` creates one for each program",
      )
        .choices(["code", "compute"])
        .default("code"),
    )
    .option("--image <image>", "image of the sandboxes, such as `python` (default: the daemon's)")
    .option(
      "--lease-seconds <seconds>",
      "how long sandboxes live after the server was killed",
      "60",
    )
    .action((options: Options) => serve(cli, options));
}

async function serve(cli: Cli, options: Options): Promise<void> {
  const daemon = await findDaemon(cli);
  const { client, settings, policy } = await sessionParts(cli, options);
  const session: McpSessionOptions = {
    client,
    settings,
    policy,
    leaseSeconds: leaseOf(options.leaseSeconds),
    onFailure: (message, error) => void cli.err.line(`${message}: ${String(error)}`),
  };
  const { serveHttp, serveStdioSession, startMcpTelemetry } = await import("@sandkasten/mcp");
  const telemetry = await startMcpTelemetry(cli.host.environment.variables, (reason) =>
    cli.err.line(reason),
  );
  try {
    if (options.http !== true) {
      const { stdin, stdout } = cli.host;
      const { signal } = cli.interrupts;
      await serveStdioSession({ ...session, stdin, stdout, signal });
      return;
    }
    const { apiKey } = daemon;
    if (apiKey === undefined)
      throw new CliFailure("The server needs a key that its clients must send.", {
        hint: "Set SANDKASTEN_API_KEY, or name a key with --api-key.",
        code: "KEY_MISSING",
      });
    const { allowedHost: allowedHosts } = options;
    await using server = await listen(
      { ...session, ...addressOf(options.listen), apiKey, allowedHosts },
      serveHttp,
    );
    if (cli.wantsJson()) await cli.out.line(plainJson({ type: "listening", url: server.url }));
    else await cli.out.line(`The MCP server listens on ${server.url}`);
    await interrupted(cli);
  } finally {
    await telemetry?.stop();
  }
}

async function sessionParts(cli: Cli, { mode, image }: Options) {
  const { parseSandboxSettings, policyFromEnvironment } = await import("@sandkasten/tools");
  const settings = parseSandboxSettings({ mode, ...(image !== undefined && { image }) });
  const policy = policyFromEnvironment(cli.host.environment.variables);
  return { client: await cli.connect(), settings, policy };
}

async function listen<Server>(
  options: HttpServerOptions,
  start: (options: HttpServerOptions) => Promise<Server>,
): Promise<Server> {
  try {
    return await start(options);
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code !== "EADDRINUSE" && code !== "EACCES" && code !== "EADDRNOTAVAIL") throw cause;
    throw new CliFailure(`The server cannot listen on ${options.host}:${options.port} (${code}).`, {
      hint: "Choose another address with --listen.",
      code,
      cause,
    });
  }
}

function addressOf(text: string): { readonly host: string; readonly port: number } {
  const match = /^(?:\[(?<v6>[^\]]+)\]|(?<name>[^:[\]]+)):(?<port>\d{1,5})$/.exec(text);
  const { v6, name = "", port = "" } = match?.groups ?? {};
  if (match === null || Number(port) > 65_535)
    throw new UsageFailure(`"${text}" is not an address.`, `Write it as in ${DEFAULT_LISTEN}.`);
  return { host: v6 ?? name, port: Number(port) };
}

function leaseOf(text: string): number {
  const seconds = Number(text);
  if (Number.isInteger(seconds) && seconds >= 4 && seconds <= 3600) return seconds;
  throw new UsageFailure(`"${text}" is not a lease.`, "Use 4 to 3600 seconds.");
}
