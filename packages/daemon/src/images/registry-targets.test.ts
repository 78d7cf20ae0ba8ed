/** Registries that redirect clients to forbidden targets. */
import { execFile } from "node:child_process";
import { createServer } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { IncomingMessage, RequestListener, Server, ServerResponse } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { parseReference } from "./reference.ts";
import { RegistryConnection } from "./registry-connection.ts";
import { RegistryImages } from "./registry-images.ts";
import { RegistryPolicy } from "./registry-policy.ts";
import { sha256 } from "./testing/oci-writer.ts";

interface Listening {
  readonly address: string;
  readonly requests: { readonly url: string; readonly authorization: string | undefined }[];
}

const servers: Server[] = [];
let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "sandkasten-targets-"));
});
afterEach(async () => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
  await rm(directory, { recursive: true, force: true });
});

async function listen(answer: RequestListener, host = "127.0.0.1"): Promise<Listening> {
  const requests: Listening["requests"] = [];
  const server = createServer((request, response) => {
    requests.push({ url: request.url ?? "", authorization: request.headers.authorization });
    answer(request, response);
  });
  servers.push(server);
  server.listen(0, host);
  await once(server, "listening");
  return { address: `${host}:${(server.address() as AddressInfo).port}`, requests };
}

/** An internal service, which must receive no request. */
async function internalService(): Promise<Listening> {
  return await listen((_request, response) => {
    response.end(JSON.stringify({ token: "internal-secret", page: "internal-secret" }));
  });
}

const manifestOf = (layer: { digest: string; size: number }, config: Buffer): Buffer =>
  Buffer.from(
    JSON.stringify({
      schemaVersion: 2,
      config: { mediaType: "x", digest: sha256(config), size: config.length },
      layers: [{ mediaType: "application/vnd.oci.image.layer.v1.tar", ...layer }],
    }),
  );

function imagesFor(...registries: string[]): { images: RegistryImages; logged: string[] } {
  const logged: string[] = [];
  const note = (fields: object, message: string): void => {
    const { err } = fields as { err?: Error };
    logged.push(`${message}: ${err?.message}`);
  };
  return {
    logged,
    images: new RegistryImages({
      policy: new RegistryPolicy({ registries: [], insecureRegistries: registries }),
      credentialsFile: join(directory, "none"),
      helpers: { env: {}, timeoutMs: 1000 },
      timeoutMs: 20_000,
      log: { info: note, warn: note, error: note },
    }),
  };
}

/** What the client of a failing pull learns. */
async function messageOf(pull: Promise<unknown>): Promise<string> {
  return await pull.then(
    () => expect.fail("it did not fail"),
    ({ code, message }: { code: string; message: string }) => `${code} ${message}`,
  );
}

describe("a registry that redirects to an internal address", () => {
  const redirect =
    (to: () => string) =>
    (_request: IncomingMessage, response: ServerResponse): void => {
      response.writeHead(307, { location: to() }).end();
    };
  const challenge =
    (realm: () => string) =>
    (_request: IncomingMessage, response: ServerResponse): void => {
      response.writeHead(401, { "www-authenticate": `Bearer realm="${realm()}",service="x"` });
      response.end();
    };

  test.each([
    ["by a redirect", redirect],
    ["by a token realm", challenge],
  ])("%s reaches nothing, and the client learns nothing", async (_how, lead) => {
    const inside = await internalService();
    const targets = [
      `http://${inside.address}/secret`,
      `http://127.1:${inside.address.split(":")[1]}/secret`,
      `http://2130706433:${inside.address.split(":")[1]}/secret`,
      `http://[::ffff:127.0.0.1]:${inside.address.split(":")[1]}/secret`,
      `http://user:password@${inside.address}/secret`,
      `https://${inside.address}/secret`,
      `http://localhost:${inside.address.split(":")[1]}/secret`,
      "http://127.0.0.1:1/closed",
      "http://169.254.169.254/latest/meta-data/",
      "https://no-such-name.invalid/",
      "gopher://127.0.0.1:1/",
    ];
    let target = "";
    const hostile = await listen(lead(() => target));
    const { images, logged } = imagesFor(hostile.address);
    const reference = parseReference(`${hostile.address}/app:1`);
    const messages = new Set<string>();
    for (target of targets) messages.add(await messageOf(images.locate(reference)));
    expect([...messages]).toEqual([
      `REGISTRY_UNREACHABLE ${reference.canonical} cannot be pulled: its registry did not respond. Try again; the daemon's log has details.`,
    ]);
    expect(inside.requests).toEqual([]);
    expect(logged).toHaveLength(targets.length);
    expect(logged[0]).toContain(`http://${inside.address} does not use TLS`);
  });

  test("for a blob reaches nothing either, and leaves no file with details", async () => {
    const inside = await internalService();
    const config = Buffer.from("{}");
    const manifest = manifestOf({ digest: sha256("a layer"), size: 7 }, config);
    const hostile = await listen((request, response) => {
      if (request.url?.includes("/manifests/")) response.end(manifest);
      else if (request.url?.endsWith(sha256(config))) response.end(config);
      else response.writeHead(302, { location: `http://${inside.address}/` }).end();
    });
    const { images } = imagesFor(hostile.address);
    const reference = parseReference(`${hostile.address}/app:1`);
    const remote = await images.locate(reference);
    const pull = images.download(reference, remote, directory, () => undefined);
    expect(await messageOf(pull)).toContain("REGISTRY_UNREACHABLE");
    expect(inside.requests).toEqual([]);
  });

  test("with endless redirects is aborted", async () => {
    const hostile = await listen((request, response) => {
      response.writeHead(302, { location: `${request.url}x` }).end();
    });
    const { images } = imagesFor(hostile.address);
    const pull = images.locate(parseReference(`${hostile.address}/app:1`));
    expect(await messageOf(pull)).toContain("INVALID_IMAGE");
    expect(hostile.requests).toHaveLength(6);
  });

  test("with a name that changes its address reaches only the checked address", async () => {
    const service = await listen((_request, response) => void response.end("{}"), "127.0.0.2");
    const port = service.address.split(":")[1];
    // The machine resolves it to 127.0.0.1, where nothing listens.
    const answers = ["127.0.0.2"];
    const policy = new RegistryPolicy({
      registries: [],
      insecureRegistries: [`localhost:${port}`],
      resolve: async () => {
        const address = answers.shift() ?? expect.fail("the name was looked up again");
        return await Promise.resolve([{ address, family: 4 }]);
      },
    });
    using registry = new RegistryConnection({
      reference: parseReference(`localhost:${port}/app:1`),
      policy,
      credentials: undefined,
      signal: AbortSignal.timeout(20_000),
    });
    await registry.read("manifests/1", [], 1000);
    expect(service.requests).toHaveLength(1);
    expect(answers).toEqual([]);
  });
});

