/** Certificates for TLS on loopback, from an authority created for one test. */
import { execFile } from "node:child_process";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
const NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];

export interface Certificates {
  /**
   * Contains `ca.pem`, the server's `server.pem` and `server-key.pem`, and a client's `cert.pem`
   * and `key.pem`.
   */
  readonly directory: string;
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
}

export interface CertificateOptions {
  /** The server's certificate expires a second later. */
  readonly serverExpires?: boolean;
}

/** Creates an authority, a server's certificate for 127.0.0.1 and a client's, in a new directory. */
export async function makeCertificates(
  directory: string,
  { serverExpires = false }: CertificateOptions = {},
): Promise<Certificates> {
  await mkdir(directory);
  const openssl = (...args: readonly string[]): Promise<unknown> =>
    run("openssl", [...args], { cwd: directory });
  const authority = ["-subj", "/CN=test authority", "-days", "1"];
  await openssl(
    "req",
    "-x509",
    ...NEW_KEY,
    ...authority,
    "-keyout",
    "ca-key.pem",
    "-out",
    "ca.pem",
  );
  const sign = async (name: string, keyName: string, usage: string, days: number) => {
    const request = ["-subj", `/CN=test ${name}`, "-keyout", keyName, "-out", `${name}.csr`];
    await openssl("req", ...NEW_KEY, ...request);
    const extensions = `extendedKeyUsage=${usage}\nsubjectAltName=IP:127.0.0.1\n`;
    await writeFile(join(directory, `${name}.ext`), extensions);
    const files = ["-in", `${name}.csr`, "-extfile", `${name}.ext`, "-out", `${name}.pem`];
    const authority = "-CA ca.pem -CAkey ca-key.pem -CAcreateserial".split(" ");
    await openssl("x509", "-req", ...authority, "-days", String(days), ...files);
  };
  await sign("server", "server-key.pem", "serverAuth", serverExpires ? 0 : 1);
  await sign("cert", "key.pem", "clientAuth", 1);
  const read = (name: string): Promise<string> => readFile(join(directory, name), "utf8");
  return {
    directory,
    ca: await read("ca.pem"),
    cert: await read("cert.pem"),
    key: await read("key.pem"),
  };
}

/** Arguments for a dockerd that requires client certificates of the same authority. */
export function tlsEngineArgs({ directory }: Certificates, port: number): string[] {
  return [
    "--tlsverify",
    `--tlscacert=${join(directory, "ca.pem")}`,
    `--tlscert=${join(directory, "server.pem")}`,
    `--tlskey=${join(directory, "server-key.pem")}`,
    `--host=tcp://127.0.0.1:${port}`,
  ];
}
