/** Shows steps in progress, and their results. */
import type { Cli } from "../cli.ts";
import { plainJson, plainText } from "./plain-text.ts";
import { formatDuration } from "./units.ts";

const ERASE_LINE = "\r\u001b[2K";

export class Stages {
  readonly #cli: Cli;

  constructor(cli: Cli) {
    this.#cli = cli;
  }

  /** @param work - Gets a function that sets the text next to the step. */
  async run<T>(name: string, work: (say: (detail: string) => void) => Promise<T>): Promise<T> {
    const { out } = this.#cli;
    const live = out.isTerminal && !this.#cli.wantsJson();
    let detail = "";
    const startedMs = performance.now();
    if (live) await out.write(out.style.dim(`… ${name}`));
    try {
      const result = await work((said) => {
        detail = said;
        if (live) out.stream.write(`${ERASE_LINE}${out.style.dim(`… ${name} ${plainText(said)}`)}`);
      });
      const tookMs = performance.now() - startedMs;
      await this.#done(name, detail, tookMs, live);
      return result;
    } catch (error) {
      if (live) await out.write(`${ERASE_LINE}${out.style.red("✗")} ${name}\n`);
      throw error;
    }
  }

  async warn(text: string): Promise<void> {
    await this.#cli.err.line(`${this.#cli.err.style.yellow("!")} ${plainText(text)}`);
  }

  /** Lines between the steps, for people only. */
  async show(lines: readonly string[]): Promise<void> {
    if (!this.#cli.wantsJson()) await this.#cli.out.line(lines.join("\n"));
  }

  async finish(json: Readonly<Record<string, unknown>>, lines: readonly string[]): Promise<void> {
    const { out } = this.#cli;
    if (this.#cli.wantsJson()) await out.line(plainJson({ type: "ready", ...json }));
    else await out.line(lines.join("\n"));
  }

  async #done(name: string, detail: string, tookMs: number, live: boolean): Promise<void> {
    const { out } = this.#cli;
    if (this.#cli.wantsJson()) {
      const durationMs = Math.round(tookMs);
      return out.line(plainJson({ type: "stage", name, detail, durationMs }));
    }
    const note = out.style.dim(
      `${detail === "" ? "" : `${plainText(detail)}, `}${formatDuration(tookMs)}`,
    );
    await out.line(`${live ? ERASE_LINE : ""}${out.style.green("✓")} ${name} ${note}`);
  }
}
