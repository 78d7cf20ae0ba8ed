/** The real HTTP API and core with in-memory sandboxes, and the command line connected to it. */
import { ALICES_KEY, HttpFixture } from "../../../daemon/src/surfaces/testing/http-fixture.ts";
import { TestCli, type TestHostOptions, type TestRun } from "./test-host.ts";

export class TestDaemon implements AsyncDisposable {
  readonly #http: HttpFixture;

  private constructor(http: HttpFixture) {
    this.#http = http;
  }

  /** `network` is what the administrator allows sandboxes to reach; nothing when absent. */
  static async start(options: { readonly network?: readonly string[] } = {}): Promise<TestDaemon> {
    return new TestDaemon(await HttpFixture.start(options));
  }

  /** For what the command line cannot do. */
  get http(): HttpFixture {
    return this.#http;
  }

  /** Starts the command line as a user of this daemon. */
  start(args: readonly string[], options: TestHostOptions = {}): TestCli {
    // The daemon's clock stands still, so advance it to give later events a later time.
    this.#http.core.clock.pass(1);
    const env = { SANDKASTEN_URL: this.#http.url, SANDKASTEN_API_KEY: ALICES_KEY };
    return new TestCli(args, { ...options, env: { ...env, ...options.env } });
  }

  run(args: readonly string[], options?: TestHostOptions): Promise<TestRun> {
    return this.start(args, options).done;
  }

  /** Opens a session and returns its id. */
  async open(...args: readonly string[]): Promise<string> {
    const { code, stdout, stderr } = await this.run(["open", ...args]);
    if (code !== 0) throw new Error(stderr);
    return stdout.trimEnd();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#http[Symbol.asyncDispose]();
  }
}
