/** Finds the configuration file and reads it. */
import { constants } from "node:fs";
import { open } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { join, resolve } from "node:path";
import type { Environment } from "./text-settings.ts";
import { FILE_VARIABLE } from "./text-settings.ts";

export interface FileSearch {
  readonly env: Environment;
  readonly cwd: string;
  /** An explicitly named file, by a flag for instance. */
  readonly file?: string;
  readonly isRoot: boolean;
}

export interface ConfigFile {
  readonly path: string;
  readonly text: string;
  /** Users other than its owner can read it. */
  readonly readableByOthers: boolean;
  /** Its permission bits, for messages. */
  readonly mode: string;
}

const FILE_NAME = "sandkasten.yaml";
const SYSTEM_FILE = "/etc/sandkasten/sandkasten.yaml";
const MAX_FILE_BYTES = 1_048_576;

/** The file, undefined if there is none, or a message that says why it cannot be used. */
export async function readConfigFile(search: FileSearch): Promise<ConfigFile | string | undefined> {
  const named = search.file ?? (search.env[FILE_VARIABLE] || undefined);
  if (named !== undefined) {
    const path = resolve(search.cwd, named);
    const by = search.file === undefined ? ` (named by ${FILE_VARIABLE})` : "";
    const file = await readAt(path, () => undefined);
    return file ?? `the configuration file ${path}${by} does not exist`;
  }
  const found = join(search.cwd, FILE_NAME);
  const file = await readAt(found, (owner, mode) => distrust(search, found, owner, mode));
  return file === undefined && search.isRoot ? await readAt(SYSTEM_FILE, () => undefined) : file;
}

/**
 * SECURITY: the daemon often runs as root, and other users may control the directory it is started
 * in. A file found there could open the API to the user who put it there (threat: unauthorized access),
 * so it counts only if it belongs to us. Guarded by config-file.test.ts.
 */
function distrust(
  { env, isRoot }: FileSearch,
  path: string,
  owner: number,
  mode: number,
): string | undefined {
  const trusted = [0, process.geteuid?.(), ...(isRoot ? [Number(env["SUDO_UID"])] : [])];
  const reason = !trusted.includes(owner)
    ? "belongs to another user"
    : (mode & 0o002) !== 0
      ? "is writable by every user"
      : undefined;
  return reason === undefined
    ? undefined
    : `${path} ${reason}; name it (--config, ${FILE_VARIABLE}) to use it`;
}

async function readAt(
  path: string,
  refuse: (owner: number, mode: number) => string | undefined,
): Promise<ConfigFile | string | undefined> {
  let handle: FileHandle | undefined;
  try {
    // Without O_NONBLOCK a FIFO of this name would block the start forever.
    handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const status = await handle.stat();
    const mode = status.mode & 0o777;
    if (!status.isFile()) return `${path} is not a regular file`;
    if (status.size > MAX_FILE_BYTES) return `${path} is larger than ${MAX_FILE_BYTES} bytes`;
    const refusal = refuse(status.uid, mode);
    if (refusal !== undefined) return refusal;
    const text = utf8(await handle.readFile());
    if (text === undefined) return `${path} is not UTF-8 text`;
    return { path, text, readableByOthers: (mode & 0o044) !== 0, mode: mode.toString(8) };
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === "ENOENT") return undefined;
    if (code === undefined) throw error;
    return `${path} cannot be read (${code})`;
  } finally {
    await handle?.close();
  }
}

function utf8(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (error) {
    if (error instanceof TypeError) return undefined;
    throw error;
  }
}
