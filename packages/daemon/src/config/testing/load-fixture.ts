/** A directory for configuring a test daemon. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SandboxError } from "@sandkasten/protocol";
import { onTestFinished } from "vitest";
import type { Config } from "../config.ts";
import { loadConfig } from "../load-config.ts";
import type { LoadConfigOptions } from "../load-config.ts";

export interface Place {
  readonly directory: string;
  /** Path of the file that `load` reads. */
  readonly file: string;
  readonly writeFile: (text: string) => Promise<void>;
  readonly load: (options?: Partial<LoadConfigOptions>) => Promise<Config>;
  /** The problems of a refused configuration. */
  readonly problems: (options?: Partial<LoadConfigOptions>) => Promise<readonly string[]>;
}

/** Removed at the end of the test. */
export async function makePlace(yaml?: string): Promise<Place> {
  const directory = await mkdtemp(join(tmpdir(), "sandkasten-config-"));
  onTestFinished(async () => await rm(directory, { recursive: true, force: true }));
  const file = join(directory, "sandkasten.yaml");
  const load = async (options: Partial<LoadConfigOptions> = {}): Promise<Config> =>
    await loadConfig({ env: {}, cwd: directory, home: "/home/me", isRoot: false, ...options });
  const place: Place = {
    directory,
    file,
    writeFile: async (text) => await writeFile(file, text, { mode: 0o600 }),
    load,
    problems: async (options) => {
      const error = await load(options).catch((reason: unknown) => reason);
      if (!(error instanceof SandboxError)) throw new Error("the configuration was accepted");
      if (error.code !== "INVALID_REQUEST") throw error;
      const problems = error.details?.["problems"] as readonly string[];
      for (const problem of problems) {
        if (!error.message.includes(problem)) throw new Error(`the message lacks: ${problem}`);
      }
      return problems;
    },
  };
  if (yaml !== undefined) await place.writeFile(yaml);
  return place;
}
