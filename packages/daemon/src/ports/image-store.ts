/** The port to the images that sandboxes can be made of. */

export interface ImageInfo {
  /** Canonical reference: `host`, or the name it was imported or pulled as. */
  readonly reference: string;
  /** `sha256:…` of what was imported; for `host` a fingerprint of its recipe. */
  readonly digest: string;
  readonly source: "host" | "rootfs" | "oci-archive" | "registry";
  readonly sizeBytes: number;
  readonly createdAtMs: number;
  /** From the image's configuration; empty for plain root filesystems. */
  readonly env: Readonly<Record<string, string>>;
}

/** A root filesystem prepared for use: mount points are real directories, the code user exists. */
export interface ImageRootfs {
  readonly info: ImageInfo;
  /** Directory on the host, owned as the image says (uid 0 is the image's root). Never written to by sandboxes. */
  readonly path: string;
  /** Host directories shown read-only inside (only `host` has them). */
  readonly binds: readonly { readonly from: string; readonly to: string }[];
}

export interface ImageProgress {
  readonly phase: "download" | "unpack";
  readonly done: number;
  readonly total?: number;
}

export interface EnsureOptions {
  readonly onProgress?: (progress: ImageProgress) => void;
  /** Ends this wait with CANCELLED. What is being fetched goes on while somebody else waits for it. */
  readonly signal?: AbortSignal;
}

export interface ImageStore {
  /** Maps a name a user gives (alias, reference) to the one that is used, or rejects with INVALID_IMAGE when policy forbids it or it is unknown. */
  resolve(name: string): Promise<{ readonly reference: string; readonly requested: string }>;
  /**
   * Sees to it that an image which `resolve` named is there, and tells what it is. Whether that may
   * take a download is the store's policy; INVALID_IMAGE says what to do where it may not.
   */
  ensure(reference: string, options?: EnsureOptions): Promise<ImageInfo>;
  importRootfs(
    reference: string,
    tarball: string,
    onProgress?: (p: ImageProgress) => void,
  ): Promise<ImageInfo>;
  importOciArchive(
    reference: string,
    archive: string,
    onProgress?: (p: ImageProgress) => void,
  ): Promise<ImageInfo>;
  pull(reference: string, onProgress?: (p: ImageProgress) => void): Promise<ImageInfo>;
  list(): Promise<ImageInfo[]>;
  inspect(reference: string): Promise<ImageInfo>;
  remove(reference: string): Promise<void>;
  /** Removes what no reference and no living sandbox needs (by `SandboxHandle.imageDigest`); tells the bytes freed. */
  collectGarbage(
    inUse: ReadonlySet<string>,
  ): Promise<{ readonly removed: number; readonly freedBytes: number }>;
}

/** An image store that also holds the images' root filesystems, for backends that mount them. */
export interface RootfsStore extends ImageStore {
  /** The root filesystem of an image that is present. Rejects with INVALID_IMAGE when it is not. */
  rootfs(reference: string): Promise<ImageRootfs>;
}
