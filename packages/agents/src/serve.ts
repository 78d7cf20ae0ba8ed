/** Composes the agent service and starts it. */

export interface AgentServiceOptions {
  /** Has `agents/*.prompt` and `workflows/*.yaml`. */
  readonly dir: string;
  /** `host:port`; port 0 for any that is free. SANDKASTEN_AGENTS_LISTEN, else 127.0.0.1:8587 when absent. */
  readonly listen?: string | undefined;
  /** SANDKASTEN_AGENTS_DATA_DIR, else `DIR/.sandkasten` when absent. */
  readonly dataDir?: string | undefined;
  /** Required beyond loopback. SANDKASTEN_AGENTS_API_KEY, else none when absent. */
  readonly apiKey?: string | undefined;
  /** Where the daemon is. SANDKASTEN_URL, else http://127.0.0.1:8080 when absent. */
  readonly daemonUrl?: string | undefined;
  /** SANDKASTEN_API_KEY when absent. */
  readonly daemonApiKey?: string | undefined;
  /** The variables that stand in for what is absent, and those of the models; the process's own when absent. */
  readonly env?: Readonly<Record<string, string | undefined>> | undefined;
}

export interface RunningAgentService extends AsyncDisposable {
  readonly url: string;
  /** Cancels this process's agent runs, closes their sandboxes and stops listening. */
  close(): Promise<void>;
}
