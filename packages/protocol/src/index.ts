/** What daemon, SDK and tests share: the frames and messages of the wire, and the catalogue of errors. No I/O. */
export * from "./api/index.ts";
export * from "./errors.ts";
export * from "./frame-decoder.ts";
export * from "./frames.ts";
export * from "./launcher.ts";
export * from "./messages.ts";
export * from "./protocol-error.ts";
export * from "./requests.ts";
export * from "./sandbox-requests.ts";
