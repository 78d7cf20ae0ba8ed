/** What the daemon's package offers to the programs that start it and to backends' tests. */
export { composeEmbedded } from "./compose.ts";
export type { Embedded, EmbeddedOptions } from "./compose.ts";
export type * from "./ports/backend.ts";
export type * from "./ports/channel.ts";
export type * from "./ports/image-store.ts";
