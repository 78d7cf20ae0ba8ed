/** Files of sessions and workspaces. Every file change by a caller passes through here. */
import type { NamedPath } from "@sandkasten/protocol";
import type { Channel, SandboxPath } from "../ports/channel.ts";
import type { Caller } from "./services/caller.ts";
import type {
  FileLocation,
  FileOperations,
  FileService,
  FileWrite,
  OpenFiles,
} from "./services/file-service.ts";
import type { SandboxAccess } from "./services/session-service.ts";
import type { Sessions } from "./sessions.ts";
import type { Workspaces } from "./workspaces.ts";

export interface FilesParts {
  readonly sessions: Sessions;
  readonly workspaces: Workspaces;
  /** Called for every successful write. Must return at once. */
  readonly onFileWrite?: ((write: FileWrite) => void) | undefined;
}

export class Files implements FileService {
  readonly #parts: FilesParts;

  constructor(parts: FilesParts) {
    this.#parts = parts;
  }

  async open(
    caller: Caller,
    location: FileLocation,
    options: { readonly create?: boolean } = {},
  ): Promise<OpenFiles> {
    const access = await this.#enter(caller, location, options.create === true);
    const onWrite = this.#parts.onFileWrite;
    return new AccessedFiles(access, (change) =>
      onWrite?.({ owner: caller.owner, location, ...change }),
    );
  }

  async #enter(caller: Caller, location: FileLocation, create: boolean): Promise<SandboxAccess> {
    const { sessions, workspaces } = this.#parts;
    return location.kind === "session"
      ? await sessions.enter(caller, location.id)
      : await workspaces.enter(caller, location.id, { make: create });
  }
}

type Change = Pick<FileWrite, "operation" | "path" | "from">;

/**
 * Reads go directly to the sandbox; writes also report what they changed. Bytes are passed through
 * unchanged.
 */
class AccessedFiles implements OpenFiles {
  readonly #access: SandboxAccess;
  readonly #channel: Channel;
  readonly #onChange: (change: Change) => void;

  constructor(access: SandboxAccess, onChange: (change: Change) => void) {
    this.#access = access;
    this.#channel = access.channel;
    this.#onChange = onChange;
  }

  stat: FileOperations["stat"] = (...args) => this.#channel.stat(...args);
  realpath: FileOperations["realpath"] = (...args) => this.#channel.realpath(...args);
  readFile: FileOperations["readFile"] = (...args) => this.#channel.readFile(...args);
  listDirectory: FileOperations["listDirectory"] = (...args) =>
    this.#channel.listDirectory(...args);
  watch: FileOperations["watch"] = (...args) => this.#channel.watch(...args);
  createTar: FileOperations["createTar"] = (...args) => this.#channel.createTar(...args);

  writeFile: FileOperations["writeFile"] = (...args) =>
    this.#change("write", this.#channel.writeFile(...args));
  appendFile: FileOperations["appendFile"] = (...args) =>
    this.#change("append", this.#channel.appendFile(...args));
  makeDirectory: FileOperations["makeDirectory"] = (...args) =>
    this.#change("make_directory", this.#channel.makeDirectory(...args));
  move: FileOperations["move"] = (from, ...args) =>
    this.#change("move", this.#channel.move(from, ...args), from);
  copy: FileOperations["copy"] = (from, ...args) =>
    this.#change("copy", this.#channel.copy(from, ...args), from);
  remove: FileOperations["remove"] = (...args) =>
    this.#change("remove", this.#channel.remove(...args));

  extractTar: FileOperations["extractTar"] = async (directory, ...args) => {
    const extracted = await this.#channel.extractTar(directory, ...args);
    this.#onChange({ operation: "extract", path: namedPath(directory) });
    return extracted;
  };

  [Symbol.dispose](): void {
    this.#access[Symbol.dispose]();
  }

  async #change<T extends NamedPath>(
    operation: FileWrite["operation"],
    work: Promise<T>,
    from?: SandboxPath,
  ): Promise<T> {
    const done = await work;
    const { path, rawPath } = done;
    this.#onChange({
      operation,
      path: { path, ...(rawPath !== undefined && { rawPath }) },
      ...(from !== undefined && { from: namedPath(from) }),
    });
    return done;
  }
}

/** A caller's path in the sandbox's path format. */
function namedPath(given: SandboxPath): NamedPath {
  if (typeof given === "string") return { path: given };
  const bytes = Buffer.from(given);
  const path = bytes.toString();
  return Buffer.from(path).equals(bytes) ? { path } : { path, rawPath: bytes.toString("base64") };
}
