/**
 * Makes the programs of a container trust one more certificate. The engine writes to no read-only root,
 * so the directories of the trust store become volumes, which it fills from the image.
 */
import { posix } from "node:path";
import { findTrustStore, MAX_BUNDLE_BYTES, trustFiles } from "../container/trust-store.ts";
import type { ImageNode, LookAt, TrustStore } from "../container/trust-store.ts";
import type { SandboxSpec } from "../../ports/backend.ts";
import { archiveOf, firstFile } from "./archives.ts";
import type { Engine } from "./engine.ts";
import { withIdleContainer } from "./idle-container.ts";
import type { IdleContainer } from "./idle-container.ts";

const ARCHIVE_OVERHEAD_BYTES = 16 * 1024;

export class TrustedVolumes {
  readonly #engine: Engine;
  /** Images do not change, and our certificates have one subject; each image is looked at once. */
  readonly #stores = new Map<string, TrustStore>();

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /** Where the image keeps what its programs trust, if the sandbox is to trust more than that. */
  async storeFor(
    { trustedCertificate }: SandboxSpec,
    idle: IdleContainer,
  ): Promise<TrustStore | undefined> {
    if (trustedCertificate === undefined) return undefined;
    const known = this.#stores.get(idle.imageId);
    if (known !== undefined) return known;
    const store = await withIdleContainer(this.#engine, idle, (container) =>
      findTrustStore(this.#lookInto(container), trustedCertificate),
    );
    this.#stores.set(idle.imageId, store);
    return store;
  }

  /** Adds the certificate to the volumes of a container that has not been started. */
  async fill(
    container: string,
    store: TrustStore | undefined,
    { trustedCertificate, profile }: SandboxSpec,
  ): Promise<void> {
    if (store === undefined || trustedCertificate === undefined) return;
    const read = async (path: string): Promise<string | undefined> => {
      const maxBytes = MAX_BUNDLE_BYTES + ARCHIVE_OVERHEAD_BYTES;
      const archive = await this.#engine.getArchive(container, path, maxBytes);
      return archive && firstFile(archive)?.toString("utf8");
    };
    const files = await trustFiles(store, read, trustedCertificate, profile);
    for (const { path, content } of files) {
      const file = { name: posix.basename(path), mode: 0o644, bytes: Buffer.from(content) };
      await this.#engine.putArchive(container, posix.dirname(path), archiveOf([file]));
    }
  }

  #lookInto(container: string): LookAt {
    const lookAt = async (path: string): Promise<ImageNode> => {
      if (path === "/") return { path, kind: "directory" };
      const parent = await lookAt(posix.dirname(path));
      const real = posix.join(parent.path, posix.basename(path));
      if (parent.kind === "missing") return { path: real, kind: "missing" };
      if (parent.kind !== "directory") return { path: real, kind: "other" };
      const found = await this.#engine.lookAt(container, real);
      if (found.kind !== "link") return { path: real, kind: found.kind };
      // The engine follows a link to its end, within the container.
      const end = await this.#engine.lookAt(container, found.target);
      return { path: found.target, kind: end.kind === "link" ? "other" : end.kind };
    };
    return lookAt;
  }
}

/** The directories that must be volumes, so that files can be put there. */
export function trustDirectories(
  store: TrustStore | undefined,
  { profile }: SandboxSpec,
): readonly string[] {
  if (store === undefined) return [];
  const files = [...store.bundles, ...store.hashed].map((path) => posix.dirname(path));
  return [...new Set([...files, ...(profile === "root" ? store.anchors : [])])];
}
