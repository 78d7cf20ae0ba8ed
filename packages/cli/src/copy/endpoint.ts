/** The two ends of a copy: where it comes from and where it goes to. */

/** What is copied: one file, or a directory with all that is in it. */
export interface Thing {
  readonly kind: "file" | "directory";
  /** Its last name, for copying it into a directory; empty where it has none. */
  readonly name: string;
  /** Of a file, where it is known. */
  readonly mode?: number;
  /** Of the content, where it is known before. */
  readonly sizeBytes?: number;
}

export interface CopySource {
  readonly shown: string;
  look(): Promise<Thing>;
  readFile(): AsyncIterable<Uint8Array> | Promise<AsyncIterable<Uint8Array>>;
  /** Its content as a tar archive with paths relative to it. */
  readTree(): AsyncIterable<Uint8Array> | Promise<AsyncIterable<Uint8Array>>;
}

export interface CopyTarget {
  /** What is written, and under which name: inside an existing directory, else as the name given. */
  place(thing: Thing): Promise<PlacedTarget>;
}

export interface PlacedTarget {
  readonly shown: string;
  writeFile(content: AsyncIterable<Uint8Array>): Promise<void>;
  writeTree(archive: AsyncIterable<Uint8Array>): Promise<void>;
}
