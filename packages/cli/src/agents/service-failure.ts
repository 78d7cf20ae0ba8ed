/** Hints for requests that the agent service refuses, and for failed runs. */
import { CliFailure } from "../failure.ts";

/** The service that refused. */
interface Refusing {
  readonly url: string;
  readonly isOwn: boolean;
  readonly dir: string;
}

const RESTART = "Start it with `sandkasten agents serve`, or use a directory with --dir.";

/** Client errors are recognized by name: importing the class would load the client with every command. */
export function serviceFailure(error: unknown, service: Refusing): unknown {
  if (!(error instanceof Error) || error.name !== "AgentServiceError") return error;
  const refused = error as Error & { code: string; requestId?: string; details?: unknown };
  const { reason } = Object(refused.details) as { readonly reason?: unknown };
  const { requestId } = refused;
  // A reason is more specific than its error code.
  const code = typeof reason === "string" ? reason : refused.code;
  const message =
    code === "CONNECTION_FAILED" ? `No agent service answers at ${service.url}.` : error.message;
  return new CliFailure(message, {
    hint: hintFor(code, requestId, service),
    code,
    cause: error,
  });
}

function hintFor(code: string, requestId: string | undefined, service: Refusing): string {
  const files = service.isOwn ? `the files in ${service.dir}` : `the service at ${service.url}`;
  switch (code) {
    case "CONNECTION_FAILED":
    case "UNEXPECTED_ANSWER":
      return service.isOwn ? "Try again." : RESTART;
    case "MODEL_NOT_CONFIGURED":
      return service.isOwn
        ? ""
        : `The agent service at ${service.url} reads its variables when it starts.`;
    case "UNAUTHORIZED":
      return "Pass the key of the agent service with SANDKASTEN_AGENTS_API_KEY.";
    case "AGENT_NOT_FOUND":
      return `\`sandkasten agent list\` shows the agents of ${files}; --dir DIR uses those of another directory.`;
    case "AGENT_INVALID":
      return "`sandkasten agent validate` shows every problem and where it is.";
    case "INVALID_INPUT":
      return "`sandkasten agent show` with the agent's name shows the input that it takes.";
    case "WORKFLOW_NOT_FOUND":
      return `\`sandkasten workflow list\` shows the workflows of ${files}; --dir DIR uses those of another directory.`;
    case "RUN_NOT_FOUND":
      return "`sandkasten agent runs` and `sandkasten workflow runs` list the runs.";
    case "CONFLICT":
      return "`sandkasten workflow inspect RUN` shows what state the run is in.";
    case "TOO_MANY_RUNS":
      return "Wait for a run to end, or cancel one; `sandkasten agent runs` shows them.";
    case "INTERNAL_ERROR":
      return `The log of the service has the cause under the request id ${requestId ?? "of the answer"}.`;
    default:
      return "Correct the value; `--help` after the command lists what it accepts.";
  }
}
