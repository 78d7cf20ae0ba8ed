/** Shows the effective configuration, and the source of each value. */
import type { Config, ShownSetting } from "./config.ts";

export interface ConfigDescription {
  readonly file?: string;
  readonly settings: readonly ShownSetting[];
  readonly warnings: readonly string[];
}

/** Contains no secrets: keys are `***`. */
export function describeConfig({ file, settings, warnings }: Config): ConfigDescription {
  return { ...(file !== undefined && { file }), settings, warnings };
}
