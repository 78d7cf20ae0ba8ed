/** Finds where an image keeps the certificates that its programs trust, and adds one to them. */
import { createHash, X509Certificate } from "node:crypto";
import { posix } from "node:path";
import { rootCertificates } from "node:tls";
import type { SandboxProfile } from "../../ports/backend.ts";

/** Where a path of an image leads, links followed within the image. */
export interface ImageNode {
  /** Without links; the last parts need not exist. */
  readonly path: string;
  readonly kind: "file" | "directory" | "missing" | "other";
}

/** Looks at the files of an image. SECURITY: images are hostile, so no link leads out of one. */
export type LookAt = (path: string) => Promise<ImageNode>;

/** Paths without links in one image. */
export interface TrustStore {
  /** Files with all certificates, one after the other. The first need not exist. */
  readonly bundles: readonly string[];
  /** A file for one certificate, with the name that OpenSSL looks for. */
  readonly hashed: readonly string[];
  /** Where tools that regenerate the bundles look for the certificates of the administrator. */
  readonly anchors: readonly string[];
}

export interface TrustFile {
  readonly path: string;
  readonly content: string;
}

/** Debian's bundle, which Alpine and Arch have as well. */
const USUAL_DIRECTORY = "/etc/ssl/certs";
const USUAL_BUNDLE = `${USUAL_DIRECTORY}/ca-certificates.crt`;
const BUNDLES = [
  USUAL_BUNDLE,
  // Fedora and its relatives, the second for programs that look there directly.
  "/etc/pki/tls/certs/ca-bundle.crt",
  "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
  "/etc/pki/tls/cert.pem",
  // openSUSE.
  "/etc/ssl/ca-bundle.pem",
  // What OpenSSL reads first where it was built for /etc/ssl.
  "/etc/ssl/cert.pem",
];
const HASHED_DIRECTORIES = [USUAL_DIRECTORY, "/etc/pki/tls/certs"];
const ANCHOR_DIRECTORIES = ["/usr/local/share/ca-certificates", "/etc/pki/ca-trust/source/anchors"];
const ANCHOR_NAME = "sandkasten-gateway.crt";

/**
 * SECURITY: a hostile image may link its trust store to anywhere. Files are only ever laid over what
 * holds parts of a system, never over the mounts of the sandbox. Guarded by trust-store.test.ts.
 */
const SYSTEM_PATH = /^\/(?:etc|usr|var\/lib)\//;

/** Far more than any image has. */
export const MAX_BUNDLE_BYTES = 2 * 1024 * 1024;
const MAX_SAME_HASH = 10;

export async function findTrustStore(lookAt: LookAt, certificate: string): Promise<TrustStore> {
  const bundles = new Set<string>();
  for (const path of BUNDLES) {
    const { path: real, kind } = await lookAt(path);
    if (kind === "file" && SYSTEM_PATH.test(real)) bundles.add(real);
  }
  if (bundles.size === 0) {
    const { path: real, kind } = await lookAt(USUAL_BUNDLE);
    if (kind === "missing" && SYSTEM_PATH.test(real)) bundles.add(real);
  }
  return {
    bundles: [...bundles],
    hashed: await hashedFiles(lookAt, certificate),
    anchors: await directoriesOf(ANCHOR_DIRECTORIES, lookAt),
  };
}

/** What to put where, so that programs trust the certificate beside those that the image brings. */
export async function trustFiles(
  { bundles, hashed, anchors }: TrustStore,
  readText: (path: string) => Promise<string | undefined>,
  certificate: string,
  profile: SandboxProfile,
): Promise<TrustFile[]> {
  const files: TrustFile[] = [];
  for (const path of bundles) {
    const usual = (await readText(path)) ?? rootCertificates.join("\n");
    files.push({ path, content: `${usual.trimEnd()}\n${certificate}` });
  }
  // Only root can regenerate the bundles.
  const added = profile === "root" ? [...hashed, ...anchorFiles(anchors)] : hashed;
  return [...files, ...added.map((path) => ({ path, content: certificate }))];
}

function anchorFiles(directories: readonly string[]): string[] {
  return directories.map((directory) => posix.join(directory, ANCHOR_NAME));
}

async function hashedFiles(lookAt: LookAt, certificate: string): Promise<string[]> {
  const hash = subjectHash(certificate);
  const files: string[] = [];
  for (const directory of await directoriesOf(HASHED_DIRECTORIES, lookAt)) {
    // OpenSSL tries all certificates of a hash, from 0 up to the first that is missing.
    for (let number = 0; number < MAX_SAME_HASH; number++) {
      const path = posix.join(directory, `${hash}.${String(number)}`);
      if ((await lookAt(path)).kind !== "missing") continue;
      files.push(path);
      break;
    }
  }
  return files;
}

/** Those that exist or can be made; the first of several names of one. */
async function directoriesOf(paths: readonly string[], lookAt: LookAt): Promise<string[]> {
  const found = new Set<string>();
  for (const [index, path] of paths.entries()) {
    const { path: real, kind } = await lookAt(path);
    const isUsable = kind === "directory" || (kind === "missing" && index === 0);
    if (isUsable && SYSTEM_PATH.test(real)) found.add(real);
  }
  return [...found];
}

const SHORT_NAME = /^CN=([\x20-\x7e]{1,100})$/;

/**
 * The name that `openssl rehash` gives a certificate: a hash of its subject in canonical form. Only for
 * subjects of one short common name, as those of our own authorities are.
 */
export function subjectHash(certificate: string): string {
  const { subject } = new X509Certificate(certificate);
  const [, name] = SHORT_NAME.exec(subject) ?? [];
  if (name === undefined) throw new Error(`the subject ${subject} is not one short common name`);
  const canonical = Buffer.from(name.toLowerCase().trim().replaceAll(/ +/g, " "));
  // SET { SEQUENCE { OBJECT IDENTIFIER commonName, UTF8String } }
  const attribute = [0x06, 3, 0x55, 4, 3, 0x0c, canonical.length, ...canonical];
  const sequence = [0x30, attribute.length, ...attribute];
  const set = Buffer.from([0x31, sequence.length, ...sequence]);
  const digest = createHash("sha1").update(set).digest();
  return digest.readUInt32LE(0).toString(16).padStart(8, "0");
}
