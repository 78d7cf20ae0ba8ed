/** Shared by daemon, SDK and tests: the frames and messages of the wire, and the error catalogue. No I/O. */
export * from "./api/index.ts";
export * from "./errors.ts";
export * from "./frame-decoder.ts";
export * from "./frames.ts";
export * from "./launcher.ts";
export * from "./messages.ts";
export * from "./protocol-error.ts";
export * from "./requests.ts";
export * from "./sandbox-requests.ts";
