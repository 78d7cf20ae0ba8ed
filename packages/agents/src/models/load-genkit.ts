/** Loads Genkit, which takes half a second, and undoes its changes to the process. */
import type * as Genkit from "genkit";

type GenkitModule = Pick<typeof Genkit, "genkit">;

let loading: Promise<GenkitModule> | undefined;

export async function loadGenkit(): Promise<GenkitModule> {
  loading ??= load();
  return await loading;
}

/** Failures are reported to the run; printed, they would mix with the program's output. */
const SILENT = {
  level: "error",
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};

const SIGNALS = ["SIGTERM", "SIGINT"] as const;

/**
 * On import, Genkit installs handlers that end the process on SIGTERM and SIGINT before runs are
 * cancelled and their sandboxes destroyed. Its own OpenTelemetry would keep whole prompts in
 * memory; if the process has its own, spans go there, as part of the active trace.
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
