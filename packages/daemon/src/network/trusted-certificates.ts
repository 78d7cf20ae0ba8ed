/** Makes the programs of a sandbox trust the gateway if it adds secrets. */
import { rootCertificates } from "node:tls";
import { SandboxError } from "@sandkasten/protocol";
import type { Channel } from "../ports/channel.ts";
import type { SessionNetwork } from "../ports/session-store.ts";

/** In the home directory, which every sandbox has and can write to. */
const BUNDLE_PATH = "/home/sandbox/.sandkasten/ca-certificates.pem";
/** Where distributions keep their certificates. */
const SYSTEM_BUNDLES = [
  "/etc/ssl/certs/ca-certificates.crt",
  "/etc/pki/tls/certs/ca-bundle.crt",
  "/etc/ssl/cert.pem",
];
const MAX_BUNDLE_BYTES = 4 * 1024 * 1024;

/** The variables that OpenSSL, Go, curl, Python, pip, Node, git, Cargo, Deno and the AWS tools read. */
const VARIABLES = [
  "SSL_CERT_FILE",
  "CURL_CA_BUNDLE",
  "REQUESTS_CA_BUNDLE",
  "PIP_CERT",
  "NODE_EXTRA_CA_CERTS",
  "GIT_SSL_CAINFO",
  "CARGO_HTTP_CAINFO",
  "DENO_CERT",
  "AWS_CA_BUNDLE",
];

export function certificateVariables(network: SessionNetwork): Readonly<Record<string, string>> {
  if (network === "none" || network === "engine" || network.secrets === undefined) return {};
  return Object.fromEntries(VARIABLES.map((name) => [name, BUNDLE_PATH]));
}

/** Writes the usual authorities and the sandbox's own to where the variables point. */
export async function trustCertificate(channel: Channel, certificate: string): Promise<void> {
  const usual = (await systemBundle(channel)) ?? rootCertificates.join("\n");
  // Usually, the backend has already added it to the trust store of the image.
  const bundle = usual.includes(certificate) ? usual : `${usual.trimEnd()}\n${certificate}`;
  await channel.writeFile(BUNDLE_PATH, Buffer.from(bundle), { mode: 0o644 });
}

async function systemBundle(channel: Channel): Promise<string | undefined> {
  for (const path of SYSTEM_BUNDLES) {
    try {
      const { body } = await channel.readFile(path, { length: MAX_BUNDLE_BYTES });
      const text = await new Response(body).text();
      if (text.includes("-----BEGIN CERTIFICATE-----")) return text;
    } catch (error) {
      // An image without one; other errors show when the bundle is written.
      if (!(error instanceof SandboxError)) throw error;
    }
  }
  return undefined;
}
