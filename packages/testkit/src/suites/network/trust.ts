/** Programs trust the authority of their sandbox without any variable in their environment. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { makeAuthority } from "./authority.ts";
import { gitRepository } from "./repositories.ts";
import type { NetworkSetup } from "./setup.ts";
import { TRUSTED_HOST } from "./test-network.ts";
import { serveFiles } from "./world.ts";
import type { Served } from "./world.ts";

const HELLO = "hello over TLS\n";
const STRANGER = "stranger.test";

/** Where each program looks: a bundle, OpenSSL's hashed directory, or both. */
const PROGRAMS: Readonly<Record<string, { readonly command: string; readonly prints: string }>> = {
  curl: { command: "curl -sS URL/hello", prints: HELLO },
  wget: { command: "wget -qO- URL/hello", prints: HELLO },
  git: {
    command: "rm -rf trusted && git clone -q URL/hello.git trusted && cat trusted/hello.txt",
    prints: "hello from git\n",
  },
  openssl: {
    command: "echo | openssl s_client -brief -verify_return_error -connect HOST 2>&1 | grep ^Verif",
    prints: "Verification: OK\n",
  },
  Python: {
    command: `/usr/bin/python3 -c 'import urllib.request; print(urllib.request.urlopen("URL/hello", timeout=20).read().decode(), end="")'`,
    prints: HELLO,
  },
  "Node with --use-openssl-ca": {
    command: `node --use-openssl-ca -e 'fetch("URL/hello").then(async (r) => process.stdout.write(await r.text()))'`,
    prints: HELLO,
  },
  Go: {
    command: "GOROOT=/usr/local/go GOPROXY=URL GOSUMDB=off go list -m -versions hello.test/mod",
    prints: "hello.test/mod v1.0.0\n",
  },
};

export function trustSuite(setup: () => NetworkSetup): void {
  const served: Served[] = [];
  let trusted: Served;
  let stranger: Served;
  beforeAll(async () => {
    const { network } = setup();
    const files = new Map<string, Uint8Array | string>([
      ...(await gitRepository()),
      ["/hello", HELLO],
      ["/hello.test/mod/@v/list", "v1.0.0\n"],
      ["/hello.test/mod/@v/v1.0.0.info", '{"Version":"v1.0.0"}'],
      ["/hello.test/mod/@v/v1.0.0.mod", "module hello.test/mod\n"],
    ]);
    trusted = await serveFiles(files, undefined, network.authority.server);
    stranger = await serveFiles(files, undefined, (await makeAuthority(STRANGER)).server);
    served.push(trusted, stranger);
    network.allow(TRUSTED_HOST, trusted.port);
    network.allow(STRANGER, stranger.port);
  });
  afterAll(async () => {
    for (const { close } of served.splice(0)) await close();
  });

  /** Runs a command in an environment with nothing but PATH and HOME. */
  const bare = async (command: string, host: string, port: number): Promise<string> => {
    const address = `${host}:${String(port)}`;
    const text = command.replaceAll("URL", `https://${address}`).replaceAll("HOST", address);
    const path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/go/bin";
    const { stdout, stderr } = await setup().sh(
      `env -i PATH=${path} HOME=/tmp sh <<'END'\n${text}\nEND`,
    );
    return stdout + stderr;
  };

  it.for(Object.entries(PROGRAMS))(
    "%s trusts the authority of its sandbox with an empty environment",
    async ([name, { command, prints }], context) => {
      const { end } = await setup().sh("ls /usr/local/go/bin/go");
      if (name === "Go" && end.exitCode !== 0) context.skip("this machine has no Go");
      expect(await bare(command, TRUSTED_HOST, trusted.port)).toBe(prints);
    },
  );

  it("does not trust other authorities", async () => {
    const said = await bare(`${PROGRAMS["curl"]?.command ?? ""}; echo $?`, STRANGER, stranger.port);
    // curl's exit code for an untrusted certificate.
    expect(said).toMatch(/60\n/);
    const python = await bare(PROGRAMS["Python"]?.command ?? "", STRANGER, stranger.port);
    expect(python).toContain("CERTIFICATE_VERIFY_FAILED");
  });

  it("still trusts the authorities of the image", async () => {
    const { stdout } = await setup().sh(
      "grep -c BEGIN /etc/ssl/certs/ca-certificates.crt; ls /etc/ssl/certs/*.0 | wc -l",
    );
    const [bundled = 0, hashed = 0] = stdout.trim().split("\n").map(Number);
    expect([bundled > 100, hashed > 100]).toEqual([true, true]);
  });
}
