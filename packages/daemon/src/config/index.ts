/** Exports for programs that read the configuration without starting a daemon. */
export type { ApiKey, Config, ShownSetting } from "./config.ts";
export { describeConfig } from "./describe-config.ts";
export type { ConfigDescription } from "./describe-config.ts";
export { ensureApiKey } from "./ensure-api-key.ts";
export { configKeys } from "./keys.ts";
export type { ConfigKey } from "./keys.ts";
export { loadConfig } from "./load-config.ts";
export type { LoadConfigOptions } from "./load-config.ts";
