/** The bodies, queries and responses of the HTTP API. */
export * from "./common.ts";
export * from "./events.ts";
export * from "./execs.ts";
export * from "./files.ts";
export * from "./images.ts";
export * from "./keys.ts";
export * from "./networks.ts";
export * from "./ports.ts";
export * from "./sessions.ts";
