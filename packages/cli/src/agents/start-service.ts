/** Starts the agent service inside this process. */
import type { RunningAgentService, StartOptions } from "@sandkasten/agents";
import { CliFailure } from "../failure.ts";

/** Loads the service here only: it is large, and most commands do without. */
export async function startService(options: StartOptions): Promise<RunningAgentService> {
  const { startAgentService } = await import("@sandkasten/agents");
  try {
    return await startAgentService(options);
  } catch (cause) {
    throw startFailure(cause);
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
        hint: "Another agent service may run already. --listen, or --agents-listen of `start`, chooses another address.",
        code: code ?? "CLI_FAILED",
        cause,
      },
    );
  // Paths on this machine are reported as for every command.
  if (syscall !== undefined) return cause;
  return new CliFailure(cause.message, {
    hint: "Correct the option, variable or file that is named; `sandkasten agents serve --help` lists the options.",
    code: "AGENTS_NOT_STARTED",
    cause,
  });
}
