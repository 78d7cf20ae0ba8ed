/** Shows the configuration that is in force, and where each value came from. */
import type { Config, ShownSetting } from "./config.ts";

export interface ConfigDescription {
  readonly file?: string;
  readonly settings: readonly ShownSetting[];
  readonly warnings: readonly string[];
}

/** Holds no secret: keys are `***`. */
export function describeConfig({ file, settings, warnings }: Config): ConfigDescription {
  return { ...(file !== undefined && { file }), settings, warnings };
}