test("a registry with TLS must have a certificate that the machine trusts", async () => {
  const paths = { key: join(directory, "key.pem"), cert: join(directory, "cert.pem") };
  const kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"];
  const subject = ["-subj", "/CN=registry", "-addext", "subjectAltName=IP:127.0.0.1"];
  const files = ["-keyout", paths.key, "-out", paths.cert];
  await promisify(execFile)("openssl", ["req", "-x509", "-nodes", ...kind, ...subject, ...files]);
  const cert = await readFile(paths.cert, "utf8");
  const server = createSecureServer(
    { key: await readFile(paths.key), cert },
    (_request, response) => void response.end("a manifest"),
  );
  servers.push(server);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const connection = (...certificates: string[]): RegistryConnection =>
    new RegistryConnection({
      reference: parseReference(`${address}/app:1`),
      policy: new RegistryPolicy({ registries: [address], insecureRegistries: [] }),
      credentials: undefined,
      signal: AbortSignal.timeout(20_000),
      certificates,
    });
  using trusting = connection(cert);
  expect(String(await trusting.read("manifests/1", [], 1000))).toBe("a manifest");
  using suspicious = connection();
  await expect(suspicious.read("manifests/1", [], 1000)).rejects.toMatchObject({
    fault: "unreachable",
  });
});

describe("credentials", () => {
  test("are sent to their registry, and not to the target of a redirect", async () => {
    const other = await listen((_request, response) => {
      response.end("{}");
    });
    const first = await listen((request, response) => {
      if (request.headers.authorization === undefined)
        response.writeHead(401, { "www-authenticate": 'Basic realm="x"' }).end();
      else response.writeHead(307, { location: `http://${other.address}/elsewhere` }).end();
    });
    const policy = new RegistryPolicy({
      registries: [],
      insecureRegistries: [first.address, other.address],
    });
    using registry = new RegistryConnection({
      reference: parseReference(`${first.address}/app:1`),
      policy,
      credentials: { username: "alice", password: "pass-1", serveraddress: first.address },
      signal: AbortSignal.timeout(20_000),
    });
    await registry.read("manifests/1", [], 1000);
    expect(first.requests.map(({ authorization }) => authorization)).toEqual([
      undefined,
      `Basic ${Buffer.from("alice:pass-1").toString("base64")}`,
    ]);
    expect(other.requests).toEqual([{ url: "/elsewhere", authorization: undefined }]);
  });

  test("are exchanged for a token if the registry requires one", async () => {
    const realm = await listen((_request, response) => {
      response.end(JSON.stringify({ access_token: "token-1" }));
    });
    const registry = await listen((request, response) => {
      const challenge = `Bearer realm="http://${realm.address}/token?a=b",service="the registry"`;
      if (request.headers.authorization === "Bearer token-1") response.end("a manifest");
      else response.writeHead(401, { "www-authenticate": challenge }).end();
    });
    const connection = (credentials: object): RegistryConnection =>
      new RegistryConnection({
        reference: parseReference(`${registry.address}/team/app:1`),
        policy: new RegistryPolicy({
          registries: [],
          insecureRegistries: [registry.address, realm.address],
        }),
        credentials: { serveraddress: "x", ...credentials } as never,
        signal: AbortSignal.timeout(20_000),
      });
    using withPassword = connection({ username: "alice", password: "pass-1" });
    expect(String(await withPassword.read("manifests/1", [], 1000))).toBe("a manifest");
    expect(realm.requests).toEqual([
      {
        url: "/token?a=b&scope=repository%3Ateam%2Fapp%3Apull&service=the+registry",
        authorization: `Basic ${Buffer.from("alice:pass-1").toString("base64")}`,
      },
    ]);
    using withToken = connection({ identitytoken: "identity-1" });
    expect(String(await withToken.read("manifests/1", [], 1000))).toBe("a manifest");
    expect(realm.requests[1]).toEqual({ url: "/token?a=b", authorization: undefined });
  });
});
