/** The Docker engine to compare with: a private one, with an image that contains a static busybox. */
import { DockerEngine } from "../tests/support/docker-engine.ts";

const IMAGE = "sandkasten-bench:latest";

export class BenchDocker implements AsyncDisposable {
  readonly engine: DockerEngine;
  readonly image = IMAGE;

  private constructor(engine: DockerEngine) {
    this.engine = engine;
  }

  /** Starts dockerd below `directory`, which must not exist. */
  static async start(directory: string, signal: AbortSignal): Promise<BenchDocker> {
    await using stack = new AsyncDisposableStack();
    const engine = stack.use(await DockerEngine.start(directory, { signal }));
    await engine.importSmallImage(IMAGE, "busybox");
    stack.move();
    return new BenchDocker(engine);
  }

  command(...args: readonly string[]): string[] {
    return this.engine.command(...args);
  }

  /** `docker run` of the image, without a network, like our sandboxes. */
  runCommand(options: readonly string[], ...argv: readonly string[]): string[] {
    return this.command("run", "--network", "none", ...options, IMAGE, ...argv);
  }

  /** An idle container; returns its id. */
  async startContainer(): Promise<string> {
    return await this.engine.docker("run", "-d", "--network", "none", IMAGE, "sleep", "86400");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.engine[Symbol.asyncDispose]();
  }
}
