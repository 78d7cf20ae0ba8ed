/** Starts the agent service inside this process. */
import type { RunningAgentService, StartOptions } from "@sandkasten/agents";
import { CliFailure } from "../failure.ts";

export async function startService(options: StartOptions): Promise<RunningAgentService> {
  const start = await loadService();
  try {
    return await start(options);
  } catch (cause) {
    throw startFailure(cause);
  }
}

/** Loaded on demand: it is large, and most commands do not need it. The daemon's image does not contain it. */
async function loadService(): Promise<(options: StartOptions) => Promise<RunningAgentService>> {
  try {
    return (await import("@sandkasten/agents")).startAgentService;
  } catch (cause) {
    const { code } = Object(cause) as NodeJS.ErrnoException;
    if (code !== "ERR_MODULE_NOT_FOUND") throw cause;
    throw new CliFailure("The agent service is not installed here.", {
      hint: "Name a service with SANDKASTEN_AGENTS_URL, or run this in a clone of the project.",
      code: "NOT_INSTALLED",
      cause,
    });
  }
}

function startFailure(cause: unknown): unknown {
  if (!(cause instanceof Error)) return cause;
  const { code, syscall, address, port } = cause as NodeJS.ErrnoException & {
    readonly address?: string;
    readonly port?: number;
  };
  if (syscall === "listen" || syscall === "bind" || syscall === "getaddrinfo")
    return new CliFailure(
      code === "EADDRINUSE"
        ? `The address ${address ?? ""}:${port ?? ""} is in use.`
        : `The agent service cannot listen there: ${cause.message}.`,
      {
        hint: "Another agent service may already be running. Choose another address with --listen, or with --agents-listen of `start`.",
        code: code ?? "CLI_FAILED",
        cause,
      },
    );
  // Local paths are reported as for every command.
  if (syscall !== undefined) return cause;
  return new CliFailure(cause.message, {
    hint: "Correct the named option, variable or file; `sandkasten agents serve --help` lists the options.",
    code: "AGENTS_NOT_STARTED",
    cause,
  });
}
