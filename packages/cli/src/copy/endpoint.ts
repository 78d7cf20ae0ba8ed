/** The two ends of a copy: source and target. */

/** What is copied: one file, or a directory with its contents. */
export interface Thing {
  readonly kind: "file" | "directory";
  /** Its base name, for copying it into a directory; empty if it has none. */
  readonly name: string;
  /** For a file, if known. */
  readonly mode?: number;
  /** The content's size, if known beforehand. */
  readonly sizeBytes?: number;
}

export interface CopySource {
  readonly shown: string;
  look(): Promise<Thing>;
  readFile(): AsyncIterable<Uint8Array> | Promise<AsyncIterable<Uint8Array>>;
  /** Its content as a tar archive with relative paths. */
  readTree(): AsyncIterable<Uint8Array> | Promise<AsyncIterable<Uint8Array>>;
}

export interface CopyTarget {
  /** The path to write to: inside an existing directory, or else as given. */
  place(thing: Thing): Promise<PlacedTarget>;
}

export interface PlacedTarget {
  readonly shown: string;
  writeFile(content: AsyncIterable<Uint8Array>): Promise<void>;
  writeTree(archive: AsyncIterable<Uint8Array>): Promise<void>;
}
