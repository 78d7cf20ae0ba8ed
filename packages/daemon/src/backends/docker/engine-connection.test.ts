/** Engines that are reached over ssh and over TLS, and what is refused on the way. */
import { execFile } from "node:child_process";
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { DockerEngine } from "../../../../../tests/support/docker-engine.ts";
import { dockerUnderTest } from "../../../../../tests/support/docker-under-test.ts";
import { testSandbox } from "../../../../../tests/support/sandbox-machine.ts";
import { Engine } from "./engine.ts";
import { connectEngine } from "./engine-connection.ts";
import { DockerImageStore } from "./docker-image-store.ts";
import { DockerMachine } from "./testing/docker-machine.ts";

const run = promisify(execFile);

async function scratch(): Promise<AsyncDisposable & { readonly path: string }> {
  const path = await mkdtemp(join(tmpdir(), "sandkasten-test-"));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

/** Plays ssh to a machine whose engine is the one of this run, and notes how it was called. */
async function fakeSsh(directory: string): Promise<string> {
  const program = join(directory, "ssh");
  await writeFile(
    program,
    `#!/bin/sh
echo "$@" >> ${directory}/calls
exec docker -H ${dockerUnderTest()} system dial-stdio
`,
  );
  await chmod(program, 0o755);
  return program;
}

test("a sandbox on an engine behind ssh works like any other, with volumes", async () => {
  await using directory = await scratch();
  const connection = {
    host: "ssh://builder@engine.example:2222",
    sshProgram: await fakeSsh(directory.path),
  };
  const images = new DockerImageStore({
    connection,
    policy: { allowedImages: [] },
    pullPolicy: "never",
    dockerConfigDir: directory.path,
  });
  await using machine = await DockerMachine.start({
    connection,
    images,
    workspace: { strategy: "auto" },
  });
  const { id } = await machine.create();
  const channel = await machine.backend.open(id);
  await channel.writeFile("large", Buffer.alloc(3_000_000, 7));
  expect((await testSandbox(id, channel).sh("wc -c < large; cat large | tail -c 1")).stdout).toBe(
    "3000000\n\u0007",
  );
  expect((await machine.backend.health()).checks).toContainEqual({
    name: "workspace",
    ok: true,
    detail: expect.stringContaining("volume: the engine is reached over the network"),
  });
  channel.close();
  // SECURITY: never asks, never takes an unknown key for granted, and passes nothing as an option.
  const [call] = (await readFile(join(directory.path, "calls"), "utf8")).split("\n");
  expect(call).toBe(
    "-o BatchMode=yes -o ConnectTimeout=10 -l builder -p 2222 -- engine.example docker system dial-stdio",
  );
});

test("an engine behind ssh that cannot be reached is unreachable", async () => {
  const engine = new Engine({ host: "ssh://nowhere.example", sshProgram: "/bin/false" });
  expect(await engine.answers()).toBe(false);
  await expect(engine.facts()).rejects.toMatchObject({ code: "ENGINE_UNREACHABLE" });
  const missing = new Engine({ host: "ssh://nowhere.example", sshProgram: "/no/such/ssh" });
  expect(await missing.answers()).toBe(false);
});

test("an engine behind TLS is used with the right certificates, and with no others", async () => {
  await using directory = await scratch();
  const [good, other] = [
    await certificates(directory.path, "good"),
    await certificates(directory.path, "other"),
  ];
  const port = await freePort();
  const file = (name: string): string => join(directory.path, "good", name);
  await using _engine = await DockerEngine.start(join(directory.path, "e"), {
    args: [
      "--tlsverify",
      `--tlscacert=${file("ca.pem")}`,
      `--tlscert=${file("server.pem")}`,
      `--tlskey=${file("server-key.pem")}`,
      `--host=tcp://127.0.0.1:${port}`,
    ],
  });
  const host = `tcp://127.0.0.1:${port}`;
  expect(await new Engine({ host, tls: good }).facts()).toMatchObject({ operatingSystem: "linux" });
  for (const tls of [other, { ...other, ca: good.ca }, { ...good, ca: other.ca }])
    await expect(new Engine({ host, tls }).facts()).rejects.toMatchObject({
      code: "ENGINE_UNREACHABLE",
    });
  await expect(new Engine({ host }).facts()).rejects.toThrow(/HTTPS|does not answer/u);
});

test.each(["", "engine", "http://engine", "npipe:////./pipe/docker"])(
  "%j is no way to an engine",
  async (host) => {
    await expect(connectEngine({ host })).rejects.toMatchObject({ code: "UNSUPPORTED" });
  },
);

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { readonly port: number };
  server.close();
  await once(server, "close");
  return port;
}

/** An authority of its own, a server's certificate and a client's. */
async function certificates(
  directory: string,
  name: string,
): Promise<{ readonly ca: string; readonly cert: string; readonly key: string }> {
  const at = join(directory, name);
  await run("mkdir", [at]);
  const openssl = (...args: readonly string[]): Promise<unknown> =>
    run("openssl", [...args], { cwd: at });
  const newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  const subject = (who: string): string[] => ["-subj", `/CN=${name} ${who}`];
  await openssl(
    "req",
    "-x509",
    ...newKey,
    ...subject("ca"),
    "-days",
    "1",
    "-keyout",
    "ca-key.pem",
    "-out",
    "ca.pem",
  );
  for (const [who, usage] of [
    ["server", "serverAuth"],
    ["client", "clientAuth"],
  ] as const) {
    await openssl(
      "req",
      ...newKey,
      ...subject(who),
      "-keyout",
      `${who}-key.pem`,
      "-out",
      `${who}.csr`,
    );
    await writeFile(
      join(at, `${who}.ext`),
      `extendedKeyUsage=${usage}\nsubjectAltName=IP:127.0.0.1\n`,
    );
    await openssl(
      ..."x509 -req -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 1".split(" "),
      "-in",
      `${who}.csr`,
      "-extfile",
      `${who}.ext`,
      "-out",
      `${who}.pem`,
    );
  }
  const read = (file: string): Promise<string> => readFile(join(at, file), "utf8");
  return {
    ca: await read("ca.pem"),
    cert: await read("client.pem"),
    key: await read("client-key.pem"),
  };
}
