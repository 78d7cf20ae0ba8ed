/** Counts passed, failed and skipped tests in the reports of vitest and cargo. */

export interface Tally {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

export interface Report extends Tally {
  /** Each with its reason. */
  readonly skippedNames: readonly string[];
}

/** The report cannot be trusted: it is missing, unreadable, or counts no test at all. */
export class UnreadableReportError extends Error {}

/** The report of `TallyReporter` for a vitest run. */
export interface VitestRun {
  readonly files: readonly VitestFile[];
  /** Errors outside of tests. */
  readonly unhandledErrors: number;
}

interface VitestFile {
  readonly path: string;
  /** False if a test failed, but also if an import or a hook did. */
  readonly ok: boolean;
  readonly tests: readonly VitestTest[];
}

interface VitestTest {
  readonly name: string;
  /** `pending` is a test that was interrupted. */
  readonly state: "passed" | "failed" | "skipped" | "pending";
  readonly note?: string;
}

/**
 * Reads vitest's report. A file that fails outside its tests (an import, a hook) counts as one
 * failed test, and so does a run that fails although no test did.
 */
export function tallyVitest(json: string, exitCode: number): Report {
  const run = parseVitestRun(json);
  let passed = 0;
  let failed = 0;
  const skippedNames: string[] = [];
  for (const file of run.files) {
    const failedBefore = failed;
    for (const { name, state, note } of file.tests) {
      if (state === "passed") passed++;
      else if (state === "skipped") skippedNames.push(`${name} (${note ?? "no reason given"})`);
      else failed++;
    }
    if (!file.ok && failed === failedBefore) failed++;
  }
  if (passed + failed === 0) {
    throw new UnreadableReportError("vitest ran no test");
  }
  if ((exitCode !== 0 || run.unhandledErrors > 0) && failed === 0) failed = 1;
  return { passed, failed, skipped: skippedNames.length, skippedNames };
}

function parseVitestRun(json: string): VitestRun {
  try {
    const run = JSON.parse(json) as Partial<VitestRun> | null;
    if (Array.isArray(run?.files) && typeof run.unhandledErrors === "number") {
      return run as VitestRun;
    }
  } catch (cause) {
    throw new UnreadableReportError("vitest left a report that is not JSON", { cause });
  }
  throw new UnreadableReportError("vitest left no report of the known form");
}

/** Sums up the result lines of `cargo test`, one for each test binary. */
export function tallyCargo(output: string, exitCode: number): Report {
  let passed = 0;
  let failed = 0;
  let skipped = 0;
  for (const line of output.matchAll(
    /^test result: \S+ (\d+) passed; (\d+) failed; (\d+) ignored;/gm,
  )) {
    passed += Number(line[1]);
    failed += Number(line[2]);
    skipped += Number(line[3]);
  }
  if (passed + failed === 0) {
    throw new UnreadableReportError("cargo ran no test");
  }
  if (exitCode !== 0 && failed === 0) failed = 1;
  const skippedNames = [...output.matchAll(/^test (\S+) \.\.\. (ignored.*)$/gm)].map(
    (line) => `${line[1]} (${line[2]})`,
  );
  return { passed, failed, skipped, skippedNames };
}

/** The last line of a run. */
export function summaryLine({ passed, failed, skipped }: Tally): string {
  return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`;
}
