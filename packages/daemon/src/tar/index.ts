/** Tar archives, for the daemon and its clients on the same machine. */
export { TarError } from "./tar-error.ts";
export { BLOCK_BYTES, paddingBytes } from "./tar-header.ts";
export { readTar } from "./tar-reader.ts";
export type { TarEntry } from "./tar-reader.ts";
export { encodeHeader, endOfArchive } from "./tar-writer.ts";
export type { NewTarEntry } from "./tar-writer.ts";
