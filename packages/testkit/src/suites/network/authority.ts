/** A certificate authority for one test, and a certificate that it issued for a server of the test. */
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
const NEW_KEY = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes".split(" ");

export interface TestAuthority {
  /** PEM, for sandboxes to trust. */
  readonly certificate: string;
  /** For the server with the name `host`. */
  readonly server: { readonly cert: string; readonly key: string };
}

export async function makeAuthority(host: string): Promise<TestAuthority> {
  const directory = await mkdtemp(join(tmpdir(), "sandkasten-test-"));
  const openssl = (...args: readonly (string | readonly string[])[]): Promise<unknown> =>
    run("openssl", args.flat(), { cwd: directory });
  const read = (name: string): Promise<string> => readFile(join(directory, name), "utf8");
  try {
    const authority = ["-x509", "-days", "1", "-subj", `/CN=Authority of ${host}`];
    await openssl("req", authority, NEW_KEY, ["-keyout", "ca.key", "-out", "ca.pem"]);
    const request = ["-subj", `/CN=${host}`, "-keyout", "server.key", "-out", "server.csr"];
    await openssl("req", NEW_KEY, request);
    await writeFile(join(directory, "names"), `subjectAltName=DNS:${host}\n`);
    const issue = "-req -days 1 -CA ca.pem -CAkey ca.key -CAcreateserial -extfile names";
    await openssl("x509", issue.split(" "), ["-in", "server.csr", "-out", "server.pem"]);
    const server = { cert: await read("server.pem"), key: await read("server.key") };
    return { certificate: await read("ca.pem"), server };
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
