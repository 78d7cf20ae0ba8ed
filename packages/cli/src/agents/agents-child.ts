/** The agent service as a child process that ends together with the daemon. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import type { Cli } from "../cli.ts";
import type { DaemonAddress } from "../daemon-address.ts";
import { PROGRAM } from "../own-program.ts";

/** How long it may take to cancel its runs and destroy their sandboxes. */
const STOP_MS = 20_000;

export interface AgentsChildOptions {
  readonly dir: string;
  readonly listen?: string | undefined;
  readonly daemon: DaemonAddress;
}

/** The result of the start: the service's address, or the problem. */
export type AgentsStart = { readonly url: string } | { readonly problem: string };

export class AgentsChild implements AsyncDisposable {
  readonly started: Promise<AgentsStart>;
  readonly #process: ChildProcess;
  readonly #exited: Promise<unknown>;
  #isStopping = false;

  /** @param onEnd - Called with the reason if the service ends by itself after it has started. */
  constructor(cli: Cli, options: AgentsChildOptions, onEnd: (problem: string) => void) {
    const { dir, listen, daemon } = options;
    const command = ["--json", "agents", "serve", "--until-input-ends", "--dir", dir];
    const address = listen === undefined ? [] : ["--listen", listen];
    const child = spawn(process.execPath, [...process.execArgv, PROGRAM, ...command, ...address], {
      cwd: cli.host.workingDirectory,
      // Ctrl-C at the terminal goes to us, and we stop the service.
      detached: true,
      stdio: ["pipe", "pipe", "pipe"],
      env: {
        // Log lines would clutter the steps, unless the user asks for them.
        SANDKASTEN_AGENTS_LOG_LEVEL: "warn",
        ...cli.host.environment.variables,
        SANDKASTEN_URL: daemon.url,
        // SECURITY: in the environment, which other users of the machine cannot read, unlike
        // arguments (guarded by cli.serial.test.ts).
        SANDKASTEN_API_KEY: daemon.apiKey,
      },
    });
    this.#process = child;
    // When the service ends, the pipe closes while we may still write to it.
    child.stdin.on("error", () => {});
    this.#exited = once(child, "close").catch(() => {});
    let said = "";
    let hasStarted = false;
    child.stderr.setEncoding("utf8");
    child.stderr.on("data", (text: string) => {
      // Before the start this may explain a failure; afterwards it is the service's log.
      if (hasStarted) cli.host.stderr.write(text);
      else said += text;
    });
    this.started = new Promise((resolve) => {
      child.once("error", (error) => resolve({ problem: error.message }));
      child.once("close", (code, signal) => {
        const problem = problemIn(said) ?? `it ended with ${signal ?? `exit code ${code}`}`;
        resolve({ problem });
        if (hasStarted && !this.#isStopping) onEnd(problem);
      });
      createInterface(child.stdout).once("line", (line) => {
        hasStarted = true;
        if (said !== "") cli.host.stderr.write(said);
        said = "";
        resolve(JSON.parse(line) as { readonly url: string });
      });
    });
  }

  /** Its input ends, as it does when this process dies for any reason. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isStopping = true;
    this.#process.stdin?.end();
    const kill = setTimeout(() => this.#process.kill("SIGKILL"), STOP_MS);
    await this.#exited;
    clearTimeout(kill);
  }
}

/** A failure of the command line is its last line, in JSON. */
function problemIn(said: string): string | undefined {
  try {
    const { error } = JSON.parse(said.trimEnd().split("\n").at(-1) ?? "") as {
      readonly error?: { readonly message?: string; readonly hint?: string };
    };
    return error?.message && [error.message, error.hint].filter(Boolean).join(" ");
  } catch {
    return said.trim() === "" ? undefined : said.trim().split("\n").at(-1);
  }
}
