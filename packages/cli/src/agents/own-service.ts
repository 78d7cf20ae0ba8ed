/** An agent service inside this process, for the duration of one command. */
import { randomBytes } from "node:crypto";
import { access, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Cli } from "../cli.ts";
import { type DaemonAddress, findDaemon } from "../daemon-address.ts";
import { CliFailure } from "../failure.ts";
import { requireDirectory } from "../local-failure.ts";
import { startService } from "./start-service.ts";

/**
 * `run`: runs something. `runs`: shows or decides about existing runs. `files`: only reads files,
 * so no data directory is created.
 */
export type Purpose = "run" | "runs" | "files";

export interface OwnService extends AsyncDisposable {
  readonly url: string;
  readonly apiKey: string;
  readonly dir: string;
  readonly daemon: DaemonAddress | undefined;
}

export async function startOwnService(
  cli: Cli,
  given: string,
  purpose: Purpose,
): Promise<OwnService> {
  const { workingDirectory, environment } = cli.host;
  const dir = resolve(workingDirectory, given);
  await requireDirectory(given, dir);
  if (purpose === "runs") await requireRuns(cli, given, dir);
  await using stack = new AsyncDisposableStack();
  const data = purpose === "files" ? await temporaryDirectory(stack) : undefined;
  const daemon = purpose === "files" ? undefined : await findDaemon(cli);
  // SECURITY: other users of this machine can also reach loopback. A key that only this process
  // knows prevents them from running agents with the user's model key (guarded by
  // agent-commands.test.ts).
  const apiKey = randomBytes(32).toString("base64url");
  const { url } = stack.use(
    await startService({
      dir,
      listen: "127.0.0.1:0",
      apiKey,
      isTransient: true,
      dataDir: data,
      ...(daemon !== undefined && { daemonUrl: daemon.url, daemonApiKey: daemon.apiKey }),
      env: environment.variables,
    }),
  );
  const started = stack.move();
  return { url, apiKey, dir, daemon, [Symbol.asyncDispose]: () => started.disposeAsync() };
}

/** If nothing ever ran here, the user most likely means another directory. */
async function requireRuns(cli: Cli, given: string, dir: string): Promise<void> {
  const { SANDKASTEN_AGENTS_DATA_DIR: data } = cli.host.environment.variables;
  try {
    await access(join(data || join(dir, ".sandkasten"), "agents.db"));
  } catch (cause) {
    throw new CliFailure(`No agent service responds, and there are no runs in ${given} yet.`, {
      hint: "Start a service with `sandkasten agents serve`, set SANDKASTEN_AGENTS_URL to the address of one, or name a directory with --dir.",
      code: "NO_RUNS",
      cause,
    });
  }
}

async function temporaryDirectory(stack: AsyncDisposableStack): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), "sandkasten-agents-"));
  stack.defer(() => rm(path, { recursive: true, force: true }));
  return path;
}
