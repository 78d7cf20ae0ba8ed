/** A session to measure, used over HTTP. */
import type { ExecResultBody, SessionBody, StatsBody } from "@sandkasten/protocol";
import type { HttpClient } from "./http-client.ts";

/** A restarted daemon has another client. */
export interface ClientHolder {
  readonly client: HttpClient;
}

export class BenchSession {
  readonly id: string;
  readonly acquireSource: "pool" | "cold";
  readonly #daemon: ClientHolder;

  constructor(daemon: ClientHolder, { id, acquire_source: acquireSource }: SessionBody) {
    this.#daemon = daemon;
    this.id = id;
    this.acquireSource = acquireSource;
  }

  get path(): string {
    return `/v1/sessions/${this.id}`;
  }

  /** The URL path for reading and writing a file as bytes. */
  filePath(name: string): string {
    return `${this.path}/fs/file?path=${encodeURIComponent(name)}`;
  }

  /** Runs a command in the shell to its end, which must succeed. */
  async exec(cmd: string): Promise<ExecResultBody> {
    const result = await this.#daemon.client.call<ExecResultBody>("POST", `${this.path}/exec`, {
      cmd,
    });
    if (result.exit_code !== 0)
      throw new Error(`a measured command ended with ${String(result.exit_code)}`);
    return result;
  }

  async stats(): Promise<StatsBody> {
    return await this.#daemon.client.call<StatsBody>("GET", `${this.path}/stats`);
  }

  async destroy(): Promise<void> {
    await this.#daemon.client.call("DELETE", this.path);
  }
}
