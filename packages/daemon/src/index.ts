/** Exports for the programs that start the daemon and for backend tests. */
export { composeEmbedded } from "./compose-backends.ts";
export type { Config } from "./config/config.ts";
export { describeConfig } from "./config/describe-config.ts";
export { ensureApiKey } from "./config/ensure-api-key.ts";
export { loadConfig } from "./config/load-config.ts";
export { checkMachine, startDaemon, sweep } from "./daemon.ts";
export type { CheckedBackend, CheckedMachine, Daemon, StartOptions } from "./daemon.ts";
export type { Embedded, EmbeddedOptions } from "./compose-backends.ts";
export type * from "./network/egress.ts";
export type * from "./ports/backend.ts";
export type * from "./ports/channel.ts";
export type * from "./ports/event-log.ts";
export type * from "./ports/exec-journal.ts";
export type * from "./ports/image-store.ts";
export type * from "./ports/key-store.ts";
export type * from "./ports/session-store.ts";
