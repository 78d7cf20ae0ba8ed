/** A certificate authority for one sandbox, and certificates for the hosts that it stands in for. */
import { webcrypto } from "node:crypto";
import { createSecureContext } from "node:tls";
import type { SecureContext } from "node:tls";
import "reflect-metadata";
import {
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  PemConverter,
  SubjectAlternativeNameExtension,
  X509Certificate,
  X509CertificateGenerator,
} from "@peculiar/x509";

const DAY_MS = 86_400_000;
/** Sessions last a year at most; clients refuse certificates of more than 398 days. */
const LIFETIME_DAYS = 390;
const ALGORITHM = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" } as const;

/** As it is stored, encrypted, for the next daemon. */
export interface StoredCa {
  readonly certificate: string;
  readonly key: string;
}

/**
 * SECURITY: the authority belongs to one sandbox and only that sandbox trusts it; its key never
 * leaves the daemon, so it cannot be used against anyone else. Guarded by session-ca.test.ts.
 */
export class SessionCa {
  /** For the sandbox to trust. */
  readonly certificate: string;
  readonly #stored: StoredCa;
  readonly #contexts = new Map<string, Promise<SecureContext>>();

  constructor(stored: StoredCa) {
    this.#stored = stored;
    this.certificate = stored.certificate;
  }

  static async make(nowMs: number): Promise<StoredCa> {
    const keys = await webcrypto.subtle.generateKey(ALGORITHM, true, ["sign", "verify"]);
    const certificate = await X509CertificateGenerator.createSelfSigned({
      name: "CN=Sandkasten gateway of one sandbox",
      ...validity(nowMs),
      keys,
      signingAlgorithm: ALGORITHM,
      extensions: [
        new BasicConstraintsExtension(true, 0, true),
        new KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign, true),
      ],
    });
    return { certificate: `${certificate.toString("pem")}\n`, key: await pemOf(keys.privateKey) };
  }

  /** The certificate for answering as this host. */
  async contextFor(host: string, nowMs: number): Promise<SecureContext> {
    const found = this.#contexts.get(host) ?? this.#issue(host, nowMs);
    this.#contexts.set(host, found);
    return await found;
  }

  async #issue(host: string, nowMs: number): Promise<SecureContext> {
    const signingKey = await webcrypto.subtle.importKey(
      "pkcs8",
      PemConverter.decodeFirst(this.#stored.key),
      ALGORITHM,
      false,
      ["sign"],
    );
    const issuer = new X509Certificate(this.certificate);
    const keys = await webcrypto.subtle.generateKey(ALGORITHM, true, ["sign", "verify"]);
    const certificate = await X509CertificateGenerator.create({
      subject: "CN=Sandkasten gateway",
      issuer: issuer.subject,
      ...validity(nowMs),
      publicKey: keys.publicKey,
      signingKey,
      signingAlgorithm: ALGORITHM,
      extensions: [
        new BasicConstraintsExtension(false, undefined, true),
        new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
        new ExtendedKeyUsageExtension([ExtendedKeyUsage.serverAuth]),
        new SubjectAlternativeNameExtension([{ type: "dns", value: host }]),
      ],
    });
    return createSecureContext({
      cert: `${certificate.toString("pem")}\n${this.certificate}`,
      key: await pemOf(keys.privateKey),
      minVersion: "TLSv1.2",
    });
  }
}

function validity(nowMs: number): { readonly notBefore: Date; readonly notAfter: Date } {
  return {
    // Clocks in the sandbox may be a little behind.
    notBefore: new Date(nowMs - DAY_MS),
    notAfter: new Date(nowMs + LIFETIME_DAYS * DAY_MS),
  };
}

async function pemOf(key: webcrypto.CryptoKey): Promise<string> {
  return PemConverter.encode(await webcrypto.subtle.exportKey("pkcs8", key), "PRIVATE KEY");
}
