/** Stores the files of a form in a directory, one after the other, without keeping them in memory. */
import { randomUUID } from "node:crypto";
import type { Readable } from "node:stream";
import { filePath, rawFilePath, SandboxError } from "@sandkasten/protocol";
import type { NamedPath } from "@sandkasten/protocol";
import type { SandboxPath } from "../../../../ports/channel.ts";
import type { FileOperations } from "../../../../sessions/services/file-service.ts";
import { joined, pathOf, WORKSPACE } from "../../bodies/path-body.ts";
import { bytesOf } from "../../../http/bodies/byte-body.ts";
import type { ByteLimits } from "../../../http/bodies/byte-body.ts";

interface Waiting {
  readonly temporary: string;
  readonly name: string;
}

interface UploadOptions {
  /** Called with the first file: a form without files, or refused before the first, changes nothing. */
  readonly open: () => Promise<FileOperations>;
  /** The directory's path in the sandbox; throws for a forbidden one. */
  readonly place: (path: SandboxPath) => SandboxPath;
  readonly limits: ByteLimits;
}

/**
 * The directory may come before the files, which then go there directly, or after them: until it is
 * known they are stored in the workspace under temporary names.
 */
export class Upload {
  readonly #options: UploadOptions;
  readonly #waiting: Waiting[] = [];
  readonly #paths: NamedPath[] = [];
  #files: FileOperations | undefined;
  #directory: SandboxPath | undefined;
  #bytes = 0;

  constructor(options: UploadOptions) {
    this.#options = options;
  }

  /** From a form field named `path` or `raw_path`. */
  setField(name: "path" | "raw_path", value: unknown): void {
    // Clients with zero values send an empty one for the default.
    if (value === "") return;
    const parsed = (name === "path" ? filePath : rawFilePath).safeParse(value);
    if (!parsed.success)
      throw new SandboxError("INVALID_REQUEST", `the form's \`${name}\` is not a path`);
    this.setDirectory(pathOf({ [name]: parsed.data }));
  }

  setDirectory(asked: SandboxPath): void {
    const known = this.#directory;
    const directory = this.#options.place(asked);
    if (known !== undefined && !Buffer.from(known).equals(Buffer.from(directory)))
      throw new SandboxError("INVALID_REQUEST", "`path` is given twice, with different values");
    this.#directory = directory;
  }

  async addFile(fileName: string | undefined, content: Readable): Promise<void> {
    const name = baseName(fileName);
    const files = (this.#files ??= await this.#options.open());
    if (this.#directory !== undefined) {
      const target = joined(this.#directory, name);
      this.#paths.push(await files.writeFile(target, this.#count(content)));
      return;
    }
    const temporary = `${WORKSPACE}/.upload-${randomUUID()}`;
    this.#waiting.push({ temporary, name });
    await files.writeFile(temporary, this.#count(content));
  }

  /** The final paths of the files. */
  async finish(): Promise<readonly NamedPath[]> {
    const directory = this.#directory ?? WORKSPACE;
    const files = this.#files;
    if (files === undefined)
      throw new SandboxError(
        "INVALID_REQUEST",
        "the form has no file; send one as the field `file`",
      );
    if (this.#waiting.length > 0) await files.makeDirectory(directory, { parents: true });
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      const target = joined(directory, next.name);
      this.#paths.push(await files.move(next.temporary, target, { overwrite: true }));
      // Until it has moved, it is one of those that a failure leaves to `abandon`.
      this.#waiting.shift();
    }
    return this.#paths;
  }

  /** Removes temporary files after a failure. */
  async abandon(): Promise<void> {
    for (const { temporary } of this.#waiting.splice(0)) {
      try {
        await this.#files?.remove(temporary);
      } catch (error) {
        // It was never created, or it is gone with the sandbox.
        if (!(error instanceof SandboxError)) throw error;
      }
    }
  }

  /** The limit applies to all files together. */
  async *#count(content: Readable): AsyncGenerator<Uint8Array> {
    const { limits } = this.#options;
    const maxBytes = limits.maxBytes - this.#bytes;
    for await (const bytes of bytesOf(content, { ...limits, maxBytes })) {
      this.#bytes += bytes.byteLength;
      yield bytes;
    }
  }
}

/**
 * SECURITY: a file's name comes from the client and must not lead out of the directory (threat:
 * path traversal). Guarded by uploads.test.ts.
 */
function baseName(fileName: string | undefined): string {
  const name = fileName?.split(/[\\/]/).at(-1) ?? "";
  if (name === "" || name === "." || name === ".." || name.includes("\0"))
    throw new SandboxError("INVALID_REQUEST", "every file of the form needs a file name");
  return name;
}
