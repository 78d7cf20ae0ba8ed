/** The port to the images that sandboxes are created from. */

export interface ImageInfo {
  /** Canonical reference: `host`, or the name it was imported or pulled as. */
  readonly reference: string;
  /** `sha256:…` of the imported content; for `host` a fingerprint of its recipe. */
  readonly digest: string;
  readonly source: "host" | "rootfs" | "oci-archive" | "registry";
  readonly sizeBytes: number;
  readonly createdAtMs: number;
  /** From the image's configuration; empty for plain root filesystems. */
  readonly env: Readonly<Record<string, string>>;
  /** The administrator shares it with all owners. */
  readonly shared: boolean;
}

/** A root file system prepared for use: mount points are real directories, the code user exists. */
export interface ImageRootfs {
  readonly digest: string;
  /** Variables of the image's configuration. */
  readonly env: Readonly<Record<string, string>>;
  /**
   * Directory on the host, with the image's ownership (uid 0 is the image's root). Sandboxes never
   * write to it.
   */
  readonly path: string;
  /** Host directories mounted read-only inside (only `host` has them). */
  readonly binds: readonly { readonly from: string; readonly to: string }[];
}

export interface ImageProgress {
  readonly phase: "download" | "unpack";
  readonly done: number;
  readonly total?: number;
}

export interface EnsureOptions {
  readonly onProgress?: (progress: ImageProgress) => void;
  /** Ends this wait with CANCELLED. A download continues while another caller waits for it. */
  readonly signal?: AbortSignal;
}

/** The image that a user-supplied name resolves to. */
export interface ResolvedImage {
  readonly reference: string;
  readonly requested: string;
  /** Of the content that is present; absent if the image must still be downloaded. */
  readonly digest?: string;
  /** The requested image is not present, and another one takes its place. */
  readonly isSubstitute: boolean;
}

/** An owner of private images. */
export interface ImageOwner {
  readonly name: string;
  /** Disk space for the images of this owner. */
  readonly maxBytes: number;
}

/** The session whose root an image is. */
export interface ImageOrigin {
  readonly sessionId: string;
  /**
   * Called before the image gets its name; rejects if another daemon serves the session by now. An
   * import that passed this, and comes later than the next import from the session, does not move the
   * name.
   */
  readonly check: () => Promise<void>;
}

/** Images as one owner sees them: private ones, and those that the administrator shares. */
export interface Images {
  /**
   * Maps a user-supplied name (alias, reference) to the image to use. Rejects with INVALID_IMAGE if
   * the name is unknown or not allowed by policy.
   */
  resolve(name: string): Promise<ResolvedImage>;
  /**
   * Makes sure that an image returned by `resolve` is present, and describes it. The store's policy
   * decides whether that may include a download; if not, INVALID_IMAGE says what to do.
   */
  ensure(reference: string, options?: EnsureOptions): Promise<ImageInfo>;
  /** `env` holds variables for the image's sandboxes, if the store keeps them. */
  importRootfs(
    reference: string,
    tarball: string,
    onProgress?: (p: ImageProgress) => void,
    env?: Readonly<Record<string, string>>,
    origin?: ImageOrigin,
  ): Promise<ImageInfo>;
  importOciArchive(
    reference: string,
    archive: string,
    onProgress?: (p: ImageProgress) => void,
  ): Promise<ImageInfo>;
  pull(reference: string, onProgress?: (p: ImageProgress) => void): Promise<ImageInfo>;
  list(): Promise<ImageInfo[]>;
  inspect(reference: string): Promise<ImageInfo>;
  /** Rejects with PERMISSION_DENIED for an image shared by the administrator. */
  remove(reference: string): Promise<void>;
}

/** The disk space used by images. */
export interface ImageUsage {
  readonly images: number;
  readonly bytes: number;
  readonly maxBytes: number;
}

/**
 * All images of a backend. Its own methods act for the administrator: the images they import are
 * shared with all owners.
 */
export interface ImageStore extends Images {
  /** Images as an owner other than the administrator sees and changes them. */
  of(owner: ImageOwner): Images;
  /** Of all owners together, if the store keeps the images itself. */
  usage(): ImageUsage | undefined;
  /** Calls back whenever a name may resolve to something else. */
  onChange(listener: () => void): void;
  /**
   * Removes what no reference and no existing sandbox needs (by `SandboxHandle.imageDigest`);
   * returns the bytes freed.
   */
  collectGarbage(
    inUse: ReadonlySet<string>,
  ): Promise<{ readonly removed: number; readonly freedBytes: number }>;
}

/** An image store that also holds the images' root file systems, for backends that mount them. */
export interface RootfsStore extends ImageStore {
  /**
   * The root file system of an image that is present: of the exact content `digest` if given,
   * otherwise of a shared image. Rejects with INVALID_IMAGE if it is not present.
   */
  rootfs(reference: string, digest?: string): Promise<ImageRootfs>;
}
