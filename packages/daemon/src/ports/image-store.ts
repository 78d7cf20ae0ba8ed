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
  /** The administrator shares it with all owners. */
  readonly shared: boolean;
}

/** A root filesystem prepared for use: mount points are real directories, the code user exists. */
export interface ImageRootfs {
  readonly digest: string;
  /** Variables of the image's configuration. */
  readonly env: Readonly<Record<string, string>>;
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

/** What a name that a user gave stands for. */
export interface ResolvedImage {
  readonly reference: string;
  readonly requested: string;
  /** Of the content that is present; absent for an image that has yet to be fetched. */
  readonly digest?: string;
  /** The image itself is not present, and another one takes its place. */
  readonly isSubstitute: boolean;
}

/** Who has images of their own. */
export interface ImageOwner {
  readonly name: string;
  /** Disk space for the images of this owner. */
  readonly maxBytes: number;
}

/** Images as one owner sees them: their own, and those that the administrator shares with all. */
export interface Images {
  /** Maps a name a user gives (alias, reference) to the one that is used, or rejects with INVALID_IMAGE when policy forbids it or it is unknown. */
  resolve(name: string): Promise<ResolvedImage>;
  /**
   * Sees to it that an image which `resolve` named is there, and tells what it is. Whether that may
   * take a download is the store's policy; INVALID_IMAGE says what to do where it may not.
   */
  ensure(reference: string, options?: EnsureOptions): Promise<ImageInfo>;
  /** `env` are variables that sandboxes of it get, where the store keeps them. */
  importRootfs(
    reference: string,
    tarball: string,
    onProgress?: (p: ImageProgress) => void,
    env?: Readonly<Record<string, string>>,
  ): Promise<ImageInfo>;
  importOciArchive(
    reference: string,
    archive: string,
    onProgress?: (p: ImageProgress) => void,
  ): Promise<ImageInfo>;
  pull(reference: string, onProgress?: (p: ImageProgress) => void): Promise<ImageInfo>;
  list(): Promise<ImageInfo[]>;
  inspect(reference: string): Promise<ImageInfo>;
  /** Rejects with PERMISSION_DENIED for an image that the administrator shares. */
  remove(reference: string): Promise<void>;
}

/** The disk space of images. */
export interface ImageUsage {
  readonly images: number;
  readonly bytes: number;
  readonly maxBytes: number;
}

/** All images of a backend. Its own methods act for the administrator: what they import is shared with all owners. */
export interface ImageStore extends Images {
  /** Images as an owner other than the administrator sees and changes them. */
  of(owner: ImageOwner): Images;
  /** Of all owners together, where the store keeps the images itself. */
  usage(): ImageUsage | undefined;
  /** Calls back whenever a name may stand for something else than before. */
  onChange(listener: () => void): void;
  /** Removes what no reference and no living sandbox needs (by `SandboxHandle.imageDigest`); tells the bytes freed. */
  collectGarbage(
    inUse: ReadonlySet<string>,
  ): Promise<{ readonly removed: number; readonly freedBytes: number }>;
}

/** An image store that also holds the images' root filesystems, for backends that mount them. */
export interface RootfsStore extends ImageStore {
  /**
   * The root filesystem of an image that is present: of exactly the content `digest` when that is
   * given, else of a shared image. Rejects with INVALID_IMAGE when it is not present.
   */
  rootfs(reference: string, digest?: string): Promise<ImageRootfs>;
}
