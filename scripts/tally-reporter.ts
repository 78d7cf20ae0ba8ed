/** A vitest reporter that writes the counts of a run, and why tests were skipped, to a file. */
import { writeFileSync } from "node:fs";
import type { Reporter, SerializedError, TestModule } from "vitest/node";
import type { VitestRun } from "./tally.ts";

/** The variable that names the file; without it no report is written. */
export const reportPathVariable = "SANDKASTEN_TEST_REPORT";

export class TallyReporter implements Reporter {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly SerializedError[]): void {
    const files = modules.map((module) => ({
      path: module.relativeModuleId,
      ok: module.ok(),
      tests: [...module.children.allTests()].map((test) => {
        const result = test.result();
        const note = result.state === "skipped" ? result.note : undefined;
        return {
          name: test.fullName,
          state: result.state,
          ...(note === undefined ? {} : { note }),
        };
      }),
    }));
    const run: VitestRun = { files, unhandledErrors: unhandled.length };
    writeFileSync(this.#path, JSON.stringify(run));
  }
}
