/** Networks of sandboxes with a real daemon, real programs, and test servers on loopback. */
import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { IncomingMessage, Server } from "node:http";
import { createServer as createTlsServer, get } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { gitRepository, pythonIndex } from "@sandkasten/testkit";
import { SandboxClient } from "@sandkasten/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { SessionCa } from "../../packages/daemon/src/network/session-ca.ts";
import { codeBlocks } from "../support/markdown.ts";
import { startNameServer } from "../support/name-server.ts";
import type { NameServer } from "../support/name-server.ts";
import { TestDaemon } from "../support/test-daemon.ts";

const run = promisify(execFile);
const SECRET = "Bearer s3cr3t-for-the-edge-only";

let directory: string;
let names: NameServer;
let web: Server;
let api: Server;
let daemon: TestDaemon;
let webPort: number;
let apiPort: number;
/** Files that can only be downloaded with the secret. */
const privateFiles = new Map<string, Uint8Array | string>();
const seen: { readonly authorization: string | undefined; readonly url: string }[] = [];

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "sandkasten-network-"));
  names = await startNameServer();
  await makeWheel(directory);
  web = createServer((request, response) => {
    const url = request.url ?? "";
    response.setHeader("Content-Type", url.endsWith(".whl") ? "application/zip" : "text/html");
    if (url === "/endless") response.write("begun\n");
    else void serveWeb(url).then((body) => response.end(body));
  });
  webPort = await listening(web);
  const authority = new SessionCa(await SessionCa.make(Date.now()));
  const context = await authority.contextFor("api.test", Date.now());
  api = createTlsServer(
    { SNICallback: (_name, done) => done(null, context) },
    (request, response) => {
      const { authorization } = request.headers;
      const url = request.url ?? "";
      seen.push({ authorization, url });
      const file = privateFiles.get(new URL(url, "https://api.test").pathname);
      if (file !== undefined && authorization !== SECRET) response.writeHead(401);
      if (url.endsWith("/")) response.setHeader("Content-Type", "text/html");
      response.end(file ?? "authorised\n");
    },
  );
  apiPort = await listening(api);
  for (const files of [await gitRepository(), await pythonIndex()])
    for (const [path, content] of files) privateFiles.set(path, content);
  await writeFile(join(directory, "authority.pem"), authority.certificate);
  const addresses = [webPort, apiPort].map((port) => `127.0.0.1:${port}`);
  daemon = await TestDaemon.start({
    settings: {
      NETWORK_ALLOW: [
        `web.test:${webPort}`,
        `api.test:${apiPort}`,
        "tried.test:443",
        ...addresses,
      ].join(","),
      NETWORK_NAME_SERVERS: names.address,
      NETWORK_CA_FILE: join(directory, "authority.pem"),
      DEFAULTS_MEM_LIMIT_MB: "512",
      DEFAULTS_DISK_LIMIT_MB: "128",
    },
  });
});

afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
  web.closeAllConnections();
  web.close();
  api.closeAllConnections();
  api.close();
  await names[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

async function listening(server: Server): Promise<number> {
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  return (server.address() as AddressInfo).port;
}

/** A package index with one package. */
async function serveWeb(url: string): Promise<string | Buffer> {
  if (url === "/simple/requests/")
    return '<a href="/files/requests-1.0-py3-none-any.whl">requests-1.0-py3-none-any.whl</a>';
  if (url.startsWith("/files/"))
    return await readFile(join(directory, url.slice("/files/".length)));
  return "hello\n";
}

async function makeWheel(place: string): Promise<void> {
  const program = [
    "import zipfile",
    "wheel = zipfile.ZipFile('requests-1.0-py3-none-any.whl', 'w')",
    "wheel.writestr('requests.py', 'word = \"installed\"')",
    "info = 'requests-1.0.dist-info/'",
    "wheel.writestr(info + 'METADATA', 'Metadata-Version: 2.1\\nName: requests\\nVersion: 1.0\\n')",
    "wheel.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')",
    "wheel.writestr(info + 'RECORD', '')",
    "wheel.close()",
  ].join("\n");
  await run("/usr/bin/python3", ["-c", program], { cwd: place });
}

async function open(body: object): Promise<string> {
  return await daemon.open(body as Record<string, unknown>);
}

interface Recorded {
  readonly name?: string;
  readonly verdict: string;
  readonly reason?: string;
  readonly received_bytes: number;
}

async function egress(id: string): Promise<readonly Recorded[]> {
  const { body } = await daemon.call<{ records: Recorded[] }>("GET", `/v1/sessions/${id}/egress`);
  return body.records;
}

const toWeb = (): object => ({
  network: { allow: [`web.test:${webPort}`, `127.0.0.1:${webPort}`] },
});

describe("a sandbox with a network", () => {
  it("installs a package as the guide says, from a test index", async () => {
    const guide = await readFile("docs/guides/network.md", "utf8");
    const recipe = codeBlocks(guide, "shell").find(({ text }) => text.startsWith("pip install"));
    const id = await open({
      ...toWeb(),
      env: {
        PIP_INDEX_URL: `http://web.test:${webPort}/simple`,
        PIP_TRUSTED_HOST: "web.test",
        PIP_DISABLE_PIP_VERSION_CHECK: "1",
      },
    });
    const result = await daemon.exec(
      id,
      `${recipe?.text ?? "false"}\nPYTHONPATH=/workspace/lib python3 -c 'import requests; print(requests.word)'`,
    );
    expect([result["exit_code"], result["stderr"]]).toEqual([0, expect.anything()]);
    expect(String(result["stdout"])).toContain("installed\n");
    const records = await egress(id);
    expect(records.filter(({ verdict }) => verdict !== "allowed")).toEqual([]);
    expect(records.map(({ name }) => name)).toContain("web.test");
  });

  it("reaches no other host, and the record says so", async () => {
    const id = await open(toWeb());
    const { stdout } = await daemon.exec(
      id,
      `curl -s http://web.test:${webPort}/; curl -s -o /dev/null -w '%{http_code}\\n' http://evil.test/; curl -s -m 5 --noproxy '*' http://evil.test/ || echo no name`,
    );
    expect(stdout).toBe("hello\n403\nno name\n");
    expect(names.asked).not.toContain("evil.test");
    const refused = (await egress(id)).filter(({ verdict }) => verdict === "refused");
    expect(refused.map(({ name }) => name)).toContain("evil.test");
  });

  it("cannot exceed the administrator's maximum, and loses removed hosts at once", async () => {
    const id = await open(toWeb());
    const beyond = await daemon.call("PUT", `/v1/sessions/${id}/network`, { allow: ["evil.test"] });
    expect(beyond.status).toBe(403);
    expect(await daemon.exec(id, `curl -s http://web.test:${webPort}/`)).toMatchObject({
      stdout: "hello\n",
    });
    expect((await daemon.call("PUT", `/v1/sessions/${id}/network`, { allow: [] })).status).toBe(
      200,
    );
    const after = await daemon.exec(
      id,
      `curl -s -o /dev/null -w '%{http_code}' http://web.test:${webPort}/`,
    );
    expect(after).toMatchObject({ stdout: "403" });
  });

  it("loses open connections that are no longer allowed, and keeps the others", async () => {
    const id = await open(toWeb());
    const endless = `http://web.test:${webPort}/endless`;
    // Through the proxy, and with a program that does not know the proxy.
    await daemon.exec(
      id,
      `for way in "" "--noproxy *"; do (set -f; curl -sSN $way ${endless} >>cut.out 2>&1; echo "ended $?" >>cut.out) & done; ` +
        "until [ $(grep -c begun cut.out) = 2 ]; do sleep 0.05; done",
    );
    const put = async (allow: readonly string[]): Promise<number> =>
      (await daemon.call("PUT", `/v1/sessions/${id}/network`, { allow })).status;
    const ofWeb = [`web.test:${webPort}`, `127.0.0.1:${webPort}`];
    expect(await put([...ofWeb, "tried.test:443"])).toBe(200);
    expect(await daemon.exec(id, "sleep 0.3; grep -c ended cut.out")).toMatchObject({
      stdout: "0\n",
    });
    expect(await put(["tried.test:443"])).toBe(200);
    const { stdout } = await daemon.exec(
      id,
      "until [ $(grep -c ended cut.out) = 2 ]; do sleep 0.05; done; grep -o 'ended [0-9]*' cut.out",
    );
    // curl fails if it could not receive everything. Both write to one file, so a message of one may
    // end in a line of the other.
    expect(stdout).toMatch(/^(?:ended (?:18|56)\n){2}$/);
    const cut = (await egress(id)).filter(({ verdict }) => verdict === "refused");
    expect(cut.map(({ name, received_bytes: bytes }) => [name, bytes > 0])).toEqual([
      ["web.test", true],
      ["web.test", true],
    ]);
  });

  it("can be changed and followed with the SDK", async () => {
    const client = new SandboxClient({ baseUrl: daemon.url, apiKey: daemon.apiKey });
    await using session = await client.createSession({ network: { allow: [] } });
    const ask = `curl -s -o /dev/null -w '%{http_code}' http://web.test:${webPort}/`;
    expect((await session.exec(ask)).stdout).toBe("403");
    const allow = [`web.test:${webPort}`, `127.0.0.1:${webPort}`];
    expect((await session.setNetwork({ allow })).network).toEqual({ allow });
    expect((await session.exec(ask)).stdout).toBe("200");
    await expect(session.setNetwork({ allow: ["evil.test"] })).rejects.toMatchObject({
      code: "PERMISSION_DENIED",
      message: expect.stringContaining("network.allow") as string,
    });
    const followed: unknown[] = [];
    for await (const { name, verdict } of session.followEgress()) {
      followed.push([name, verdict]);
      if (followed.length === 2) break;
    }
    expect(followed).toEqual([
      ["web.test", "refused"],
      ["web.test", "allowed"],
    ]);
    const { records, open } = await session.egress({ cursor: 1 });
    expect([records.map(({ verdict }) => verdict), open]).toEqual([["allowed"], []]);
  });

  it("tries allowed and forbidden destinations for its isolation report, and nothing leaves the machine", async () => {
    const id = await open({ network: { allow: ["tried.test:443"] } });
    const { body } = await daemon.call<{
      tier: string;
      facts: { name: string; enforced: boolean; measured: string }[];
    }>("GET", `/v1/sessions/${id}/isolation`);
    const fact = body.facts.find(({ name }) => name === "network_rules");
    expect(fact).toMatchObject({ enforced: true });
    expect(fact?.measured).toMatch(/^tried\.test resolves inside to (?:198\.1[89]|127\.198)\./);
    expect(fact?.measured).toContain("forbidden.invalid:443 was refused by the proxy (403)");
    expect(fact?.measured).toContain("forbidden.invalid does not exist inside");
    expect(fact?.measured).toContain("169.254.169.254:80 was refused by the proxy (403)");
    for (const name of ["tried.test", "forbidden.invalid"]) expect(names.asked).not.toContain(name);
    const { body: without } = await daemon.call<{ facts: { name: string }[] }>(
      "GET",
      `/v1/sessions/${await open({})}/isolation`,
    );
    expect(without.facts.map(({ name }) => name)).not.toContain("network_rules");
  });

  it("has its network again after the daemon was killed", async () => {
    const id = await open(toWeb());
    await daemon.kill();
    await daemon.run();
    expect(await daemon.exec(id, `curl -s http://web.test:${webPort}/`)).toMatchObject({
      stdout: "hello\n",
    });
  });

  it("must name in TLS the host that it connects to", async () => {
    const id = await open({ network: { allow: [`api.test:${apiPort}`, `127.0.0.1:${apiPort}`] } });
    const before = seen.length;
    const result = await daemon.exec(
      id,
      `curl -sk -m 10 --connect-to other.test:443:api.test:${apiPort} https://other.test/`,
    );
    expect(result["exit_code"]).not.toBe(0);
    expect(seen).toHaveLength(before);
    expect(await egress(id)).toContainEqual(
      expect.objectContaining({
        name: "api.test",
        verdict: "refused",
        reason: expect.stringContaining("not other.test") as string,
      }),
    );
  });
});

describe("a secret at the edge", () => {
  it("lets git clone and pip install from a host that requires it", async () => {
    const id = await open({
      network: { allow: [`api.test:${apiPort}`, `127.0.0.1:${apiPort}`] },
      secrets: [{ host: "api.test", header: "Authorization", value: SECRET }],
    });
    const url = `https://api.test:${apiPort}`;
    const result = await daemon.exec(
      id,
      [
        `git clone -q ${url}/hello.git && cat hello/hello.txt`,
        `pip install -q --disable-pip-version-check --no-cache-dir --target lib --index-url ${url}/simple sandkasten-hello`,
        "PYTHONPATH=lib python3 -m sandkasten_hello",
      ].join("\n"),
    );
    expect(result).toMatchObject({
      exit_code: 0,
      stdout: "hello from git\nhello from pip\n",
    });
    expect((await fetchPrivate()).status).toBe(401);
  });

  it("is added to requests of programs with an empty environment", async () => {
    const id = await open({
      network: { allow: [`api.test:${apiPort}`, `127.0.0.1:${apiPort}`] },
      secrets: [{ host: "api.test", header: "Authorization", value: SECRET }],
    });
    seen.length = 0;
    const url = `https://api.test:${apiPort}`;
    const fetches = [
      `curl -sS ${url}/curl`,
      `wget -qO- ${url}/wget`,
      `python3 -c 'import urllib.request; print(urllib.request.urlopen("${url}/python").read().decode(), end="")'`,
      `node --use-openssl-ca -e 'fetch("${url}/node").then((r) => r.text()).then((t) => process.stdout.write(t))'`,
    ];
    const fetchAll = async (): Promise<unknown> =>
      (await daemon.exec(id, fetches.map((fetch) => `env -i PATH=$PATH ${fetch}`).join("\n")))[
        "output"
      ];
    expect(await fetchAll()).toBe("authorised\n".repeat(4));
    expect(seen.map(({ authorization }) => authorization)).toEqual(fetches.map(() => SECRET));
    // Neither a change of the network nor a new daemon changes which authorities programs trust.
    const allow = [`api.test:${apiPort}`, `127.0.0.1:${apiPort}`, "tried.test:443"];
    expect((await daemon.call("PUT", `/v1/sessions/${id}/network`, { allow })).status).toBe(200);
    await daemon.kill();
    await daemon.run();
    expect(await fetchAll()).toBe("authorised\n".repeat(4));
  });

  it("is added to requests of curl, Python and Node, and nothing else", async () => {
    const id = await open({
      network: { allow: [`api.test:${apiPort}`, `127.0.0.1:${apiPort}`] },
      secrets: [{ host: "api.test", header: "Authorization", value: SECRET }],
    });
    seen.length = 0;
    const url = `https://api.test:${apiPort}`;
    const result = await daemon.exec(
      id,
      [
        `curl -sS -H 'Authorization: Bearer forged' ${url}/curl`,
        `python3 -c 'import urllib.request; print(urllib.request.urlopen("${url}/python").read().decode(), end="")'`,
        `node -e 'fetch("${url}/node").then((r) => r.text()).then((t) => process.stdout.write(t))'`,
      ].join("\n"),
    );
    expect(result).toMatchObject({ exit_code: 0, stdout: "authorised\n".repeat(3) });
    expect(seen).toEqual(
      ["/curl", "/python", "/node"].map((path) => ({ authorization: SECRET, url: path })),
    );
    const { body: session } = await daemon.call("GET", `/v1/sessions/${id}`);
    expect(session).toMatchObject({ secrets: [{ host: "api.test", header: "authorization" }] });
    const inside = await daemon.exec(
      id,
      "env; cat /proc/[0-9]*/environ 2>/dev/null; grep -ra s3cr3t /workspace /home /tmp /run /etc 2>/dev/null",
    );
    const outside = [
      JSON.stringify(session),
      JSON.stringify(await egress(id)),
      daemon.log,
      await everythingIn(daemon.dataDir),
    ].join("\n");
    for (const text of [String(inside["output"]), outside])
      for (const encoding of ["latin1", "base64", "hex"] as const)
        expect(text.includes(Buffer.from("s3cr3t-for-the-edge-only").toString(encoding))).toBe(
          false,
        );
  });
});

/** Like a client without the secret. */
async function fetchPrivate(): Promise<{ readonly status: number | undefined }> {
  const asked = get(`https://127.0.0.1:${apiPort}/hello.git/HEAD`, {
    servername: "api.test",
    rejectUnauthorized: false,
  });
  const [response] = (await once(asked, "response")) as [IncomingMessage];
  response.resume();
  return { status: response.statusCode };
}

/** All files except the disks of sandboxes, which are searched from inside. */
async function everythingIn(place: string): Promise<string> {
  const entries = await readdir(place, { recursive: true, withFileTypes: true });
  const files = entries.filter(
    (entry) => entry.isFile() && !/\/(?:sandboxes|images|templates)(?:\/|$)/.test(entry.parentPath),
  );
  const contents = files.map(({ parentPath, name }) => readFile(join(parentPath, name), "latin1"));
  return (await Promise.all(contents)).join("\n");
}
