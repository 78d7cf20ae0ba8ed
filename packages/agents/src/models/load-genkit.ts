/** Loads Genkit, which takes half a second, and takes back what it does to the process. */
import type * as Genkit from "genkit";

type GenkitModule = Pick<typeof Genkit, "genkit">;

let loading: Promise<GenkitModule> | undefined;

export async function loadGenkit(): Promise<GenkitModule> {
  loading ??= load();
  return await loading;
}

/** What fails is told to the run; printed, it would mix with the output of the program. */
const SILENT = {
  level: "error",
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};

const SIGNALS = ["SIGTERM", "SIGINT"] as const;

/**
 * Merely imported, Genkit ends the process on SIGTERM and SIGINT before runs were cancelled and
 * their sandboxes destroyed. Its own OpenTelemetry would keep whole prompts in memory; where the
 * process has another one, spans go there, as parts of the trace that is active.
 */
async function load(): Promise<GenkitModule> {
  const before = new Set(SIGNALS.flatMap((signal) => process.listeners(signal)));
  const [{ genkit }, tracing, { logger }] = await Promise.all([
    import("genkit"),
    import("genkit/tracing"),
    import("genkit/logging"),
  ]);
  tracing.disableGenkitOTelInitialization();
  tracing.disableOTelRootSpanDetection();
  logger.init(SILENT);
  for (const signal of SIGNALS)
    for (const listener of process.listeners(signal))
      if (!before.has(listener) && listener.name === "shutdown") process.off(signal, listener);
  return { genkit };
}
